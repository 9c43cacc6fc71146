// What becomes of a body once it is read and its app is looked up: the order of the checks, for the service and for
// `explain`.

import type { AppLookup } from '../apps/app.ts'
import { subscriptionRefusal } from '../apps/app-record.ts'

/** foreign_page: a web page sends, and may not with this key. limits: it is for the limits to say. invalid: refused as its validation says, unless its key was accepted before. */
export type Decision =
  | 'no app key'
  | 'apps_unread'
  | 'invalid_app_key'
  | 'foreign_page'
  | 'subscription_inactive'
  | 'trial_expired'
  | 'invalid'
  | 'limits'

/** No app is looked up for any other text. */
export function isAppKey(text: string | null): text is string {
  return text?.startsWith('ak_') === true
}

/** `app` counts only where there is a key. `origin`: of the web page that sends; null: none does. The first check that fails decides. */
export function decide(
  appKey: string | null,
  app: AppLookup,
  isValid: boolean,
  nowMs: number,
  origin: string | null,
): Decision {
  if (appKey === null) return 'no app key'
  if (app === 'unavailable') return 'apps_unread'
  if (app === 'unknown') return 'invalid_app_key'
  if (origin !== null && app.origins !== null && !app.origins.includes(origin)) return 'foreign_page'
  return subscriptionRefusal(app, nowMs) ?? (isValid ? 'limits' : 'invalid')
}
