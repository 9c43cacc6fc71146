// Random histories of nodes that have a spool: NATS goes for seconds to hours, for all nodes or for one, nodes are killed while they
// spool and while they send, Redis goes or is emptied meanwhile, and NATS comes back without its end.

import type { AppRecord } from '../../../src/apps/app-record.ts'
import { EVENTS_STREAM } from '../../../src/nats/store-names.ts'
import type { History, Send, Step } from '../history.ts'
import { Random } from '../random.ts'

const MINUTE_MS = 60_000
const NOON_MS = Date.UTC(2026, 10, 20, 12)
const MONTH_TURN_MS = Date.UTC(2026, 11, 1)
/** A node is back before its events would be given out again. */
const MAX_GONE_MS = 60_000

export function generateSpool(seed: number): History {
  const random = new Random(seed)
  const nodes = random.int(1, 3)
  const outageMs = random.pick([3, 20, 60, 150, 400, 1500, 7200]) * 1000
  const fromMs = random.int(5000, 70_000)
  const backMs = fromMs + outageMs
  const endMs = backMs + random.int(3, 60) * 1000
  const apps = Array.from({ length: random.int(1, 3) }, (_, at) => generateApp(random, at))
  const steps: Step[] = []
  for (let count = random.int(5, 16); count > 0; count--)
    steps.push(generateSend(random, apps.length, random.int(500, endMs - 1000)))
  // Near the beginning of the outage, within it, and while the spool is sent.
  for (const atMs of [fromMs - 5, fromMs + 50, fromMs + 700, random.int(fromMs, backMs), backMs + 20, backMs + 500])
    if (random.chance(0.7)) steps.push(generateSend(random, apps.length, atMs))
  steps.push(...outage(random, { fromMs, outageMs, nodes }))
  for (let count = random.int(0, 3); count > 0; count--)
    steps.push(...trouble(random, { fromMs, backMs, endMs, nodes }))
  steps.sort((one, other) => one.atMs - other.atMs)
  const epochMs = (random.chance(0.2) ? MONTH_TURN_MS : NOON_MS) - random.int(0, endMs)
  const isSynced = seed % 2 === 1 && !steps.some(({ kind }) => kind === 'nats lost its tail')
  return { name: 'spool', seed, epochMs, nodes, hasSpools: true, ...(isSynced && { isSynced }), apps, steps, endMs }
}

interface Outage {
  readonly fromMs: number
  readonly outageMs: number
  readonly nodes: number
}

function outage(random: Random, { fromMs, outageMs, nodes }: Outage): Step[] {
  const when = { atMs: fromMs, forMs: outageMs }
  switch (random.int(0, 7)) {
    case 0:
      return [{ ...when, kind: 'path', node: random.int(0, nodes - 1), to: 'nats', state: 'cut' }]
    case 1:
      return [{ ...when, kind: 'path', node: random.int(0, nodes - 1), to: 'nats', state: 'silent' }]
    case 2: {
      // It comes and goes.
      const times = random.int(2, 5)
      const eachMs = Math.floor(outageMs / times)
      return Array.from({ length: times }, (_, at) => ({
        atMs: fromMs + at * eachMs,
        kind: random.pick(['nats killed', 'nats frozen', 'nats silent'] as const),
        forMs: Math.max(100, Math.floor(eachMs * random.pick([0.2, 0.5, 0.9]))),
      }))
    }
    case 3:
      return [{ ...when, kind: 'acks lost', share: random.pick([0.3, 1]) }]
    default:
      return [
        {
          ...when,
          kind: random.pick(['nats killed', 'nats frozen', 'nats full', 'nats without leader', 'nats silent'] as const),
        },
      ]
  }
}

interface Span {
  readonly fromMs: number
  readonly backMs: number
  readonly endMs: number
  readonly nodes: number
}

function trouble(random: Random, { fromMs, backMs, endMs, nodes }: Span): Step[] {
  // While it spools, or while it sends.
  const atMs = random.chance(0.5) ? random.int(fromMs, backMs) : backMs + random.pick([5, 30, 60, 120, 500, 2000])
  const node = random.int(0, nodes - 1)
  switch (random.int(0, 6)) {
    case 0:
    case 1:
      return [
        { atMs, kind: 'kill', node },
        { atMs: atMs + random.int(100, MAX_GONE_MS), kind: 'start' },
      ]
    case 2:
      return [
        { atMs, kind: 'stop', node },
        { atMs: atMs + random.int(3000, MAX_GONE_MS), kind: 'start' },
      ]
    case 3:
      return [
        {
          atMs,
          kind: 'redis killed',
          comesBack: random.pick(['with all', 'empty']),
          forMs: random.pick([300, 4000, 20_000]),
        },
      ]
    case 4:
      return [{ atMs, kind: 'redis emptied' }]
    case 5:
      return [
        {
          atMs: Math.min(endMs - 10, backMs + random.int(100, 5000)),
          kind: 'nats lost its tail',
          stream: EVENTS_STREAM,
          tailMs: random.pick([500, 5000, 30_000]),
          forMs: 200,
        },
      ]
    default:
      return [{ atMs, kind: 'stall', node, forMs: random.pick([50, 300, 1500]) }]
  }
}

function generateApp(random: Random, at: number): AppRecord {
  return {
    app_key: `ak_${at}`,
    app_id: `app${at}`,
    plan: '500k',
    subscription: 'active',
    ...(random.chance(0.5) ? { events_per_minute: random.int(20, 300) } : {}),
    ...(random.chance(0.4) ? { events_per_day: random.int(50, 500) } : {}),
    ...(random.chance(0.3) ? { events_per_month: random.int(50, 800) } : {}),
  }
}

function generateSend(random: Random, apps: number, atMs: number): Step & Send {
  const keyed = random.chance(0.6)
  return {
    atMs: Math.max(500, atMs),
    kind: 'send',
    app: random.int(0, apps - 1),
    node: random.int(0, 2),
    batches: random.pick([1, 3, 5, 10, 25, 40]),
    gapMs: random.pick([0, 1, 20, 100, 400, Math.floor(MINUTE_MS / 20)]),
    events: random.pick([1, 1, 2, 5, 10]),
    keyed,
    tries: random.int(1, 4),
    retryAfterMs: random.pick([50, 500, 2500]),
    retryOn: random.int(0, 1),
    replays: keyed && random.chance(0.4) ? random.int(1, 2) : 0,
  }
}
