// A plain HTTP client over node:http, and the bodies that tests send with it.

import { Agent, type IncomingHttpHeaders, type IncomingMessage, request } from 'node:http'
import { expect } from 'vitest'

export const EVENTS_PATH = '/api/v1/events'
/** Most bytes in a body. */
export const MAX_BODY_BYTES = 524_288
/** Stands in what tests send, and must stand in no answer. */
export const MARK = 'zq7mark'

export interface Answer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly text: string
  readonly json: Record<string, unknown>
  /** Status line, headers and body together, to search for what must not be there. */
  readonly whole: string
}

export interface Sending {
  readonly method?: string
  readonly path?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string | Uint8Array
  /** Without Content-Length. */
  readonly chunked?: boolean
}

interface Address {
  readonly port: number
}

/** Shorter than the service's own, so that no request meets a connection that is just being closed. */
const IDLE_TIMEOUT_MS = 4_000

const agent = new Agent({ keepAlive: true, maxSockets: 256, timeout: IDLE_TIMEOUT_MS })

function parseObject(text: string): Record<string, unknown> {
  try {
    return JSON.parse(text) as Record<string, unknown>
  } catch {
    return {}
  }
}

function collect(response: IncomingMessage, done: (answer: Answer) => void, fail: (error: Error) => void): void {
  const pieces: Buffer[] = []
  response.on('data', (piece: Buffer) => pieces.push(piece))
  response.on('error', fail)
  response.on('end', () => {
    const text = Buffer.concat(pieces).toString()
    const whole = `${response.statusMessage}\n${response.rawHeaders.join('\n')}\n${text}`
    done({ status: response.statusCode ?? 0, headers: response.headers, text, json: parseObject(text), whole })
  })
}

/** Sends one request as given; by default a POST of JSON to the events path. */
export function send(to: Address, sending: Sending): Promise<Answer> {
  const body = sending.body === undefined ? undefined : Buffer.from(sending.body)
  const headers: Record<string, string> = { 'Content-Type': 'application/json', ...sending.headers }
  if (body && !sending.chunked) headers['Content-Length'] = String(body.length)
  if (sending.chunked) headers['Transfer-Encoding'] = 'chunked'
  for (const [name, value] of Object.entries(headers)) if (value === '(none)') delete headers[name]
  return new Promise((done, fail) => {
    const outgoing = request({
      host: '127.0.0.1',
      port: to.port,
      method: sending.method ?? 'POST',
      path: sending.path ?? EVENTS_PATH,
      headers,
      agent,
    })
    let answered = false
    outgoing.on('response', (response) => {
      answered = true
      collect(response, done, fail)
    })
    // An answer given before the whole body was sent may break the sending: the answer still counts.
    outgoing.on('error', (error) => {
      if (!answered) fail(error)
    })
    outgoing.end(body)
  })
}

/** Posts a body to the events path. */
export function post(to: Address, body: string | Uint8Array, headers: Record<string, string> = {}): Promise<Answer> {
  return send(to, { body, headers })
}

export function get(port: number, path: string): Promise<Answer> {
  return send({ port }, { method: 'GET', path, headers: { 'Content-Type': '(none)' } })
}

export type Members = Record<string, unknown>

/** An event that fits, with what a test wants changed; `undefined` takes a member away. */
export function event(changes: Members = {}): Members {
  return {
    type: 'track',
    name: 'signup',
    hashed_daily_id: 'd'.repeat(32),
    hashed_monthly_id: 'm'.repeat(32),
    session_id: '7f0e0bb2-6c3a-4d5e-9a53-2a6a4d1c9a10',
    timestamp: new Date().toISOString(),
    context: { os: 'ios' },
    ...changes,
  }
}

export function events(count: number, changes: Members = {}): Members[] {
  return Array.from({ length: count }, () => event(changes))
}

/** The text of a body with so many events. */
export function batch(appKey: string, count = 1, changes: Members = {}): string {
  return JSON.stringify({ app_key: appKey, events: events(count), ...changes })
}

/** The text of a body with one event. */
export function single(appKey: string, changes: Members = {}): string {
  return JSON.stringify({ app_key: appKey, events: [event(changes)] })
}

/** A body that fits, of exactly so many bytes. */
export function bodyOfSize(appKey: string, bytes: number): string {
  const bare = JSON.stringify({ app_key: appKey, events: [event()], padding: '' })
  return JSON.stringify({ app_key: appKey, events: [event()], padding: 'p'.repeat(bytes - bare.length) })
}

export interface Figures {
  readonly limit: number
  readonly remaining: number
  readonly reset: number
}

/** What the three X-RateLimit headers say. */
export function figures(answer: Answer): Figures {
  return {
    limit: Number(answer.headers['x-ratelimit-limit']),
    remaining: Number(answer.headers['x-ratelimit-remaining']),
    reset: Number(answer.headers['x-ratelimit-reset']),
  }
}

/** What holds of every answer on every path of the public port. */
export function expectSound(answer: Answer): void {
  expect(answer.headers['content-type'] ?? '', 'Content-Type').toMatch(/^application\/json\b/)
  for (const name of ['x-ratelimit-limit', 'x-ratelimit-remaining', 'x-ratelimit-reset']) {
    expect(answer.headers[name] ?? '', name).toMatch(/^\d+$/)
  }
  const { limit, remaining, reset } = figures(answer)
  expect(remaining).toBeLessThanOrEqual(limit)
  expect(reset % 60, 'the window is a UTC minute').toBe(0)
  const nowSeconds = Date.now() / 1000
  expect(reset).toBeGreaterThan(nowSeconds - 5)
  expect(reset).toBeLessThanOrEqual(nowSeconds + 61)
  expect(answer.whole.toLowerCase(), 'nothing that was sent is repeated').not.toContain(MARK)
  if (answer.status === 429 || answer.status === 503) {
    expect(answer.headers['retry-after'] ?? '', 'Retry-After').toMatch(/^[1-9]\d*$/)
  } else {
    expect(answer.headers['retry-after'], 'Retry-After').toBeUndefined()
  }
}

/** Ids of refusals that were seen. */
const requestIds = new Set<string>()

/** A sound answer with this status and code, with `errors` where the body does not fit the schema, and nothing else. */
export function expectRefused(answer: Answer, status: number, code: string, message?: string): void {
  expect({ status: answer.status, error: answer.json['error'], text: answer.text }).toMatchObject({
    status,
    error: code,
  })
  expectSound(answer)
  const about = String(answer.json['message'])
  const isAboutBody = code === 'validation_failed' && /^(body|app_key|sdk_version|events)\b/.test(about)
  const members = isAboutBody ? ['error', 'message', 'errors', 'errors_total'] : ['error', 'message']
  if (['bytes', 'origin'].includes(String(answer.json['reason']))) members.push('reason')
  if (isAboutBody && 'invalid_events' in answer.json) members.push('invalid_events')
  expect(Object.keys(answer.json).toSorted()).toEqual(members.toSorted())
  if (isAboutBody) expectErrors(answer, about)
  expect(about.length).toBeGreaterThan(0)
  expect(answer.headers['x-batch-id']).toBeUndefined()
  const requestId = String(answer.headers['x-request-id'])
  expect(uuidVersion(requestId), 'X-Request-Id').toBe(7)
  expect(requestIds.has(requestId), 'X-Request-Id is fresh').toBe(false)
  requestIds.add(requestId)
  if (message !== undefined) expect(answer.json['message']).toBe(message)
}

export interface BodyErrors {
  readonly errors: readonly {
    readonly path: string
    readonly message: string
    readonly code: string
    readonly event?: number
  }[]
  readonly errors_total: number
  readonly invalid_events?: readonly number[]
}

/** The first of at most 20 is the one that the message names, and the total counts those that are not listed too. */
function expectErrors(answer: Answer, about: string): void {
  const { errors, errors_total: total, invalid_events: invalid } = answer.json as unknown as BodyErrors
  expect(`${errors[0]?.path}: ${errors[0]?.message}`).toBe(about)
  expect(total).toBeLessThanOrEqual(1000)
  expect(errors).toHaveLength(Math.min(total, 20))
  for (const { path, event, ...one } of errors) {
    const [, place] = /^events\[(\d+)\]/.exec(path) ?? []
    expect(event).toBe(place === undefined ? undefined : Number(place))
    if (event === undefined) expect(invalid).toBeUndefined()
    else if (invalid !== undefined) expect(invalid).toContain(event)
    expect(Object.keys(one)).toEqual(['message', 'code'])
  }
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-([0-9a-f])[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

export function uuidVersion(text: unknown): number {
  const found = UUID.exec(String(text))
  return found ? Number.parseInt(found[1] ?? '', 16) : -1
}

/** A sound 202 for so many events; a replay or not. Returns its batch id. */
export function expectAccepted(answer: Answer, count: number, deduplicated = false): string {
  expect({ status: answer.status, text: answer.text }).toMatchObject({ status: 202 })
  expectSound(answer)
  expect(answer.json).toEqual({ status: 'accepted', events: count, ...(deduplicated ? { deduplicated: true } : {}) })
  const batchId = String(answer.headers['x-batch-id'])
  expect(uuidVersion(batchId)).toBeGreaterThan(0)
  return batchId
}
