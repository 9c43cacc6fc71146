// What an SDK does with each answer: openapi.yaml (`x-sdk`) and docs/sdk.md say the same, of every answer there is, and the
// client does it.

import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { describe, expect, it, test } from 'vitest'
import { parse } from 'yaml'
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

interface Row {
  readonly status: string
  readonly code?: string
  readonly when?: string
  readonly batch: 'stored' | 'keep' | 'drop' | 'drop the events of `invalid_events`' | 'halve'
  readonly again: 'never' | 'at once' | 'after Retry-After' | 'with backoff' | 'with backoff, after Retry-After'
  readonly key?: 'same' | 'new'
  readonly report?: string
  readonly tell?: string
}

interface Documented {
  readonly content: { 'application/json': { example?: Example; examples?: Record<string, { value: Example }> } }
}
type Example = { readonly error?: string; readonly message?: string; readonly deduplicated?: boolean }

const { 'x-sdk': ROWS, responses } = (
  parse(readFileSync(resolve(ROOT, 'openapi.yaml'), 'utf8')) as {
    paths: { '/api/v1/events': { post: { 'x-sdk': Row[]; responses: Record<string, Documented> } } }
  }
).paths['/api/v1/events'].post

/** Answers as openapi.yaml shows them. */
const EXAMPLES = Object.entries(responses).flatMap(([status, { content }]) => {
  const { example, examples = { only: { value: example! } } } = content['application/json']
  return Object.values(examples).map(({ value }) => ({ status, value }))
})

function nameOf({ status, code, when }: Row): string {
  return [status, code && `\`${code}\``, when && `(${when})`].filter(Boolean).join(' ')
}

function lineOf(row: Row): string {
  const again = row.key === undefined ? row.again : `${row.again}, ${row.key} key`
  const report = row.report === undefined ? '' : `\`${row.report}\``
  return `| ${[nameOf(row), row.batch, again, report, row.tell ?? ''].join(' | ')} |`.replaceAll(/ {2,}/g, ' ')
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

/** Whatever brings this row about. */
function behavioursOf(row: Row): Behaviour[] {
  const hasInvalidEvents = (example: Example): boolean => 'invalid_events' in example
  const isReplay = ({ deduplicated = false }: Example): boolean => deduplicated
  const statuses = (...list: number[]): Behaviour[] => list.map((status) => ({ status, body: 'a proxy says so' }))
  switch (row.when) {
    case undefined: {
      const seconds = row.again === 'with backoff, after Retry-After' ? [1, RETRY_AFTER_SECONDS] : [RETRY_AFTER_SECONDS]
      return seconds.map((wait) => answerOf(row, { 'Retry-After': String(wait) }, (example) => !isReplay(example)))
    }
    case '`deduplicated`, without `Sluice-Replay` or with `same` or `unknown`':
      return [{}, { 'Sluice-Replay': 'same' }, { 'Sluice-Replay': 'unknown' }].map((headers) =>
        answerOf(row, headers, isReplay),
      )
    case '`deduplicated`, with `Sluice-Replay: other`':
      return [answerOf(row, { 'Sluice-Replay': 'other' }, isReplay)]
    case 'with `invalid_events`':
      return [answerOf(row, {}, hasInvalidEvents)]
    case 'without `invalid_events`':
      return [answerOf(row, {}, (example) => !hasInvalidEvents(example))]
    case '`reason` is `origin`':
      return [
        {
          status: 401,
          body: { error: 'invalid_app_key', message: 'its words may change', reason: pageRefusal.reason },
        },
      ]
    case 'two events or more':
    case 'one event':
      return [answerOf(row, {})]
    case 'more events than `X-RateLimit-Limit`':
      return [answerOf(row, { 'Retry-After': String(RETRY_AFTER_SECONDS), 'X-RateLimit-Limit': String(EVENTS / 2) })]
    case 'no answer within 30 s, or no connection':
      return ['unreachable', 'lose answer', 'hang']
    case 'not from sluice':
      return row.status === '403' ? statuses(403) : statuses(200, 204, 302, 408, 500, 502, 504)
    case 'not from sluice, but for 408':
      return statuses(409, 410, 418, 431, 451)
    default:
      throw new Error(`a row that no test brings about: ${row.when}`)
  }
}

/** The first request is answered so, and each one after it as a service that is well does. */
async function play(row: Row, behaviour: Behaviour) {
  const { client, timers, double, dropped } = createRig()
  double.behave(behaviour)
  trackMany(client, row.when === 'one event' ? 1 : EVENTS)
  await timers.pass(HOUR_MS)
  return { requests: double.requests, storedIds: double.storedIds(), dropped }
}

function expectBatch(row: Row, { requests, storedIds, dropped }: Awaited<ReturnType<typeof play>>): void {
  const [first, ...later] = requests
  const all = first.body.events.map((event) => event.event_id)
  const droppedIds = dropped.flatMap(({ ids }) => ids)
  expect(dropped.map(({ reason }) => reason)).toEqual(row.report === undefined ? [] : [row.report])
  switch (row.batch) {
    case 'stored':
      return expect(droppedIds).toEqual([])
    case 'drop':
      return expect(droppedIds).toEqual(all)
    case 'drop the events of `invalid_events`':
      expect(droppedIds).toEqual([all[3], all[7]])
      return expect(storedIds).toEqual(all.filter((id) => !droppedIds.includes(id)))
    case 'halve':
      expect(later.map(({ body }) => body.events.length)).toEqual([EVENTS / 2, EVENTS / 2])
      return expect(storedIds).toEqual(all)
    case 'keep':
      expect(later.map(({ text }) => text)).toEqual([first.text])
      return expect(storedIds).toEqual(all)
  }
}

function expectRetry(row: Row, behaviour: Behaviour, requests: readonly Request[]): void {
  const [first, ...later] = requests
  const waitedMs = (later[0]?.atMs ?? Infinity) - first.atMs - (behaviour === 'hang' ? ANSWER_TIMEOUT_MS : 0)
  const retryAfter = typeof behaviour === 'object' ? Number(behaviour.headers?.['Retry-After']) : 0
  if (row.key !== undefined)
    expect(later.map(({ key }) => key === first.key)).toEqual(later.map(() => row.key === 'same'))
  switch (row.again) {
    case 'never':
      return expect(later).toEqual([])
    case 'at once':
      return expect(waitedMs).toBe(0)
    case 'after Retry-After':
      expect(waitedMs).toBeGreaterThanOrEqual(retryAfter * SECOND_MS)
      return expect(waitedMs).toBeLessThan(retryAfter * SECOND_MS * 1.05)
    case 'with backoff':
      return expect(waitedMs).toBe(BACKOFF_MS)
    case 'with backoff, after Retry-After':
      return expect(Math.floor(waitedMs / SECOND_MS)).toBe(retryAfter === 1 ? 2 : retryAfter + 1)
  }
}

describe('what an SDK does with an answer', () => {
  test('is in openapi.yaml for each status and code that it has', () => {
    const documented = EXAMPLES.map(({ status, value }) => `${status} ${value.error ?? ''}`)
    const rows = ROWS.filter(({ status }) => status in responses).map(({ status, code }) => `${status} ${code ?? ''}`)
    expect([...new Set(rows)].toSorted()).toEqual([...new Set(documented)].toSorted())
  })

  test('is a table in docs/sdk.md, the same', () => {
    const lines = readFileSync(resolve(ROOT, 'docs/sdk.md'), 'utf8').split('\n')
    expect(lines.filter((line) => line.startsWith('| ')).slice(1)).toEqual(ROWS.map(lineOf))
  })

  it.each(ROWS.map((row) => ({ name: nameOf(row), row })))('is what the client does: $name', async ({ row }) => {
    for (const behaviour of behavioursOf(row)) {
      const played = await play(row, behaviour)
      expectBatch(row, played)
      expectRetry(row, behaviour, played.requests)
    }
  })
})
