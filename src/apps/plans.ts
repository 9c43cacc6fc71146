// The limits of each plan, and when an app's billing cycle begins and ends.

import type { RateLimitView } from '../contract/outcome.ts'
import { DAY_MS, MINUTE_MS } from '../lib/spans.ts'
import type { PlanName } from './app.ts'

export interface Plan {
  /** Per billing cycle, as sold: without the tolerance. */
  readonly eventsPerMonth: number
  readonly eventsPerMinute: number
}

export const PLANS: Readonly<Record<PlanName, Plan>> = {
  trial: { eventsPerMonth: 10_000, eventsPerMinute: 200 },
  '10k': { eventsPerMonth: 10_000, eventsPerMinute: 200 },
  '100k': { eventsPerMonth: 100_000, eventsPerMinute: 500 },
  '500k': { eventsPerMonth: 500_000, eventsPerMinute: 2_000 },
  '1m': { eventsPerMonth: 1_000_000, eventsPerMinute: 5_000 },
  '2m': { eventsPerMonth: 2_000_000, eventsPerMinute: 8_000 },
  '5m': { eventsPerMonth: 5_000_000, eventsPerMinute: 15_000 },
}

/** What a paid plan may go over its month; the trial may not. */
export function monthTolerancePercent(plan: PlanName): 0 | 10 {
  return plan === 'trial' ? 0 : 10
}

/** The enforced monthly limit. floor(1.1 n) is computed as n + floor(n / 10), which has no rounding error. */
export function enforcedEventsPerMonth(plan: PlanName, eventsPerMonth: number): number {
  if (monthTolerancePercent(plan) === 0) return eventsPerMonth
  return Math.min(eventsPerMonth + Math.floor(eventsPerMonth / 10), Number.MAX_SAFE_INTEGER)
}

const BYTES_PER_EVENT = 4096
const MIN_BYTES_PER_MINUTE = 2 * 1024 * 1024

/** Of an app whose record has no figure of its own. */
export function bytesPerMinuteFor(eventsPerMinute: number): number {
  return Math.min(Math.max(MIN_BYTES_PER_MINUTE, BYTES_PER_EVENT * eventsPerMinute), Number.MAX_SAFE_INTEGER)
}

/** What was sold, from what is enforced: the reverse of `enforcedEventsPerMonth`. */
export function soldEventsPerMonth(plan: PlanName, enforced: number): number {
  return monthTolerancePercent(plan) === 0 ? enforced : enforced - Math.floor(enforced / 11)
}

/** `endMs` is where the next cycle begins. */
export interface Cycle {
  readonly startMs: number
  readonly endMs: number
}

/** The first of some month at 00:00 UTC: without an anchor, cycles are calendar months. */
const CALENDAR_ANCHOR_MS = 0

/**
 * The billing cycle that contains `nowMs`. Cycles begin every month at the anchor's UTC day and time of day, or on the
 * last day of a month that is too short for it. There are cycles before the anchor too.
 */
export function cycleAt(anchorMs: number | null, nowMs: number): Cycle {
  const anchor = new Date(anchorMs ?? CALENDAR_ANCHOR_MS)
  const anchorDay = anchor.getUTCDate()
  const timeOfDayMs = anchor.getTime() - Math.floor(anchor.getTime() / DAY_MS) * DAY_MS
  const now = new Date(nowMs)
  const month = now.getUTCFullYear() * 12 + now.getUTCMonth()

  const startMs = cycleStartMs(month, anchorDay, timeOfDayMs)
  if (startMs > nowMs) return { startMs: cycleStartMs(month - 1, anchorDay, timeOfDayMs), endMs: startMs }
  return { startMs, endMs: cycleStartMs(month + 1, anchorDay, timeOfDayMs) }
}

/** When the cycle of a month begins. Months are numbered from year 0. */
function cycleStartMs(month: number, anchorDay: number, timeOfDayMs: number): number {
  const year = Math.floor(month / 12)
  const monthOfYear = month - year * 12
  // Day 0 of the next month is the last day of this one.
  const lastDay = new Date(Date.UTC(year, monthOfYear + 1, 0)).getUTCDate()
  return Date.UTC(year, monthOfYear, Math.min(anchorDay, lastDay)) + timeOfDayMs
}

/** The start of the UTC minute or day that contains `timeMs`. */
export function windowStartMs(timeMs: number, lengthMs: number): number {
  return Math.floor(timeMs / lengthMs) * lengthMs
}

/** For an answer given before the app is known: a full trial plan. */
export function trialView(nowMs: number): RateLimitView {
  const limit = PLANS.trial.eventsPerMinute
  return { limit, remaining: limit, resetUnixSeconds: (windowStartMs(nowMs, MINUTE_MS) + MINUTE_MS) / 1000 }
}
