// A double of the service, for beacons and for what the service does only when it is ill. It answers in the service's order:
// keys first, then the body, then the limits.

import { gunzipSync } from 'node:zlib'

export interface SentEvent {
  readonly event_id: string
  readonly name: string
  readonly session_id: string
  readonly hashed_retention_id: string
  readonly timestamp: string
  readonly client_timestamp?: string
  readonly clock_correction_ms?: number
  readonly properties?: { readonly bad?: string }
}

export interface SentBody {
  readonly app_key: string
  readonly sdk_version: string
  readonly client_report?: { readonly dropped: Record<string, number> }
  readonly events: readonly SentEvent[]
}

export interface Request {
  readonly url: string
  readonly key: string
  readonly text: string
  readonly body: SentBody
  readonly headers: Record<string, string>
  readonly keepalive: boolean
  readonly atMs: number
}

/** What it does with a request, whatever the request is. */
export type Behaviour =
  | 'answer'
  /** The request never reaches it. */
  | 'unreachable'
  /** It does its work, and the connection breaks before the answer. */
  | 'lose answer'
  /** No answer, until the client gives up. */
  | 'hang'
  /** Another client has sent another batch under this key just before. */
  | 'key taken'
  | { readonly status: number; readonly headers?: Record<string, string>; readonly body?: unknown }

export interface Double {
  readonly fetch: typeof fetch
  readonly requests: Request[]
  /** Stored batches by key. */
  readonly stored: Map<string, SentBody>
  storedIds(): string[]
  /** What it does from now on; or with each of the next requests, and then answers. */
  behave(...behaviours: Behaviour[]): void
  always(behaviour: Behaviour): void
  /** What a beacon brings: nobody sees the answer. */
  receive(url: string, text: string): void
}

export interface DoubleOptions {
  readonly nowMs: () => number
  readonly maxBytes?: number
  /** As the service of today: the first offender, in `message` alone. */
  readonly withoutErrors?: boolean
  /** How far its clock is ahead of the client's. */
  readonly aheadMs?: number
}

interface Answered {
  readonly status: number
  readonly headers?: Record<string, string>
  readonly body: unknown
}

const HOUR_MS = 3_600_000
const MAX_NAMED = 20
const NO_BATCH: SentBody = { app_key: '', sdk_version: '', events: [] }

export function createDouble(options: DoubleOptions): Double {
  const { nowMs, maxBytes = 524_288, withoutErrors = false, aheadMs = 0 } = options
  const requests: Request[] = []
  const stored = new Map<string, SentBody>()
  const planned: Behaviour[] = []
  let otherwise: Behaviour = 'answer'

  function work({ key, text, body }: Request): Answered {
    if (text.length > maxBytes)
      return { status: 413, body: { error: 'payload_too_large', message: 'the body is too large' } }
    if (body.app_key === '')
      return { status: 400, body: { error: 'invalid_json', message: 'body: not valid JSON at byte 1' } }
    const known = stored.get(key)
    if (known) {
      const replay = JSON.stringify(known.events) === JSON.stringify(body.events) ? 'same' : 'other'
      return {
        status: 202,
        headers: { 'Sluice-Replay': replay },
        body: { status: 'accepted', events: known.events.length, deduplicated: true },
      }
    }
    const errors = body.events.flatMap((event, index) => offences(event, index, nowMs() + aheadMs))
    if (errors.length > 0) {
      const named = errors.slice(0, MAX_NAMED)
      const message = `${named[0].path}: ${named[0].message}`
      const places = errors.map(({ path }) => Number(/\d+/.exec(path)?.[0]))
      const more = withoutErrors
        ? {}
        : { errors: named, errors_total: errors.length, invalid_events: [...new Set(places)] }
      return { status: 400, body: { error: 'validation_failed', message, ...more } }
    }
    stored.set(key, body)
    return { status: 202, body: { status: 'accepted', events: body.events.length } }
  }

  function note(url: string, init: RequestInit): Request {
    const headers = Object.fromEntries(new Headers(init.headers).entries())
    const text = typeof init.body === 'string' ? init.body : unpack(init.body as ArrayBuffer)
    const key = headers['idempotency-key'] ?? new URL(url).searchParams.get('key') ?? 'none'
    const request = {
      url,
      key,
      text,
      body: parse(text),
      headers,
      keepalive: init.keepalive === true,
      atMs: nowMs(),
    }
    requests.push(request)
    return request
  }

  const pretendedFetch = async (url: string, init: RequestInit): Promise<Response> => {
    const request = note(url, init)
    const behaviour = planned.shift() ?? otherwise
    if (behaviour === 'unreachable') throw new TypeError('fetch failed')
    if (behaviour === 'key taken' && !stored.has(request.key)) stored.set(request.key, NO_BATCH)
    if (behaviour === 'hang')
      return await new Promise((_, fail) => {
        init.signal!.addEventListener('abort', () => fail(new DOMException('aborted', 'AbortError')))
      })
    // A batch that is stored is no longer measured or counted: its key answers.
    const isStored = stored.has(request.key)
    const refusal =
      typeof behaviour === 'object' && !(isStored && [413, 429].includes(behaviour.status)) ? behaviour : null
    const worked = refusal === null ? work(request) : { body: {}, ...refusal }
    if (behaviour === 'lose answer') throw new TypeError('terminated')
    const headers = { Date: new Date(nowMs() + aheadMs).toUTCString(), ...worked.headers }
    // Not a real Response: its text comes in later turns of the event loop, for which a test's timers do not wait.
    return {
      status: worked.status,
      headers: new Headers(headers),
      text: async () => JSON.stringify(worked.body),
    } as Response
  }

  return {
    fetch: pretendedFetch as typeof fetch,
    requests,
    stored,
    storedIds: () => [...stored.values()].flatMap((body) => body.events.map((event) => event.event_id)),
    behave: (...behaviours) => void planned.push(...behaviours),
    always: (behaviour) => void (otherwise = behaviour),
    receive: (url, text) => void work(note(url, { body: text })),
  }
}

/** What cannot be unpacked is no JSON. */
function unpack(body: ArrayBuffer): string {
  try {
    return gunzipSync(body).toString()
  } catch {
    return ''
  }
}

/** What is no JSON holds no events, and is not stored. */
function parse(text: string): SentBody {
  try {
    return JSON.parse(text) as SentBody
  } catch {
    return NO_BATCH
  }
}

/** An event with the property `bad` has that member wrong. */
function offences(event: SentEvent, index: number, nowMs: number): { path: string; message: string }[] {
  const path = (member: string): string => `events[${index}].${member}`
  const atMs = Date.parse(event.timestamp)
  const tooOld = !(atMs >= nowMs - 72 * HOUR_MS && atMs <= nowMs + HOUR_MS)
  return [
    ...(event.properties?.bad ? [{ path: path(event.properties.bad), message: 'length must be 1 to 200' }] : []),
    ...(tooOld ? [{ path: path('timestamp'), message: 'must lie between 72 hours ago and 1 hour ahead' }] : []),
  ]
}
