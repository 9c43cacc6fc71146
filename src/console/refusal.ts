// What is said of refused requests, to the people who run the service.

import type { OverloadReason } from '../outcome.ts'

/** One request. Its members have the names of the console's API. */
export interface Refusal {
  readonly time_ms: number
  /** As the client got it in X-Request-Id; of a replay, its X-Batch-Id. */
  readonly request_id: string
  /** null: the request named no app that is known. */
  readonly app_id: string | null
  /** An `error` of the public API, or `replayed_other_body`. */
  readonly code: string
  /** Of a 503; null elsewhere. */
  readonly reason: OverloadReason | null
  /** Of a web page that is refused because it may not send; null elsewhere. */
  readonly origin: string | null
  /** Of the first offending member; null: no member offends. */
  readonly path: string | null
  readonly message: string
  /** null: none, or it was not read. */
  readonly sdk_version: string | null
}

/** Requests of the last hour that are alike. In `path` all items of an array are alike: `events[*].name`. */
export interface RefusalGroup extends Pick<Refusal, 'app_id' | 'code' | 'reason' | 'origin' | 'path' | 'sdk_version'> {
  readonly count: number
  readonly first_ms: number
  readonly last_ms: number
  /** 60 numbers, oldest first. */
  readonly per_minute: readonly number[]
}

/**
 * The requests of one app and code, or of one origin, since the last line; of 503s, those of one reason, whatever their apps. The message and
 * id are those of the first.
 */
export type RefusalLine = Pick<Refusal, 'app_id' | 'code' | 'reason' | 'origin' | 'message' | 'request_id'> & {
  readonly count: number
}

/** As the API answers it. */
export interface ShownRefusal extends Omit<Refusal, 'time_ms'> {
  readonly time: string
  readonly node: string
}

export interface ShownGroup extends Omit<RefusalGroup, 'first_ms' | 'last_ms'> {
  /** They are of one cause, whatever the version; `sdk_version` is the first of these. */
  readonly sdk_versions: readonly (string | null)[]
  readonly first_at: string
  readonly last_at: string
}

/** Of all nodes. */
export interface ShownRefusals {
  /** Newest first. */
  readonly refusals: readonly ShownRefusal[]
  /** The most frequent first. */
  readonly groups: readonly ShownGroup[]
}

/** `origin`: of a web page; `null` is that of a sandboxed frame, or of a file. */
export function foreignPageText(origin: string): string {
  if (origin === 'null')
    return 'pages without an origin (Origin: null) may not send: only * in SLUICE_CORS_ORIGINS allows them'
  return `pages of ${origin} may not send: SLUICE_CORS_ORIGINS does not name it`
}
