// What the memory limiter counts per app: the events of its current minute, its current day and its billing cycles.

import type { App } from '../../apps/app.ts'
import { cycleAt, windowStartMs } from '../../apps/plans.ts'
import { MAX_USAGE_DAYS } from '../../contract/bounds.ts'
import { DAY_MS, MINUTE_MS } from '../../lib/spans.ts'

/** Cycles counted side by side for an app whose anchor keeps changing; one more drops the oldest. */
export const MAX_CYCLES_PER_APP = 4
/** A clock that was set back, or back and forth, gives none of them out again. */
const MINUTES_KEPT = 8
/** Before today. A cycle touches 32 at most. */
export const DAYS_KEPT = MAX_USAGE_DAYS - 1

/** One window of one app. `pending` is the part of `used` that is in flight: neither committed nor given back. */
export interface WindowCount {
  startMs: number
  endMs: number
  used: number
  pending: number
}

export interface AppCounts {
  readonly minute: WindowCount
  /** The last minutes that were left with a use, for a clock that goes back to one: start and use by turns. */
  readonly leftMinutes: number[]
  readonly day: WindowCount
  /** What the days before `day` used, by their start: a moved anchor opens a cycle of days that are over. */
  readonly pastDays: Map<number, number>
  /** The day before `day` in which events were taken, while some of them are in flight. */
  readonly lastDay: WindowCount
  /** A sum of 0.3, of days that are not known: `pastDays` has it on this one. */
  guess: { readonly startMs: number; readonly used: number } | null
  /** The newest time at which events were taken. */
  newestMs: number
  /** The cycle that was counted in before, and is over. */
  lastCycle: WindowCount | null
  /** The cycle counted in last comes first. More than one only if the app's anchor changed. */
  cycles: WindowCount[]
  /** The anchor that gave the first cycle; undefined: none has been worked out since the restart. */
  anchorMs: number | null | undefined
}

export function newCount(startMs: number, endMs: number, used: number): WindowCount {
  return { startMs, endMs, used, pending: 0 }
}

export function newAppCounts(minuteStartMs: number, dayStartMs: number): AppCounts {
  return {
    minute: newCount(minuteStartMs, minuteStartMs + MINUTE_MS, 0),
    leftMinutes: [],
    day: newCount(dayStartMs, dayStartMs + DAY_MS, 0),
    pastDays: new Map(),
    lastDay: newCount(0, 0, 0),
    guess: null,
    lastCycle: null,
    newestMs: Number.NEGATIVE_INFINITY,
    cycles: [],
    anchorMs: undefined,
  }
}

export function turnMinute(counts: AppCounts, startMs: number): void {
  const { minute, leftMinutes } = counts
  const used = usedInMinute(counts, startMs)
  const at = leftAt(leftMinutes, startMs)
  if (at >= 0) leftMinutes.splice(at, 2)
  if (minute.used > 0) leftMinutes.push(minute.startMs, minute.used)
  if (leftMinutes.length > 2 * MINUTES_KEPT) leftMinutes.splice(0, 2)
  resetTo(minute, startMs, MINUTE_MS)
  minute.used = used
}

export function usedInMinute({ minute, leftMinutes }: AppCounts, startMs: number): number {
  if (minute.startMs === startMs) return minute.used
  const at = leftAt(leftMinutes, startMs)
  return at < 0 ? 0 : leftMinutes[at + 1]
}

function leftAt(leftMinutes: readonly number[], startMs: number): number {
  for (let at = 0; at < leftMinutes.length; at += 2) if (leftMinutes[at] === startMs) return at
  return -1
}

export function turnDay({ day, pastDays, lastDay }: AppCounts, startMs: number): void {
  Object.assign(lastDay, day)
  if (day.used > 0) addToDay(pastDays, day.startMs, day.used)
  for (const pastMs of pastDays.keys()) if (pastMs < startMs - DAYS_KEPT * DAY_MS) pastDays.delete(pastMs)
  resetTo(day, startMs, DAY_MS)
  // A clock that goes back to a day, or on to it again, finds what it has used.
  day.used = pastDays.get(startMs) ?? 0
  pastDays.delete(startMs)
}

/** For a dump at `dayStartMs`: the use of the days before it, without what is in flight. */
export function pastDaysBefore({ day, pastDays, lastDay }: AppCounts, dayStartMs: number): [number, number][] {
  const days = new Map(pastDays)
  if (lastDay.pending > 0) addToDay(days, lastDay.startMs, -lastDay.pending)
  if (day.startMs !== dayStartMs) addToDay(days, day.startMs, day.used - day.pending)
  return [...days].filter(([, used]) => used > 0)
}

export function addToDay(pastDays: Map<number, number>, startMs: number, used: number): void {
  pastDays.set(startMs, (pastDays.get(startMs) ?? 0) + used)
}

/**
 * What a cycle that was not counted in so far has used: nothing where it began after the last event, else what its days
 * have used, the first day whole. So a moved anchor gives no app a new month.
 */
function openingOf({ day, pastDays, newestMs }: AppCounts, cycleStartMs: number): number {
  if (newestMs < cycleStartMs) return 0
  const firstMs = windowStartMs(cycleStartMs, DAY_MS)
  let used = day.startMs >= firstMs ? day.used : 0
  for (const [startMs, past] of pastDays) if (startMs >= firstMs) used += past
  return used
}

/** What a cycle has used, whether it is the one that is counted in or not. */
export function usedInCycle(counts: AppCounts, startMs: number, endMs: number): number {
  const found = findCycle(counts.cycles, startMs, endMs)
  if (found !== undefined && found === counts.cycles[0]) return found.used
  return Math.max(found?.used ?? 0, openingOf(counts, startMs))
}

export function resetTo(count: WindowCount, startMs: number, lengthMs: number): void {
  count.startMs = startMs
  count.endMs = startMs + lengthMs
  count.used = 0
  count.pending = 0
}

/** Events taken before the window began, by a clock that stepped back, never count as pending. */
export function addTaken(count: WindowCount, cost: number, takenAtMs: number): void {
  count.used += cost
  if (takenAtMs >= count.startMs) count.pending += cost
}

export function contains(count: WindowCount, timeMs: number): boolean {
  return count.startMs <= timeMs && timeMs < count.endMs
}

/** Ends the flight of `cost` events. `mayBeUnknown`: they may have been taken in a window that is gone. */
export function endTake(count: WindowCount, cost: number, refund: number, mayBeUnknown: boolean): void {
  if (count.pending < cost) {
    if (mayBeUnknown) return
    throw new Error(`${cost} events ended, but only ${count.pending} were in flight`)
  }
  count.pending -= cost
  count.used -= refund
}

/** Compares both ends of a cycle: anchors on the 30th and on the 31st give some cycles the same start. */
export function findCycle(cycles: readonly WindowCount[], startMs: number, endMs: number): WindowCount | undefined {
  return cycles.find((cycle) => cycle.startMs === startMs && cycle.endMs === endMs)
}

/** The cycle that holds `nowMs`. Works it out only if the last one is over or the anchor has changed. */
export function currentCycle(counts: AppCounts, anchorMs: number | null, nowMs: number): WindowCount {
  const last = counts.cycles[0]
  if (last !== undefined && counts.anchorMs === anchorMs && contains(last, nowMs)) return last
  const { startMs, endMs } = cycleAt(anchorMs, nowMs)
  if (last !== undefined && last.endMs <= nowMs) counts.lastCycle = last
  const running = counts.cycles.filter((cycle) => cycle.endMs > nowMs)
  const used = usedInCycle(counts, startMs, endMs)
  const cycle = findCycle(running, startMs, endMs) ?? newCount(startMs, endMs, used)
  cycle.used = used
  counts.cycles = [cycle, ...running.filter((other) => other !== cycle)].slice(0, MAX_CYCLES_PER_APP)
  counts.anchorMs = anchorMs
  return cycle
}

/** The cycle from which a request took at `takenAtMs`. */
export function cycleOfTake(
  { cycles, anchorMs }: AppCounts,
  { billingAnchorMs }: App,
  takenAtMs: number,
): WindowCount | undefined {
  const newest: WindowCount | undefined = cycles[0]
  if (anchorMs === billingAnchorMs && newest !== undefined && takenAtMs >= newest.startMs) return newest
  // Rare: a new cycle began, or the anchor changed, while the request was in flight.
  const { startMs, endMs } = cycleAt(billingAnchorMs, takenAtMs)
  return findCycle(cycles, startMs, endMs)
}
