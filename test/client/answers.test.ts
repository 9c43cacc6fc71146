// What an SDK does with each answer: openapi.yaml (`x-sdk`) and docs/sdk.md say the same, of every answer there is, and the
// client does it.

import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { describe, expect, it, test } from 'vitest'
import { parse } from 'yaml'
import { MAX_BODY_BYTES, MAX_EVENTS } from '../../src/contract/bounds.ts'
import { foreignPage } from '../../src/contract/outcome.ts'
import type { Behaviour, Request } from './support/double.ts'
import { createRig, trackMany } from './support/rig.ts'

const ROOT = resolve(import.meta.dirname, '../..')
const SECOND_MS = 1000
const HOUR_MS = 3600 * SECOND_MS
const RETRY_AFTER_SECONDS = 40
const ANSWER_TIMEOUT_MS = 30 * SECOND_MS
/** By the rig's chance of a half: 3 s, less a quarter. */
const BACKOFF_MS = 2250
/** The examples of openapi.yaml name the events 3 and 7. */
const EVENTS = 8

/** What of an answer, or of its batch, a row wants beside the status. */
type Condition =
  | { readonly header: string; readonly value: string }
  | { readonly member: string; readonly value?: string }
  | { readonly events_above: number | string }

interface Row {
  readonly status: string
  readonly code?: string
  readonly when?: Condition
  readonly action: 'done' | 'drop' | 'drop_events' | 'keep' | 'wait'
  readonly header?: string
  readonly split?: 'halves'
  readonly retry?: 'at_once' | 'header' | 'backoff'
  readonly key?: 'same' | 'new'
  readonly report?: string
  readonly tell?: string
}

/** Each action with the members that say what it wants, and no others but `tell` beside them. */
const MEMBERS: Record<Row['action'], readonly (readonly string[])[]> = {
  done: [[]],
  drop: [['report']],
  drop_events: [['key', 'report', 'retry']],
  keep: [
    ['key', 'retry'],
    ['key', 'retry', 'split'],
  ],
  wait: [['header', 'key', 'retry']],
}

interface Documented {
  readonly content: { 'application/json': { example?: Example; examples?: Record<string, { value: Example }> } }
}
type Example = { readonly error?: string; readonly message?: string; readonly deduplicated?: boolean }

const {
  'x-sdk': ROWS,
  'x-sdk-rules': RULES,
  responses,
} = (
  parse(readFileSync(resolve(ROOT, 'openapi.yaml'), 'utf8')) as {
    paths: {
      '/api/v1/events': { post: { 'x-sdk': Row[]; 'x-sdk-rules': object; responses: Record<string, Documented> } }
    }
  }
).paths['/api/v1/events'].post

/** Answers as openapi.yaml shows them. */
const EXAMPLES = Object.entries(responses).flatMap(([status, { content }]) => {
  const { example, examples = { only: { value: example! } } } = content['application/json']
  return Object.values(examples).map(({ value }) => ({ status, value }))
})

function inWords(when: Condition): string {
  if ('header' in when) return `\`${when.header}: ${when.value}\``
  if ('member' in when)
    return when.value === undefined ? `with \`${when.member}\`` : `\`${when.member}\` is \`${when.value}\``
  return when.events_above === 1 ? 'two events or more' : `more events than \`${when.events_above}\``
}

function nameOf({ status, code, when }: Row): string {
  const statuses: Record<string, string> = { '4XX': 'another 4xx', none: 'no answer', default: 'any other' }
  return [statuses[status] ?? status, code && `\`${code}\``, when && `(${inWords(when)})`].filter(Boolean).join(' ')
}

function lineOf(row: Row): string {
  const header = row.header && `\`${row.header}\``
  const action = [`\`${row.action}\``, header, row.split && `in ${row.split}`].filter(Boolean).join(', ')
  const retry = [row.retry?.replace('_', ' '), row.key && `${row.key} key`].filter(Boolean).join(', ')
  const report = row.report === undefined ? '' : `\`${row.report}\``
  return `| ${[nameOf(row), action, retry, report, row.tell ?? ''].join(' | ')} |`.replaceAll(/ {2,}/g, ' ')
}

/** An answer as openapi.yaml has it for this status and code. */
function answerOf(
  { status, code }: Row,
  headers: Record<string, string>,
  fits?: (example: Example) => boolean,
): Behaviour {
  const found = EXAMPLES.find((one) => one.status === status && one.value.error === code && fits?.(one.value) !== false)
  if (found === undefined) throw new Error(`openapi.yaml has no such example of ${status} ${code}`)
  return { status: Number(status), headers: { 'X-RateLimit-Limit': '500', ...headers }, body: found.value }
}

/** As the service says it. */
const pageRefusal = foreignPage('https://shop.example.com') as { readonly reason: string }

const foreign = (...statuses: number[]): Behaviour[] => statuses.map((status) => ({ status, body: 'a proxy says so' }))

/** Whatever brings this row about. */
function behavioursOf(row: Row): Behaviour[] {
  const { status, code, when, header } = row
  if (status === 'none') return ['unreachable', 'lose answer', 'hang']
  if (status === '4XX') return foreign(409, 410, 418, 431, 451)
  if (status === 'default') return foreign(200, 204, 302, 500, 502, 504)
  if (status === '202') {
    if (when !== undefined) return [answerOf(row, { 'Sluice-Replay': 'other' }, isReplay)]
    const replays = [{}, { 'Sluice-Replay': 'same' }, { 'Sluice-Replay': 'unknown' }]
    return [
      answerOf(row, {}, (example) => !isReplay(example)),
      ...replays.map((headers) => answerOf(row, headers, isReplay)),
    ]
  }
  // Not from sluice.
  if (code === undefined) return foreign(Number(status))
  if (header !== undefined)
    return (
      row.retry === 'backoff'
        ? ['1', String(RETRY_AFTER_SECONDS)]
        : [String(RETRY_AFTER_SECONDS), 'Fri, 31 Dec 1999 23:59:59 GMT', null]
    ).map((wait) => answerOf(row, wait === null ? {} : { [header]: wait }))
  if (when !== undefined && 'member' in when && when.value !== undefined)
    return [{ status: 401, body: { error: code, message: 'its words may change', reason: pageRefusal.reason } }]
  if (when !== undefined && 'events_above' in when && typeof when.events_above === 'string')
    return [answerOf(row, { 'Retry-After': String(RETRY_AFTER_SECONDS), [when.events_above]: String(EVENTS / 2) })]
  const hasMember = (example: Example): boolean => 'invalid_events' in example
  return [answerOf(row, {}, (example) => status !== '400' || hasMember(example) === (when !== undefined))]
}

const isReplay = ({ deduplicated = false }: Example): boolean => deduplicated

/** Of a 413, which has a row for one event. */
const eventsOf = ({ status, when }: Row): number => (status === '413' && when === undefined ? 1 : EVENTS)

/** The first request is answered so, and each one after it as a service that is well does. */
async function play(row: Row, behaviour: Behaviour) {
  const { client, timers, double, dropped } = createRig()
  double.behave(behaviour)
  trackMany(client, eventsOf(row))
  await timers.pass(HOUR_MS)
  return { requests: double.requests, storedIds: double.storedIds(), dropped }
}

function expectBatch(row: Row, { requests, storedIds, dropped }: Awaited<ReturnType<typeof play>>): void {
  const [first, ...later] = requests
  const all = first.body.events.map((event) => event.event_id)
  const droppedIds = dropped.flatMap(({ ids }) => ids)
  expect(dropped.map(({ reason }) => reason)).toEqual(row.report === undefined ? [] : [row.report])
  if (row.split !== undefined) expect(later.map(({ body }) => body.events.length)).toEqual([EVENTS / 2, EVENTS / 2])
  switch (row.action) {
    case 'done':
      return expect(droppedIds).toEqual([])
    case 'drop':
      return expect(droppedIds).toEqual(all)
    case 'drop_events':
      expect(droppedIds).toEqual([all[3], all[7]])
      return expect(storedIds).toEqual(all.filter((id) => !droppedIds.includes(id)))
    case 'keep':
    case 'wait':
      if (row.key === 'same') expect(later.map(({ text }) => text)).toEqual([first.text])
      return expect(storedIds).toEqual(all)
  }
}

function expectRetry(row: Row, behaviour: Behaviour, requests: readonly Request[]): void {
  const [first, ...later] = requests
  const waitedMs = (later[0]?.atMs ?? Infinity) - first.atMs - (behaviour === 'hang' ? ANSWER_TIMEOUT_MS : 0)
  const retryAfter = typeof behaviour === 'object' ? Number(behaviour.headers?.['Retry-After']) : 0
  if (row.key !== undefined)
    expect(later.map(({ key }) => key === first.key)).toEqual(later.map(() => row.key === 'same'))
  switch (row.retry) {
    case undefined:
      return expect(later).toEqual([])
    case 'at_once':
      return expect(waitedMs).toBe(0)
    case 'header':
      // It does not say how long.
      if (Number.isNaN(retryAfter)) return expect(waitedMs).toBe(BACKOFF_MS)
      expect(waitedMs).toBeGreaterThanOrEqual(retryAfter * SECOND_MS)
      return expect(waitedMs).toBeLessThan(retryAfter * SECOND_MS * 1.05)
    case 'backoff':
      if (row.header === undefined) return expect(waitedMs).toBe(BACKOFF_MS)
      return expect(Math.floor(waitedMs / SECOND_MS)).toBe(retryAfter === 1 ? 2 : retryAfter + 1)
  }
}

describe('what an SDK does with an answer', () => {
  test('is in openapi.yaml for each status and code that it has', () => {
    const documented = EXAMPLES.map(({ status, value }) => `${status} ${value.error ?? ''}`)
    const rows = ROWS.filter(({ status }) => status in responses).map(({ status, code }) => `${status} ${code ?? ''}`)
    expect([...new Set(rows)].toSorted()).toEqual([...new Set(documented)].toSorted())
  })

  test('is said by members alone: each action has those that it needs', () => {
    for (const { status, code, when, tell, action, ...members } of ROWS) {
      const has = Object.keys(members).toSorted().join(' ')
      expect(
        MEMBERS[action].map((names) => names.join(' ')),
        `${status} ${code}`,
      ).toContain(has)
      expect(tell ?? '', 'words that a program would have to read').not.toMatch(/Retry-After|X-RateLimit/)
      if (when !== undefined)
        expect(Object.keys(when).join(' ')).toMatch(/^(header value|member|member value|events_above)$/)
    }
  })

  test('is found by the first row that fits: one without a condition ends those of its status', () => {
    const seen = new Map<string, Row>()
    for (const row of ROWS) {
      const last = seen.get(row.status)
      const { action, header } = last ?? row
      // Rows of several codes say the same to who knows the status alone.
      if (last?.when === undefined) expect([row.action, row.header], nameOf(row)).toEqual([action, header])
      seen.set(row.status, row)
    }
    expect([...seen.values()].filter(({ when }) => when !== undefined)).toEqual([])
    expect([...seen.keys()].slice(-3)).toEqual(['4XX', 'none', 'default'])
  })

  test('has bounds, which are those of the service', () => {
    expect(RULES).toMatchObject({ max_events: MAX_EVENTS, max_bytes: MAX_BODY_BYTES, key_life_seconds: 300 })
    expect(RULES).toMatchObject({ answer_timeout_seconds: ANSWER_TIMEOUT_MS / SECOND_MS, max_wait_seconds: 86_400 })
  })

  test('is a table in docs/sdk.md, the same', () => {
    const lines = readFileSync(resolve(ROOT, 'docs/sdk.md'), 'utf8').split('\n')
    expect(lines.filter((line) => /^\| (\d{3}|another 4xx|no answer|any other) /.test(line))).toEqual(ROWS.map(lineOf))
  })

  it.each(ROWS.map((row) => ({ name: nameOf(row), row })))('is what the client does: $name', async ({ row }) => {
    for (const behaviour of behavioursOf(row)) {
      const played = await play(row, behaviour)
      expectBatch(row, played)
      expectRetry(row, behaviour, played.requests)
    }
  })
})
