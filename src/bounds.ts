// Every figure of the contract that several parts hold to, once. The scanner has copies of its own (decode/assembly),
// since it is compiled apart; the tests that compare it with the validator hold the two together.

export const EVENTS_PATH = '/api/v1/events'

/** Largest body, before and after its Content-Encoding is undone. */
export const MAX_BODY_BYTES = 524_288
/** Most containers open at one time in a body. */
export const MAX_DEPTH = 64
/** Most events in one request. */
export const MAX_EVENTS = 100
/** Most keys in `properties` and in `revenue`. */
export const MAX_KEYS = 50
/** Most characters of each value in them. */
export const MAX_VALUE_CHARACTERS = 500
/** How far before the server's clock an event may lie; the end is inside. */
export const MAX_EVENT_AGE_MS = 72 * 3_600_000
/** How far after it. */
export const MAX_EVENT_LEAD_MS = 3_600_000

/** For which an accepted idempotency key is remembered, from its acceptance. */
export const IDEMPOTENCY_WINDOW_SECONDS = 300
export const MAX_APP_ID_CHARACTERS = 64

/** A 503 asks the client to wait for so many seconds, drawn anew each time. */
export const OVERLOAD_RETRY_SECONDS = { least: 1, most: 5 } as const

/** Connections to the admin port; more are closed at once, so that they cannot use up the open files of the process. */
export const ADMIN_MAX_CONNECTIONS = 128
