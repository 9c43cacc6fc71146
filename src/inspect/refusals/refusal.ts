// What is said of refused requests, to the people who run the service.

import type { OverloadReason, RefusalReason } from '../../contract/outcome.ts'

/** One request. Its members have the names of the console's API. */
export interface OwnRefusal {
  readonly time_ms: number
  /** As the client got it in X-Request-Id; of a replay, its X-Batch-Id. */
  readonly request_id: string
  /** null: the request named no app that is known. */
  readonly app_id: string | null
  /** An `error` of the public API, or `replayed_other_body`. */
  readonly code: string
  /** Of a 503, or where the code alone does not say why; null elsewhere. */
  readonly reason: RefusalReason | null
  /** Of a web page that is refused because it may not send; null elsewhere. */
  readonly origin: string | null
  /** Of the first offending member; null: no member offends. */
  readonly path: string | null
  /** Type and length of that member; null: no member offends. */
  readonly shape: string | null
  readonly message: string
  /** null: none, or it was not read. */
  readonly sdk_version: string | null
}

/**
 * The requests of one app, code and reason, or of one origin, since the last line; of 503s, those of one reason, whatever their apps. The message and
 * id are those of the first.
 */
export type RefusalLine = Pick<OwnRefusal, 'app_id' | 'code' | 'reason' | 'origin' | 'message' | 'request_id'> & {
  readonly count: number
}

/** Of a 503; null: it is none. */
export function overloadOf({ code, reason }: Pick<OwnRefusal, 'code' | 'reason'>): OverloadReason | null {
  return code === 'service_overloaded' ? (reason as OverloadReason) : null
}

/** `origin`: of a web page; `null` is that of a sandboxed frame, or of a file. */
export function foreignPageText(origin: string, code: OwnRefusal['code']): string {
  if (code === 'invalid_app_key')
    return `pages of ${origin} may not send with this key: the app's origins do not name it`
  if (origin === 'null')
    return 'pages without an origin (Origin: null) may not send: only * in SLUICE_CORS_ORIGINS allows them'
  return `pages of ${origin} may not send: SLUICE_CORS_ORIGINS does not name it`
}
