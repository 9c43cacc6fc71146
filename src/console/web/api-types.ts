// What the admin API answers, as openapi-admin.yaml describes it, and the portal's, which leaves out what is the operators'
// alone. Types only: the pages run in a browser.

import type * as records from '../../contract/admin/app-records.ts'
import type * as refusals from '../../contract/admin/refusals.ts'
import type { Of } from '../../contract/admin/schema.ts'
import type * as stored from '../../contract/admin/stored.ts'

export type { Alerts } from '../../contract/admin/alerts.ts'
export type { AppUsage, Example, Explained, Session, Usage, UsageByDay, Window } from '../../contract/admin/apps.ts'
export type { Node, Now, Queue, ShownPart } from '../../contract/admin/now.ts'
export type { PortalSession } from '../../contract/admin/portal.ts'
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
export type ReadKeys = Of<typeof records.ReadKeys>
export type SearchHit = stored.SearchHit
export type SearchResult = stored.SearchResult
