// What an app has used and has left, and why a batch finds no room.

export type LimitRefusal = 'monthly_limit_exceeded' | 'daily_limit_exceeded' | 'rate_limit_exceeded'

const WINDOW_OF_REFUSAL = {
  monthly_limit_exceeded: 'month',
  daily_limit_exceeded: 'day',
  rate_limit_exceeded: 'minute',
} as const

/** What one app has left. */
export interface Standing {
  /** Now, by the clock that the windows go by: Redis's, where it counts. */
  readonly atMs: number
  readonly minute: { readonly limit: number; readonly used: number; readonly endsAtMs: number }
  readonly day: { readonly limit: number | null; readonly used: number; readonly endsAtMs: number }
  readonly month: { readonly limit: number; readonly used: number; readonly endsAtMs: number }
}

/** Whole seconds until the window that had no room is over, at least 1. */
export function secondsUntilRoom(standing: Standing, refusal: LimitRefusal): number {
  const { endsAtMs } = standing[WINDOW_OF_REFUSAL[refusal]]
  return Math.max(1, Math.ceil((endsAtMs - standing.atMs) / 1000))
}
