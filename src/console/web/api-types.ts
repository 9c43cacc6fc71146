// What the admin API answers, as openapi-admin.yaml describes it.

export type { Code, Whose } from '../codes.ts'

export type State = 'serving' | 'draining' | 'degraded' | 'not ready'

export interface Session {
  readonly token_wanted: boolean
  readonly open: boolean
}

export interface NodeLine {
  readonly node: string
  readonly version: string
  readonly node_js: string
  readonly started_at: string
  readonly state: State | 'silent'
  readonly silent_seconds: number
  readonly connections: number
  readonly cpu_percent: number
  readonly rss_bytes: number
}

export interface Part {
  readonly part: string
  readonly state: string
  readonly up: boolean
  readonly latency_seconds: number | null
}

export interface Queue {
  readonly kind: 'journal' | 'stream'
  readonly bytes: number | null
  readonly max_bytes: number | null
  readonly oldest_seconds: number | null
  readonly keep_seconds: number | null
  readonly full_in_seconds: number | null
  readonly consumers: readonly { readonly name: string; readonly lag_seconds: number }[]
  readonly audit_lag_seconds: number | null
}

/** Oldest first; null: not known. */
export type Plot = readonly (number | null)[]

export interface History {
  readonly step_seconds: number
  readonly from: string
  readonly accepted_events_per_second: Plot
  readonly refused_ours_per_second: Plot
  readonly refused_rule_per_second: Plot
  readonly p99_seconds: Plot
  readonly slowest_consumer_lag_seconds: Plot
}

export interface Now {
  readonly time: string
  readonly state: State
  readonly state_reason: string | null
  readonly nodes: readonly NodeLine[]
  readonly rates: {
    readonly requests_per_second: number
    readonly events_accepted_per_second: number
    readonly refused_per_second: Readonly<Record<string, number>>
    readonly replays_per_second: number
  }
  readonly latency_seconds: { readonly p50: number; readonly p99: number } | null
  readonly ring: { readonly used_bytes: number; readonly size_bytes: number; readonly requests: number }
  readonly parser_queue: number
  readonly parts: readonly Part[]
  readonly queue: Queue | null
  readonly refused_last_hour: {
    readonly by_code: readonly { readonly code: string; readonly count: number }[]
    readonly by_app: readonly { readonly app_id: string | null; readonly count: number }[]
  }
  readonly history?: History
}

export interface SampledEvent {
  readonly batch_id: string
  readonly app_id: string
  readonly received_at: string
  readonly sdk_version: string | null
  readonly trace?: string
  readonly node: string
  /** As the client sent it. */
  readonly event: unknown
}

export interface EventRate {
  readonly seen_per_second: number
  readonly shown_per_second: number
  /** More than could be looked through for the filter. */
  readonly unsearched_per_second?: number
}

export interface Refusal {
  readonly time: string
  readonly request_id: string
  readonly app_id: string | null
  readonly code: string
  readonly path: string | null
  readonly message: string
  readonly sdk_version: string | null
  readonly node: string
}

export interface RefusalGroup {
  readonly app_id: string | null
  readonly code: string
  readonly path: string | null
  readonly sdk_version: string | null
  readonly count: number
  readonly first_at: string
  readonly last_at: string
  /** 60 numbers, oldest first. */
  readonly per_minute: readonly number[]
}

export interface Refusals {
  readonly refusals: readonly Refusal[]
  readonly groups: readonly RefusalGroup[]
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

export interface NotFound {
  readonly found: false
  readonly searched_from: string
  readonly searched_to: string
  readonly queue_reaches_back_to: string | null
  readonly complete: boolean
  readonly advice: string
}

export interface Window {
  readonly used: number
  readonly limit: number | null
  readonly resets_at: string
}

export interface AppUsage {
  readonly app_id: string
  readonly name: string | null
  readonly plan: string
  readonly subscription: string
  readonly minute: Window
  readonly day: Window
  readonly month: Window
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
  readonly message: string | null
  readonly errors: readonly { readonly path: string; readonly message: string }[]
  readonly limits: Readonly<
    Record<string, { readonly used: number; readonly limit: number | null; readonly ends_at: string }>
  > | null
}
