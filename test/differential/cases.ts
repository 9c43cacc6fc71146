// The bodies of one seed: one, or a second one that lies in the same memory, over a longer first one.

import { createRng, uniformBody, variedBody } from '../../load/payloads.js'
import { damaged, NOW_MS, type Random, randomBody, seededRandom, event as shortEvent } from '../unit/decode/bodies.ts'
import { changeBytes, type Span } from './change-bytes.ts'
import { changeMembers } from './change-members.ts'
import { moveToAnotherDay } from './clocks.ts'
import { fill, type Layout, layoutOf, type Member, render } from './layout.ts'

export interface Case {
  readonly bodies: readonly Buffer[]
  /** From the start of the memory. */
  readonly offset: number
  /** Repeated on both sides of the first body. */
  readonly around: Buffer
  readonly nowMs: number
}

const AROUND = ['"}]1 0"}]}]\n', '0', '\xff\x80', ' ', '"', '}]}', ',{"type":"track","name":"'].map((text) =>
  Buffer.from(text, 'latin1'),
)
const MAX_OFFSET = 64
const APP_KEY = 'ak_demo'
const BATCH = { events: 1, nowMs: NOW_MS, appKey: APP_KEY }

export function caseOf(seed: number): Case {
  const random = seededRandom(seed)
  const bodies = bodiesOf(random)
  return {
    bodies,
    offset: random(MAX_OFFSET),
    around: AROUND[random(AROUND.length)],
    nowMs: random(20) === 0 ? moveToAnotherDay(random, bodies) : NOW_MS + random(3) - 1,
  }
}

function bodiesOf(random: Random): Buffer[] {
  const kind = random(20)
  if (kind === 0) return [someDamage(random, Buffer.from(randomBody(random)))]
  if (kind === 1) {
    const rng = createRng(random(0x7fffffff))
    const make = random(3) === 0 ? uniformBody : variedBody
    return [someDamage(random, Buffer.from(make({ ...BATCH, rng, events: 1 + random(3) })))]
  }
  return layoutBodies(random)
}

function someDamage(random: Random, body: Buffer): Buffer {
  return random(3) === 0 ? body : damaged(random, body)
}

function layoutBodies(random: Random): Buffer[] {
  const layouts = Array.from({ length: [1, 1, 1, 2, 3][random(5)] }, () => layoutOf(random))
  const events = eventsOf(random, layouts, countOf(random))
  const changed = random(events.length)
  const way = random(8)
  if (way > 1 && way < 6) changeMembers(random, events[changed].members)
  // The change stays in all that follow, so that a layout with it is learnt as well.
  if (way === 2) for (const { members } of events.slice(changed)) changeMembers(random, members)
  const body = bodyWith(random, events, changed)
  const final = way > 4 ? changeBytes(random, body.bytes, body.span) : body.bytes
  if (random(8) > 0 || events.length < 2) return [final]
  return [final, shorter(random, events, final)]
}

interface EventOfLayout {
  readonly members: Member[]
  readonly layout: Layout
}

function countOf(random: Random): number {
  const lot = random(400)
  if (lot === 0) return 20 + random(60)
  if (lot === 1) return 99 + random(3)
  return 1 + random(lot < 200 ? 3 : 6)
}

function eventsOf(random: Random, layouts: readonly Layout[], count: number): EventOfLayout[] {
  const before = new Map<Layout, Member[]>()
  return Array.from({ length: count }, () => {
    const layout = layouts[random(layouts.length)]
    const members = fill(random, layout.slots, before.get(layout) ?? null)
    before.set(layout, members)
    return { members, layout }
  })
}

function bodyWith(
  random: Random,
  events: readonly EventOfLayout[],
  changed: number,
): { readonly bytes: Buffer; readonly span: Span } {
  const texts = events.map(({ members, layout }) => render(members, layout.space))
  if (random(200) === 0) texts[changed] = ['null', '1', '"x"', '[]', '{}', shortEvent()][random(6)]
  const comma = `,${events[0].layout.space}`
  const version = ['"sdk_version":"3.12.0",', '', '"sdk_version":"",', '"extra":[1],'][random(4)]
  const isLast = random(6) === 0
  const head = `{"app_key":"${APP_KEY}",${isLast ? '' : version}"events":[`
  const tail = isLast ? `],"sdk_version":"1","more":{"a":"b"}}` : ']}'
  const start =
    Buffer.byteLength(head) +
    texts.slice(0, changed).reduce((sum, text) => sum + Buffer.byteLength(text) + comma.length, 0)
  return {
    bytes: Buffer.from(head + texts.join(comma) + tail),
    span: { start, end: start + Buffer.byteLength(texts[changed]) },
  }
}

/** A body of fewer bytes than the one before it in the same memory, which ends where that one goes on. */
function shorter(random: Random, events: readonly EventOfLayout[], first: Buffer): Buffer {
  const fewer = events.slice(0, 1 + random(events.length - 1))
  const last = fewer[fewer.length - 1]
  const list = last.members.map((member) => ({ ...member }))
  if (random(2) === 0) changeMembers(random, list)
  const { bytes } = bodyWith(random, [...fewer.slice(0, -1), { ...last, members: list }], 0)
  const cut = random(4) === 0 ? first.subarray(0, random(first.length)) : bytes
  return Buffer.from(cut)
}
