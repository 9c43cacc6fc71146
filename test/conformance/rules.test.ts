// The kit's rules are those of openapi.yaml: for each answer the first row of x-sdk that fits.

import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { expect, it } from 'vitest'
import { parse } from 'yaml'
import { ruleOf, waitOf } from '../../clients/conformance/rules.js'

interface Row {
  readonly status: string
  readonly when?: { header?: string; member?: string; value?: string; events_above?: number | string }
  readonly action: string
  readonly header?: string
  readonly retry?: string
  readonly key?: string
  readonly report?: string
}
type Answer = Parameters<typeof ruleOf>[0]

const text = readFileSync(resolve(import.meta.dirname, '../../openapi.yaml'), 'utf8')
const { 'x-sdk': ROWS, 'x-sdk-rules': RULES } = (
  parse(text) as {
    paths: { '/api/v1/events': { post: { 'x-sdk': Row[]; 'x-sdk-rules': { backoff: Record<string, number> } } } }
  }
).paths['/api/v1/events'].post

function fits({ status, when }: Row, answer: Answer, count: number): boolean {
  const said = answer.status === null ? 'none' : String(answer.status)
  if (status !== said && status !== 'default' && !(status === '4XX' && /^4\d\d$/.test(said))) return false
  if (when === undefined) return true
  const body = Object(answer.body) as Record<string, unknown>
  if (when.header !== undefined) return answer.headers[when.header] === when.value
  if (when.member !== undefined)
    return when.value === undefined ? when.member in body : body[when.member] === when.value
  const most =
    typeof when.events_above === 'number' ? when.events_above : Number(answer.headers[when.events_above!] ?? Infinity)
  return count > most
}

const STATUSES = [
  null,
  200,
  202,
  204,
  302,
  400,
  401,
  402,
  403,
  404,
  405,
  408,
  409,
  413,
  415,
  418,
  429,
  431,
  500,
  502,
  503,
  504,
]
const HEADERS = [
  {},
  { 'Sluice-Replay': 'other' },
  { 'Sluice-Replay': 'same' },
  { 'X-RateLimit-Limit': '4' },
  { 'Retry-After': '7' },
  { 'Retry-After': 'Fri, 31 Dec 1999 23:59:59 GMT' },
]
const BODIES = ['a proxy says so', { invalid_events: [0] }, { reason: 'origin' }, { reason: 'bytes' }]

it.each(STATUSES)('what follows from %s', (status) => {
  for (const headers of HEADERS as Record<string, string>[])
    for (const body of BODIES)
      for (const count of [1, 4, 5]) {
        const answer = { status, headers, body }
        const { action, header, key, report, ...row } = ROWS.find((one) => fits(one, answer, count))!
        const isTold = /^\d+$/.test(headers[header ?? ''] ?? '')
        const retry = row.retry === 'header' && !isTold ? 'backoff' : row.retry
        const wanted = Object.entries({ action, retry, key, report }).filter(([, value]) => value !== undefined)
        expect(ruleOf(answer, count), JSON.stringify({ answer, count })).toEqual(Object.fromEntries(wanted))
      }
})

it('the waits are those of x-sdk-rules', () => {
  const { first_seconds, factor, jitter } = RULES.backoff
  const answer = { status: 503, headers: { 'Retry-After': '7' }, body: {} }
  for (const failures of [1, 2, 3])
    expect(waitOf(ruleOf(answer, 1), answer, failures)).toEqual({
      retryAfterMs: 7000,
      backoffMs: first_seconds * factor ** (failures - 1) * (1 - jitter) * 1000,
    })
  // A date is no seconds: the least wait is the backoff's.
  const dated = { ...answer, status: 429, headers: { 'Retry-After': 'Fri, 31 Dec 1999 23:59:59 GMT' } }
  expect(waitOf(ruleOf(dated, 1), dated, 1)).toEqual({
    retryAfterMs: 0,
    backoffMs: first_seconds * (1 - jitter) * 1000,
  })
})
