// Limits of the contract that several parts enforce. The scanner (decode/assembly) is compiled apart and has copies; the
// tests that compare it with the validator fail if a copy differs.

export const EVENTS_PATH = '/api/v1/events'

/** Largest body, before and after decompression. */
export const MAX_BODY_BYTES = 524_288
/** Deepest nesting of objects and arrays in a body. */
export const MAX_DEPTH = 64
/** Most events in one request. */
export const MAX_EVENTS = 100
/** What the `type` of an event may be. */
export const EVENT_TYPES = ['track', 'screen', 'revenue'] as const
/** Most keys in `properties` and in `revenue`. */
export const MAX_KEYS = 50
/** Most characters of each value in them. */
export const MAX_VALUE_CHARACTERS = 500
/** How far before the server's clock an event's timestamp may lie, inclusive. */
export const MAX_EVENT_AGE_MS = 72 * 3_600_000
/** How far after the server's clock it may lie, inclusive. */
export const MAX_EVENT_LEAD_MS = 3_600_000

/** Offending members beyond this are not counted, and the checks stop. */
export const MAX_ERRORS_COUNTED = 1000
/** Most of them in one answer, which is then smaller than 4 KB. */
export const MAX_ERRORS_LISTED = 20

/** What each node lets an app store in a minute, at least. Less would shut an app out that is held and sends large batches. */
export const MIN_NODE_BYTES = 1024 * 1024

/** How long an idempotency key is remembered after its acceptance. */
export const IDEMPOTENCY_WINDOW_SECONDS = 300
export const MAX_APP_ID_CHARACTERS = 64

/** Retry-After of a 503, random so that clients do not come back at once. */
export const OVERLOAD_RETRY_SECONDS = { min: 1, max: 5 } as const

/** Most connections to the admin port. Further ones are closed at once, to save the process's open files. */
export const ADMIN_MAX_CONNECTIONS = 128
/** The same of the portal, of which 200 may be streams. */
export const PORTAL_MAX_CONNECTIONS = 400

/** Refusals that a process keeps one by one for the people who run it: the newest of all, */
export const MAX_REFUSALS_KEPT = 1000
/** and the newest of each app, */
export const MAX_REFUSALS_KEPT_PER_APP = 50
/** for the apps that were refused last. */
export const MAX_APPS_WITH_KEPT_REFUSALS = 2000
/** Apps whose refusals of the last hour it counts: those with the most. */
export const MAX_APPS_WITH_REFUSALS = 200
/** Most characters of an SDK version in them. */
export const MAX_SDK_VERSION_CHARACTERS = 64

/** Days that usage by day shows, today last. */
export const MAX_USAGE_DAYS = 35
/** Most apps in a report of usage. */
export const MAX_REPORTED_APPS = 10_000
/** How long a search for one batch reads of the stream, or beside a service. It then says how far it came. */
export const MAX_SEARCH_MS = 2000
