// What the API answers on the view Now. Types alone, which the pages share.

export type State = 'serving' | 'draining' | 'degraded' | 'not ready'

export interface Part {
  readonly part: string
  readonly state: string
  readonly up: boolean
  readonly latency_seconds: number | null
}

export interface QueueFacts {
  readonly kind: 'journal' | 'stream'
  readonly bytes: number | null
  readonly max_bytes: number | null
  readonly oldest_seconds: number | null
  readonly keep_seconds: number | null
  readonly full_in_seconds: number | null
  readonly consumers: readonly { readonly name: string; readonly lag_seconds: number }[]
  readonly audit_lag_seconds: number | null
}

export interface RingFacts {
  readonly used_bytes: number
  readonly size_bytes: number
  readonly requests: number
}

export interface Rates {
  readonly requests_per_second: number
  readonly events_accepted_per_second: number
  readonly refused_per_second: Readonly<Record<string, number>>
  readonly replays_per_second: number
}

/** What a process says of itself beside its figures. */
export interface NodeFacts {
  readonly node: string
  readonly version: string
  readonly node_js: string
  readonly started_at: string
  readonly connections: number
  readonly cpu_percent: number
  readonly rss_bytes: number
}

export interface NodeLine extends NodeFacts {
  readonly state: State | 'silent'
  /** 0: it answered. */
  readonly silent_seconds: number
}

export interface Now {
  readonly time: string
  readonly state: State
  readonly state_reason: string | null
  readonly nodes: readonly NodeLine[]
  readonly rates: Rates
  readonly latency_seconds: { readonly p50: number; readonly p99: number } | null
  readonly ring: RingFacts
  readonly parser_queue: number
  readonly parts: readonly Part[]
  readonly queue: QueueFacts | null
  readonly refused_last_hour: {
    readonly by_code: readonly { readonly code: string; readonly count: number }[]
    readonly by_app: readonly { readonly app_id: string | null; readonly count: number }[]
  }
  readonly history?: HistoryView
}

export interface HistoryView {
  readonly step_seconds: number
  /** When the first cell begins. */
  readonly from: string
  readonly accepted_events_per_second: Plot
  readonly refused_ours_per_second: Plot
  readonly refused_rule_per_second: Plot
  readonly p99_seconds: Plot
  readonly slowest_consumer_lag_seconds: Plot
}

/** Oldest first; null: not known. */
export type Plot = readonly (number | null)[]
