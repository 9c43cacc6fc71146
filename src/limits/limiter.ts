// An app's usage of its limits, and which limit refuses a batch.

import type { App } from '../apps/app.ts'
import { cycleAt, windowStartMs } from '../apps/plans.ts'
import type { WindowView } from '../contract/outcome.ts'
import { DAY_MS, MINUTE_MS } from '../lib/spans.ts'

type Limits = Pick<App, 'eventsPerMinute' | 'eventsPerDay' | 'eventsPerMonth'>

export type LimitRefusal = 'monthly_limit_exceeded' | 'daily_limit_exceeded' | 'rate_limit_exceeded'

const WINDOW_OF_REFUSAL = {
  monthly_limit_exceeded: 'month',
  daily_limit_exceeded: 'day',
  rate_limit_exceeded: 'minute',
} as const

/** Events by UTC day, numbered from 1970. Days without events may be missing. */
export type DaysUsed = ReadonlyMap<number, number>

export interface Usage {
  /** The time of this usage, by the clock that opens the windows: Redis's clock with shared limits. */
  readonly atMs: number
  readonly minute: { readonly limit: number; readonly used: number; readonly endsAtMs: number }
  readonly day: { readonly limit: number | null; readonly used: number; readonly endsAtMs: number }
  readonly month: { readonly limit: number; readonly used: number; readonly endsAtMs: number }
  /** Absent: none, as far as is known. */
  readonly spooled?: Spooled
}

/** Events in spools of nodes, or sent from one and not read by the audit yet. */
export interface Spooled {
  readonly events: number
  /** Of these, in spools that no process has reported for two minutes: no window counts them. */
  readonly ofGoneNodes: number
}

/**
 * Why a batch finds no room, by what was used before it: the widest window without room. An empty batch takes one from the
 * minute alone, so that requests are limited too. null: it finds room.
 */
export function limitRefusal(
  app: Limits,
  minuteUsed: number,
  dayUsed: number,
  monthUsed: number,
  events: number,
): LimitRefusal | null {
  if (events === 0) return minuteUsed + 1 > app.eventsPerMinute ? 'rate_limit_exceeded' : null
  if (monthUsed + events > app.eventsPerMonth) return 'monthly_limit_exceeded'
  if (app.eventsPerDay !== null && dayUsed + events > app.eventsPerDay) return 'daily_limit_exceeded'
  return minuteUsed + events > app.eventsPerMinute ? 'rate_limit_exceeded' : null
}

/** Whole seconds until the window that had no room ends, at least 1. */
export function secondsUntilRoom(usage: Usage, refusal: LimitRefusal): number {
  return secondsBetween(usage.atMs, usage[WINDOW_OF_REFUSAL[refusal]].endsAtMs)
}

/** Whole seconds, at least 1. */
export function secondsBetween(atMs: number, endsAtMs: number): number {
  return Math.max(1, Math.ceil((endsAtMs - atMs) / 1000))
}

/** Answers name a window while less than a fifth of it is left. */
export function isNear(limit: number, used: number): boolean {
  return limit - used < limit / 5
}

/** The windows that have a limit, the shortest first. */
export function windowViews({ billingAnchorMs }: Pick<App, 'billingAnchorMs'>, usage: Usage): readonly WindowView[] {
  const { minute, day, month } = usage
  const view = (
    name: WindowView['name'],
    lengthMs: number,
    { limit, used, endsAtMs }: { readonly limit: number; readonly used: number; readonly endsAtMs: number },
  ): WindowView => {
    const remaining = Math.max(0, limit - used)
    return {
      name,
      limit,
      remaining,
      lengthSeconds: lengthMs / 1000,
      resetSeconds: secondsBetween(usage.atMs, endsAtMs),
    }
  }
  // With shared limits, a cycle ends with the minute in which the next one begins.
  const cycle = cycleAt(billingAnchorMs, windowStartMs(month.endsAtMs - 1, MINUTE_MS))
  return [
    view('minute', MINUTE_MS, minute),
    ...(day.limit === null ? [] : [view('day', DAY_MS, { ...day, limit: day.limit })]),
    view('month', cycle.endMs - cycle.startMs, month),
  ]
}
