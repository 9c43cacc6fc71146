// What the admin API answers, as openapi-admin.yaml describes it.

import type { NotFoundReason } from '../../queue/find/not-found-reason.ts'
import type { ShownRefusal } from '../refusal.ts'

export type { Code, Reason, Whose } from '../codes.ts'
export type {
  HistoryView as History,
  NodeLine,
  Now,
  Plot,
  QueueFacts as Queue,
  Range,
  ShownPart,
} from '../now-answer.ts'
export type { ShownGroup as RefusalGroup, ShownRefusal as Refusal, ShownRefusals as Refusals } from '../refusal.ts'

export interface Session {
  readonly token_wanted: boolean
  readonly open: boolean
}

export interface SampledEvent {
  readonly batch_id: string
  readonly app_id: string
  readonly received_at: string
  readonly sdk_version: string | null
  readonly trace?: string
  /** null: it was read from the queue. */
  readonly node: string | null
  /** Its place in the batch. */
  readonly index: number
  /** As the client sent it. */
  readonly event: unknown
}

interface Searched {
  readonly searched_back_to: string | null
  /** false: others may be older than that. */
  readonly complete: boolean
  /** Damaged records. */
  readonly skipped: number
}

export interface NewestEvents extends Searched {
  readonly events: readonly SampledEvent[]
}

export type SearchHit =
  | { readonly kind: 'batch' | 'key'; readonly batch_id: string }
  | ({ readonly kind: 'refusal' } & ShownRefusal)
  | ({ readonly kind: 'event' } & SampledEvent)
  | ({ readonly kind: 'user' } & SampledEvent)

export interface SearchResult extends Searched {
  readonly found: readonly SearchHit[]
}

export interface Example {
  readonly port: number
  readonly tls: boolean
  readonly app_key: string | null
}

export interface EventRate {
  readonly seen_per_second: number
  readonly shown_per_second: number
  /** More than could be looked through for the filter. */
  readonly unsearched_per_second?: number
}

export type Place =
  | {
      readonly kind: 'stream'
      readonly stream: string
      readonly subject: string
      readonly sequence: number
      readonly stored_at: string
    }
  | { readonly kind: 'journal'; readonly segment: string; readonly offset_bytes: number; readonly length_bytes: number }

export interface Reader {
  readonly name: string
  readonly state: string
  readonly read_at: string | null
}

export interface Found {
  readonly found: true
  readonly batch_id: string
  readonly app_id: string
  readonly received_at: string
  readonly sdk_version: string | null
  readonly trace: string | null
  readonly events: number
  readonly keyed: boolean
  readonly place: Place
  readonly consumers: readonly Reader[]
  readonly record?: { readonly events?: unknown }
}

/** The id is that of a refused request. */
export interface RefusalFound {
  readonly found: true
  readonly refusal: ShownRefusal
}

export interface NotFound {
  readonly found: false
  readonly reason: NotFoundReason
  readonly searched_from: string
  readonly searched_to: string
  readonly queue_reaches_back_to: string | null
  /** Where a search that did not read all goes on. */
  readonly go_on_before: string | null
}

export interface Window {
  readonly used: number
  readonly limit: number | null
  readonly resets_at: string
  /** With the month: it is in `limit`, and what was sold is that much less. */
  readonly tolerance_percent?: number
}

export interface AppUsage {
  readonly app_id: string
  readonly name: string | null
  readonly plan: string
  readonly subscription: string
  readonly minute: Window
  readonly day: Window
  readonly month: Window
  /** null: not known yet. */
  readonly events_per_second: number | null
  readonly last_hour: { readonly accepted_events: number; readonly refused: Readonly<Record<string, number>> } | null
  readonly keys: readonly { readonly key: string; readonly valid_until: string | null }[]
}

export interface Usage {
  readonly apps: readonly AppUsage[]
  readonly total_apps: number
  readonly read_at: string
}

export interface Explained {
  readonly status: number
  /** `accepted`, or why not. */
  readonly code: string
  /** Of a 503. */
  readonly reason: string | null
  readonly message: string | null
  /** With the bytes of each in the body; null where that is not JSON. */
  readonly errors: readonly {
    readonly path: string
    readonly message: string
    readonly start: number | null
    readonly end: number | null
  }[]
  readonly limits: Readonly<
    Record<
      string,
      {
        readonly used: number
        readonly limit: number | null
        readonly ends_at: string
        readonly tolerance_percent?: number
      }
    >
  > | null
}
