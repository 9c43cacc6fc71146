// What the admin API answers, as openapi-admin.yaml describes it, and the portal's, which leaves out what is the operators'
// alone. Types only: the pages run in a browser.

import type * as apps from '../../contract/admin/apps.ts'
import type * as refusals from '../../contract/admin/refusals.ts'
import type * as stored from '../../contract/admin/stored.ts'

export type { Alerts } from '../../contract/admin/alerts.ts'
export type { AppUsage, Example, Explained, Session, Usage, UsageByDay, Window } from '../../contract/admin/apps.ts'
export type { Node, Now, Queue, ShownPart } from '../../contract/admin/now.ts'
export type { EventRate, Place, Reader } from '../../contract/admin/stored.ts'
export type { Range } from '../../contract/admin/words.ts'

/** Without these in the portal. */
type Without<T, Names extends keyof T> = Omit<T, Names> & Partial<Pick<T, Names>>

export type Refusal = Without<refusals.Refusal, 'node' | 'reason'>
export type RefusalGroup = Without<refusals.RefusalGroup, 'reason'>
export interface Refusals {
  readonly since: string
  readonly refusals: readonly Refusal[]
  readonly groups: readonly RefusalGroup[]
}
export type StoredEvent = Without<stored.StoredEvent, 'node'>
export type NewestEvents = Without<stored.NewestEvents, 'searched_back_to' | 'skipped'>
export type Found = Without<stored.Found, 'place' | 'consumers'>
export interface RefusalFound {
  readonly found: true
  readonly refusal: Refusal
}
type OfOperators = 'reason' | 'searched_from' | 'searched_to' | 'queue_reaches_back_to'
export type NotFound = Without<stored.NotFound, OfOperators>
export type SearchHit = stored.SearchHit
export type SearchResult = stored.SearchResult

export interface PortalSession {
  readonly app: Pick<apps.AppUsage, 'app_id' | 'name' | 'plan' | 'subscription'>
  readonly key: { readonly name: string }
  /** null: it works. */
  readonly degraded_since: string | null
}

export interface ReadKeys {
  readonly read_keys: readonly {
    readonly name: string
    readonly expires_at: string | null
    readonly last_used_at: string | null
  }[]
}
