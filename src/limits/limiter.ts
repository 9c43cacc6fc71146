// An app's usage of its limits, and which limit refuses a batch.

export type LimitRefusal = 'monthly_limit_exceeded' | 'daily_limit_exceeded' | 'rate_limit_exceeded'

const WINDOW_OF_REFUSAL = {
  monthly_limit_exceeded: 'month',
  daily_limit_exceeded: 'day',
  rate_limit_exceeded: 'minute',
} as const

export interface Usage {
  /** The time of this usage, by the clock that opens the windows: Redis's clock with shared limits. */
  readonly atMs: number
  readonly minute: { readonly limit: number; readonly used: number; readonly endsAtMs: number }
  readonly day: { readonly limit: number | null; readonly used: number; readonly endsAtMs: number }
  readonly month: { readonly limit: number; readonly used: number; readonly endsAtMs: number }
}

/** Whole seconds until the window that had no room ends, at least 1. */
export function secondsUntilRoom(usage: Usage, refusal: LimitRefusal): number {
  const { endsAtMs } = usage[WINDOW_OF_REFUSAL[refusal]]
  return Math.max(1, Math.ceil((endsAtMs - usage.atMs) / 1000))
}
