// The limits of one process, counted in memory: per app a UTC minute, a UTC day and a billing cycle. A restart rebuilds
// them from a snapshot and from the journal's records after it.

import type { App } from '../../apps/app.ts'
import { cycleAt, DAY_MS, MINUTE_MS, windowStartMs } from '../../apps/plans.ts'
import type { RateLimitView } from '../../outcome.ts'
import type { LimitRefusal, Usage } from '../limiter.ts'
import { type DumpedApp, LIMITER_DUMP_VERSION, type LimiterDump, readLimiterDump } from './limiter-dump.ts'
import {
  type AppCounts,
  addTaken,
  addToDay,
  contains,
  currentCycle,
  cycleOfTake,
  DAYS_KEPT,
  endTake,
  MAX_CYCLES_PER_APP,
  newAppCounts,
  newCount,
  resetTo,
  turnDay,
  usedInCycle,
} from './window-counts.ts'

/** A clock that steps back by this or more was wrong before, and its new time is used. */
const CLOCK_RESET_MS = 60_000
/** For this long after such a step, requests taken before it may still end. */
const RESET_GRACE_MS = 60_000

export interface MemoryLimiter {
  /**
   * Takes `events` from month, day and minute, all or none; the first without room refuses. An empty batch costs 1 of
   * the minute. Returns the Unix ms of the take, for `settle` and `refund`.
   */
  take(app: App, events: number, nowMs: number): number | LimitRefusal
  /**
   * The events taken at `takenAtMs` are durable and stay used. Until `settle` or `refund` they are in flight and left
   * out of snapshots: after a crash the journal says whether they were stored.
   */
  settle(app: App, events: number, takenAtMs: number): void
  /** Returns the events taken at `takenAtMs` to each of their windows that is still open. */
  refund(app: App, events: number, takenAtMs: number, nowMs: number): void
  /** The minute's figures for the answer's headers. */
  view(app: App, nowMs: number): RateLimitView
  usage(app: App, nowMs: number): Usage
  /** The durable usage of windows that are still open, as JSON. Events in flight are left out. */
  dump(): LimiterDump
  /**
   * Replaces all counts by those of a dump, and drops windows that do not hold `nowMs` (default: the time of the dump).
   * Throws if `dump` is not a dump.
   */
  restore(dump: unknown, nowMs?: number): void
  /**
   * Counts a durable record that is newer than the dump, without checking limits. If its app no longer exists, it counts
   * in the cycles that the dump has for the app, or in the calendar month.
   */
  addUsage(app: App | undefined, appId: string, cost: number, receivedAtMs: number): void
}

/**
 * Windows follow the newest time that any call has passed. After a small step back of the clock, takes count in the
 * newest window until the clock has caught up. A take whose time lies before its window counts as durable at once and
 * cannot be given back, because it could not be told apart from takes of an earlier window. So a small step back may
 * cost an app part of one window, but never exceeds a limit. After a large step back the new time is used; otherwise
 * apps would stay in one minute until the clock has caught up.
 *
 * A changed plan or override holds from the next take. A changed anchor opens a cycle that has used what its days have,
 * the first one whole, and so does changing back: no app gets a new month by it. What was in flight then and is given
 * back later stays counted in the new cycle.
 */
export function createMemoryLimiter(): MemoryLimiter {
  return new CountingLimiter()
}

class CountingLimiter implements MemoryLimiter {
  readonly #countsOfApp = new Map<string, AppCounts>()
  #newestMs = 0
  #minuteStartMs = 0
  #dayStartMs = 0
  /** Until then, a request that ends may have taken from a window that a step back of the clock dropped. */
  #unknownUntilMs = 0

  take(app: App, events: number, nowMs: number): number | LimitRefusal {
    if (!(events >= 0)) throw new Error(`a request cannot hold ${events} events`)
    this.#advanceTo(nowMs)
    const counts = this.#countsNow(app.appId)
    const { minute, day } = counts
    const month = currentCycle(counts, app.billingAnchorMs, this.#newestMs)
    if (events === 0) {
      if (minute.used + 1 > app.eventsPerMinute) return 'rate_limit_exceeded'
      minute.used++
      return nowMs
    }
    if (month.used + events > app.eventsPerMonth) return 'monthly_limit_exceeded'
    if (app.eventsPerDay !== null && day.used + events > app.eventsPerDay) return 'daily_limit_exceeded'
    if (minute.used + events > app.eventsPerMinute) return 'rate_limit_exceeded'
    addTaken(minute, events, nowMs)
    addTaken(day, events, nowMs)
    addTaken(month, events, nowMs)
    counts.newestMs = this.#newestMs
    return nowMs
  }

  settle(app: App, events: number, takenAtMs: number): void {
    if (events > 0) this.#endFlight(app, events, takenAtMs, 0)
  }

  refund(app: App, events: number, takenAtMs: number, nowMs: number): void {
    this.#advanceTo(nowMs)
    if (events > 0) this.#endFlight(app, events, takenAtMs, events)
  }

  view(app: App, nowMs: number): RateLimitView {
    this.#advanceTo(nowMs)
    const minute = this.#countsOfApp.get(app.appId)?.minute
    const used = minute !== undefined && minute.startMs === this.#minuteStartMs ? minute.used : 0
    return {
      limit: app.eventsPerMinute,
      remaining: Math.max(0, app.eventsPerMinute - used),
      resetUnixSeconds: (this.#minuteStartMs + MINUTE_MS) / 1000,
    }
  }

  usage(app: App, nowMs: number): Usage {
    this.#advanceTo(nowMs)
    const counts = this.#countsOfApp.get(app.appId) ?? newAppCounts(this.#minuteStartMs, this.#dayStartMs)
    const { minute, day } = counts
    const cycle = cycleAt(app.billingAnchorMs, this.#newestMs)
    return {
      atMs: nowMs,
      minute: {
        limit: app.eventsPerMinute,
        used: minute.startMs === this.#minuteStartMs ? minute.used : 0,
        endsAtMs: this.#minuteStartMs + MINUTE_MS,
      },
      day: {
        limit: app.eventsPerDay,
        used: day.startMs === this.#dayStartMs ? day.used : 0,
        endsAtMs: this.#dayStartMs + DAY_MS,
      },
      month: {
        limit: app.eventsPerMonth,
        used: usedInCycle(counts, cycle.startMs, cycle.endMs),
        endsAtMs: cycle.endMs,
      },
    }
  }

  dump(): LimiterDump {
    const apps: DumpedApp[] = []
    for (const [appId, counts] of this.#countsOfApp) {
      const { minute, day, cycles, pastDays, newestMs } = counts
      const running = cycles.filter((cycle) => cycle.endMs > this.#newestMs)
      const isOld = newestMs < this.#dayStartMs - DAYS_KEPT * DAY_MS
      if (running.length === 0 && day.startMs !== this.#dayStartMs && isOld) {
        // Every window of this app is over, and any that an anchor could open is empty.
        this.#countsOfApp.delete(appId)
        continue
      }
      apps.push({
        appId,
        minuteUsed: minute.startMs === this.#minuteStartMs ? minute.used - minute.pending : 0,
        dayUsed: day.startMs === this.#dayStartMs ? day.used - day.pending : 0,
        days: day.startMs === this.#dayStartMs ? [...pastDays] : [...pastDays, [day.startMs, day.used]],
        newestMs: Number.isFinite(newestMs) ? newestMs : null,
        cycles: running.map(({ startMs, endMs, used, pending }) => ({ startMs, endMs, used: used - pending })),
      })
    }
    return { version: LIMITER_DUMP_VERSION, newestMs: this.#newestMs, apps }
  }

  restore(dump: unknown, nowMs?: number): void {
    const { newestMs: dumpedAtMs, apps } = readLimiterDump(dump)
    this.#countsOfApp.clear()
    this.#turnTo(nowMs ?? dumpedAtMs)
    const sameMinute = windowStartMs(dumpedAtMs, MINUTE_MS) === this.#minuteStartMs
    const sameDay = windowStartMs(dumpedAtMs, DAY_MS) === this.#dayStartMs
    const dumpedDayMs = windowStartMs(dumpedAtMs, DAY_MS)
    for (const { appId, minuteUsed, dayUsed, cycles, days, newestMs = dumpedAtMs } of apps) {
      const counts = this.#countsNow(appId)
      counts.newestMs = newestMs ?? Number.NEGATIVE_INFINITY
      // Where the days are not known, the whole cycle counts as used on the last of them.
      const inCycle = Math.max(0, ...cycles.map(({ used }) => used)) - dayUsed
      for (const [startMs, used] of days ?? [[dumpedDayMs, Math.max(0, inCycle)]])
        addToDay(counts.pastDays, startMs, used)
      if (!sameDay) addToDay(counts.pastDays, dumpedDayMs, dayUsed)
      if (sameMinute) counts.minute.used = minuteUsed
      if (sameDay) counts.day.used = dayUsed
      counts.cycles = cycles
        .filter(({ startMs, endMs }) => startMs <= this.#newestMs && this.#newestMs < endMs)
        .slice(0, MAX_CYCLES_PER_APP)
        .map(({ startMs, endMs, used }) => newCount(startMs, endMs, used))
    }
  }

  addUsage(app: App | undefined, appId: string, cost: number, receivedAtMs: number): void {
    // Only forward: a record of yesterday must not replace the dump's count of today.
    if (receivedAtMs > this.#newestMs) this.#turnTo(receivedAtMs)
    const counts = this.#countsNow(appId)
    const cycles =
      app === undefined && counts.cycles.length > 0
        ? counts.cycles
        : [currentCycle(counts, app?.billingAnchorMs ?? null, this.#newestMs)]
    for (const count of [counts.minute, counts.day, ...cycles]) {
      if (count.startMs <= receivedAtMs) count.used += cost
    }
    if (receivedAtMs < counts.day.startMs) addToDay(counts.pastDays, windowStartMs(receivedAtMs, DAY_MS), cost)
    counts.newestMs = Math.max(counts.newestMs, receivedAtMs)
  }

  /** Also opens new windows. After a large step back of the clock, time goes back. */
  #advanceTo(nowMs: number): void {
    if (nowMs <= this.#newestMs) {
      if (nowMs > this.#newestMs - CLOCK_RESET_MS) return
      this.#unknownUntilMs = nowMs + RESET_GRACE_MS
      this.#turnTo(nowMs)
      return
    }
    if (nowMs < this.#minuteStartMs + MINUTE_MS) this.#newestMs = nowMs
    else this.#turnTo(nowMs)
  }

  #turnTo(nowMs: number): void {
    this.#newestMs = nowMs
    this.#minuteStartMs = windowStartMs(nowMs, MINUTE_MS)
    this.#dayStartMs = windowStartMs(nowMs, DAY_MS)
  }

  /** The app's counts, with its minute and day those of the newest time. */
  #countsNow(appId: string): AppCounts {
    const counts = this.#countsOfApp.get(appId)
    if (counts === undefined) {
      const fresh = newAppCounts(this.#minuteStartMs, this.#dayStartMs)
      this.#countsOfApp.set(appId, fresh)
      return fresh
    }
    if (counts.minute.startMs !== this.#minuteStartMs) resetTo(counts.minute, this.#minuteStartMs, MINUTE_MS)
    if (counts.day.startMs !== this.#dayStartMs) turnDay(counts, this.#dayStartMs)
    return counts
  }

  /** Ends the flight of `cost` events in each window that they were taken from and that is still open. */
  #endFlight(app: App, cost: number, takenAtMs: number, refund: number): void {
    const counts = this.#countsOfApp.get(app.appId)
    if (counts === undefined) return
    const { minute, day } = counts
    const mayBeUnknown = this.#newestMs < this.#unknownUntilMs
    if (contains(minute, takenAtMs)) endTake(minute, cost, refund, mayBeUnknown)
    if (contains(day, takenAtMs)) endTake(day, cost, refund, mayBeUnknown)
    const cycle = cycleOfTake(counts, app, takenAtMs)
    if (cycle !== undefined) endTake(cycle, cost, refund, mayBeUnknown)
  }
}
