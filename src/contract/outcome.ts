// The closed set of a request's outcomes, and the HTTP answer of each. Every request ends in exactly one outcome;
// metrics count them by the same names.

import { MAX_BODY_BYTES, MAX_EVENTS, OVERLOAD_RETRY_SECONDS } from './bounds.ts'
import type { OverloadReason } from './overload-advice.ts'

export { OVERLOAD_REASONS, type OverloadReason } from './overload-advice.ts'

const NO_ROOM = 'the batch does not fit into what is left of the'

/** HTTP status line and default message of each refusal. */
const REFUSALS = {
  not_found: ['404 Not Found', 'there is nothing here; events go to POST /api/v1/events'],
  method_not_allowed: ['405 Method Not Allowed', 'events are sent with POST'],
  service_overloaded: [
    '503 Service Unavailable',
    'the service cannot take this batch now; keep it and try again later',
  ],
  unsupported_media_type: ['415 Unsupported Media Type', 'Content-Type: must be application/json, in UTF-8'],
  payload_too_large: ['413 Content Too Large', `the body must not exceed ${MAX_BODY_BYTES} bytes`],
  validation_failed: ['400 Bad Request', 'the request does not fit the schema'],
  invalid_json: ['400 Bad Request', 'the body is not valid JSON'],
  invalid_app_key: ['401 Unauthorized', 'app_key: not the key of a known application'],
  subscription_inactive: ['402 Payment Required', 'the subscription is canceled, unpaid or paused'],
  trial_expired: ['402 Payment Required', 'the free trial has ended'],
  monthly_limit_exceeded: ['429 Too Many Requests', `${NO_ROOM} monthly event limit`],
  daily_limit_exceeded: ['429 Too Many Requests', `${NO_ROOM} daily event limit`],
  rate_limit_exceeded: ['429 Too Many Requests', `${NO_ROOM} per-minute event limit`],
} as const satisfies Record<string, readonly [status: string, message: string]>

/** Why a request was refused: the `error` member of its answer. */
export type RefusalCode = keyof typeof REFUSALS

/** Of all refusals but a 503, which has a reason. */
export type OtherRefusalCode = Exclude<RefusalCode, 'service_overloaded'>

export const STATUS_OF_REFUSAL = Object.fromEntries(
  Object.entries(REFUSALS).map(([code, [status]]) => [code, status]),
) as Readonly<Record<RefusalCode, string>>

/** The app's minute as the client sees it in the three X-RateLimit headers. Counts are events. */
export interface RateLimitView {
  readonly limit: number
  readonly remaining: number
  /** Unix second at which the minute ends. */
  readonly resetUnixSeconds: number
}

/** One of the app's windows as the client sees it in RateLimit and RateLimit-Policy. Counts are events, or bytes. */
export interface WindowView {
  readonly name: 'minute' | 'day' | 'month' | 'bytes'
  readonly limit: number
  readonly remaining: number
  readonly lengthSeconds: number
  /** Until the window ends. */
  readonly resetSeconds: number
}

/**
 * Whether the events of a replayed request are those that were accepted under its key. other: they are not, and are not
 * stored. unknown: the accepted ones are not known here.
 */
export type ReplayedBody = 'same' | 'other' | 'unknown'

/** What is wrong with a member of a body, for programs: `code` in `errors`. */
export const ERROR_CODES = [
  'required',
  'type',
  'length',
  'empty',
  'one_of',
  'format',
  'range',
  'too_many',
  'repeated',
] as const
export type ErrorCode = (typeof ERROR_CODES)[number]

/** Of a body that does not fit the schema. */
export interface Errors {
  /** The members `errors` (the first offending members), `errors_total` and, where it helps, `invalid_events` of the answer. */
  readonly json: string
  /** Type and length of the first one, and nothing of its content. Not in the answer. */
  readonly shape: string
}

/** Why a request was refused, where its code has several whys: told to the client, unlike the reason of a 503. */
export const TOLD_REASONS = ['bytes', 'origin'] as const
export type ToldReason = (typeof TOLD_REASONS)[number]
export type RefusalReason = OverloadReason | ToldReason

export type Outcome =
  | { readonly kind: 'accepted'; readonly events: number; readonly batchId: string }
  | {
      readonly kind: 'replayed'
      readonly events: number
      readonly batchId: string
      readonly body: ReplayedBody
    }
  /** A browser asks whether a page of another origin may send. */
  | { readonly kind: 'preflight' }
  | ({
      readonly kind: 'refused'
      /** What is wrong with the request; null: the code's default message. */
      readonly message: string | null
      /** For 429 and 503; null elsewhere. */
      readonly retryAfterSeconds: number | null
      /** The origin of a web page that is refused because it may not send; null: that is not why. */
      readonly origin: string | null
      /** For `validation_failed` about the body. */
      readonly errors: Errors | null
    } & (
      | { readonly code: OtherRefusalCode; readonly reason: ToldReason | null }
      | { readonly code: 'service_overloaded'; readonly reason: OverloadReason }
    ))

/**
 * Without `message`, the refusal has its code's default message. `origin`: of a web page that may not send; null: something
 * else is wrong. The answer does not repeat it.
 */
export function refused(
  code: OtherRefusalCode,
  message: string | null = null,
  retryAfterSeconds: number | null = null,
  origin: string | null = null,
  reason: ToldReason | null = null,
): Outcome {
  return { kind: 'refused', code, message, retryAfterSeconds, reason, origin, errors: null }
}

/** The app does not name the origin of the web page that sends. */
export function foreignPage(origin: string | null): Outcome {
  // Clients before 0.4 know it by these words.
  const message = 'app_key: the page may not send with this key'
  return refused('invalid_app_key', message, null, origin, 'origin')
}

/** The minute has no room for the bytes of the batch. */
export function overBytes(retryAfterSeconds: number): Outcome {
  const message = "the app's bytes for this minute are used up: the batch does not fit into what is left of them"
  return refused('rate_limit_exceeded', message, retryAfterSeconds, null, 'bytes')
}

/** A 503 with a random Retry-After. */
export function overloaded(reason: OverloadReason, random: () => number = Math.random): Outcome {
  const { min, max } = OVERLOAD_RETRY_SECONDS
  const retryAfterSeconds = min + Math.floor(random() * (max - min + 1))
  const code = 'service_overloaded'
  return { kind: 'refused', code, message: null, retryAfterSeconds, reason, origin: null, errors: null }
}

/**
 * Tracing SDKs add headers to each request of a page, which all are allowed: credentials never are. Some browsers have no `*`.
 * The answer is kept for two hours, the longest that Chromium allows.
 */
const PREFLIGHT =
  '\r\nAccess-Control-Allow-Methods: POST' +
  '\r\nAccess-Control-Allow-Headers: content-type, content-encoding, idempotency-key, traceparent, tracestate, baggage, *' +
  '\r\nAccess-Control-Max-Age: 7200'

export interface Answer {
  readonly status: string
  /** Header lines that follow the content type's value, each after a CRLF. No value comes from the client. */
  readonly headers: string
  readonly body: string
}

/** By the number of events. Made once: a text that is put together anew for each answer costs more to measure and send. */
const ACCEPTED_BODIES = Array.from(
  { length: MAX_EVENTS + 1 },
  (_, events) => `{"status":"accepted","events":${events}}`,
)

/** What the answer says; `message` null: the code's default. */
export function messageOf(code: RefusalCode, message: string | null): string {
  return message ?? REFUSALS[code][1]
}

export function isOverLimit(outcome: Outcome): boolean {
  return outcome.kind === 'refused' && STATUS_OF_REFUSAL[outcome.code].startsWith('429')
}

/** The largest integer of a structured header field (RFC 9651). A limit may be larger. */
const MAX_FIELD_INTEGER = 999_999_999_999_999

/** Draft 10 of draft-ietf-httpapi-ratelimit-headers. */
function windowHeaders(windows: readonly WindowView[]): string {
  const inField = (count: number): number => Math.min(count, MAX_FIELD_INTEGER)
  const unit = ({ name }: WindowView): string => (name === 'bytes' ? ';qu="content-bytes"' : '')
  const policies = windows.map((one) => `"${one.name}";q=${inField(one.limit)}${unit(one)};w=${one.lengthSeconds}`)
  const states = windows.map((one) => `"${one.name}";r=${inField(one.remaining)};t=${one.resetSeconds}${unit(one)}`)
  return `\r\nRateLimit-Policy: ${policies.join(', ')}\r\nRateLimit: ${states.join(', ')}`
}

/** The header lines before and behind what is left, of the last answer: most answers differ in that alone. */
const lastFigures = { limit: -1, resetUnixSeconds: -1, before: '', after: '' }

function figuresOf({ limit, remaining, resetUnixSeconds }: RateLimitView): string {
  const last = lastFigures
  if (last.limit !== limit || last.resetUnixSeconds !== resetUnixSeconds) {
    last.limit = limit
    last.resetUnixSeconds = resetUnixSeconds
    last.before = `\r\nX-RateLimit-Limit: ${limit}\r\nX-RateLimit-Remaining: `
    last.after = `\r\nX-RateLimit-Reset: ${resetUnixSeconds}`
  }
  return `${last.before}${remaining}${last.after}`
}

/**
 * `windows` null: none of them is near its limit, and the answer has no header of them.
 * `requestId`: shown with a refusal, so that it can be found in the client's logs and in the service's. */
export function answerTo(
  outcome: Outcome,
  view: RateLimitView,
  requestId: string,
  windows: readonly WindowView[] | null = null,
): Answer {
  const figures = figuresOf(view)
  const headers = windows === null ? figures : figures + windowHeaders(windows)
  switch (outcome.kind) {
    case 'accepted':
      return {
        status: '202 Accepted',
        headers: `${headers}\r\nX-Batch-Id: ${outcome.batchId}`,
        body: ACCEPTED_BODIES[outcome.events],
      }
    case 'replayed':
      return {
        status: '202 Accepted',
        headers: `${headers}\r\nX-Batch-Id: ${outcome.batchId}\r\nSluice-Replay: ${outcome.body}`,
        body: `{"status":"accepted","events":${outcome.events},"deduplicated":true}`,
      }
    case 'preflight':
      return { status: '204 No Content', headers: headers + PREFLIGHT, body: '' }
    case 'refused': {
      const { code, message, retryAfterSeconds, errors } = outcome
      const told = outcome.reason === null || code === 'service_overloaded' ? '' : `,"reason":"${outcome.reason}"`
      const list = errors === null ? '' : `,${errors.json}`
      const retryAfter = retryAfterSeconds === null ? '' : `\r\nRetry-After: ${retryAfterSeconds}`
      const allow = code === 'method_not_allowed' ? '\r\nAllow: POST' : ''
      return {
        status: REFUSALS[code][0],
        headers: `${headers}${retryAfter}${allow}\r\nX-Request-Id: ${requestId}`,
        body: `{"error":"${code}","message":${JSON.stringify(messageOf(code, message))}${told}${list}}`,
      }
    }
  }
}
