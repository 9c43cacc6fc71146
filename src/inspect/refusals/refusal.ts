// What is said of refused requests, to the people who run the service.

import type { Refusal } from '../../contract/admin/refusals.ts'
import type { OverloadReason, RefusalReason } from '../../contract/outcome.ts'

/** One request, with the members that the console's API shows, and here its time as a number and what its reason may be. */
export interface OwnRefusal extends Omit<Refusal, 'time' | 'reason' | 'shape' | 'node'> {
  readonly time_ms: number
  readonly reason: RefusalReason | null
  readonly shape: string | null
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
