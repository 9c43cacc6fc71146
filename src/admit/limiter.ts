// The seam of the limits: who may send how many events in the running minute, day and month.

import type { RateLimitView } from '../outcome.ts'
import type { App } from './app.ts'

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

/** Counts accepted events against an app's limits, a batch whole or not at all. Costs are events, at least 1. */
export interface Limiter {
  /**
   * Takes `cost` from month, then day, then minute, all or none; the first that has no room refuses. Gives the Unix ms
   * at which it was taken, which lies in the windows that were charged and is what `settle` and `giveBack` want to hear.
   */
  take(app: App, cost: number, nowMs: number): number | LimitRefusal | Promise<number | LimitRefusal>
  /**
   * What `take` at `takenAtMs` took has become durable and stays spent. Until `settle` or `giveBack` it is only in
   * flight, and a snapshot leaves it out: a crash then finds it in the journal or not at all.
   */
  settle(app: App, cost: number, takenAtMs: number): void
  /**
   * Gives back what `take` at `takenAtMs` took, in each window that has not turned since. Below zero, it takes so much
   * more, whatever the limits: that is for what turns out to be stored already.
   */
  giveBack(app: App, cost: number, takenAtMs: number, nowMs: number): void
  /** The minute's figures for the answer's headers. */
  view(app: App, nowMs: number): RateLimitView
  standing(app: App, nowMs: number): Standing | Promise<Standing>
}
