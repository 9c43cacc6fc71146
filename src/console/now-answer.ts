// What the API answers on the view Now. Types alone, which the pages share.

import type { PartName, PartView } from '../health.ts'

/**
 * refusing: some requests are answered 503, or all would be. degraded: none is, though a part is not up or a node does not
 * answer.
 */
export type State = 'starting' | 'serving' | 'degraded' | 'refusing' | 'stopping'

/** A reason of a 503. A node of a later version may have others than this one. */
export interface ReasonRate {
  readonly reason: string
  /** 0: every request would be refused, but none comes. */
  readonly per_second: number
}

export interface NodeState {
  readonly state: State
  /** Why, in words. */
  readonly state_reason: string | null
  /** The most frequent first. */
  readonly reasons: readonly ReasonRate[]
}

/** How far plots reach back. */
export type Range = '15m' | '1h' | '24h'

/** What a process says of one of its parts. */
export interface PartFacts extends PartView {
  readonly part: PartName
  readonly latency_seconds: number | null
}

export interface ShownPart extends PartFacts {
  /** The node of which this holds; null: it holds of all. */
  readonly node: string | null
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
  /** Since its last sign; it may have ended at any time since. 0: it answered. */
  readonly silent_seconds: number
}

export interface Now extends NodeState {
  readonly time: string
  readonly nodes: readonly NodeLine[]
  readonly rates: Rates
  readonly latency_seconds: { readonly p50: number; readonly p99: number } | null
  readonly ring: RingFacts
  readonly parser_queue: number
  readonly parts: readonly ShownPart[]
  readonly queue: QueueFacts | null
  readonly refused_last_hour: {
    /** 503s by their reason too. */
    readonly by_code: readonly { readonly code: string; readonly reason: string | null; readonly count: number }[]
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
  readonly refused_client_per_second: Plot
  readonly refused_limits_per_second: Plot
  readonly p99_seconds: Plot
  readonly slowest_consumer_lag_seconds: Plot
}

/** Oldest first; null: not known. */
export type Plot = readonly (number | null)[]
