// The limits of one process, counted in memory: per app a UTC minute, a UTC day and a billing cycle. A restart rebuilds
// them from a snapshot and from the journal's records after it.

import type { App } from '../../apps/app.ts'
import { cycleAt, windowStartMs } from '../../apps/plans.ts'
import type { RateLimitView } from '../../contract/outcome.ts'
import { DAY_MS, MINUTE_MS } from '../../lib/spans.ts'
import type { AlertSums } from '../alerts.ts'
import { type DaysUsed, isNear, type LimitRefusal, limitRefusal, type Usage } from '../limiter.ts'
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
  findCycle,
  MAX_CYCLES_PER_APP,
  newAppCounts,
  newCount,
  pastDaysBefore,
  turnDay,
  turnMinute,
  usedInCycle,
  usedInMinute,
} from './window-counts.ts'

/** A clock that steps back by this or more was wrong before, and its new time is used. */
const CLOCK_RESET_MS = 60_000
/** For this long after such a step, requests taken before it may still end. */
const RESET_GRACE_MS = 60_000

/** What is charged is in the journal: nothing comes late. */
const NO_EVENTS: ReadonlyMap<number, number> = new Map()

/**
 * Windows follow the newest time that any call has passed. After a small step back of the clock, takes count in the
 * newest window until the clock has caught up. Set back further, or back and forth, a clock finds again what was used of the
 * last eight minutes with a use, and of the days. A take whose time lies before its window counts as durable at once and
 * cannot be given back, because it cannot be distinguished from takes of an earlier window. So a small step back may
 * cost an app part of one window, but never exceeds a limit. After a large step back the new time is used; otherwise
 * apps would stay in one minute until the clock has caught up.
 *
 * A changed plan or override holds from the next take. A changed anchor opens a cycle that has used what its days have,
 * the first one whole, and so does changing back: no app gets a new month by it. What was in flight then and is given
 * back later stays counted in the new cycle.
 */
export class MemoryLimiter {
  readonly #countsOfApp = new Map<string, AppCounts>()
  #newestMs = 0
  #minuteStartMs = 0
  #dayStartMs = 0
  /** Until then, a request that ends may have taken from a window that a step back of the clock dropped. */
  #unknownUntilMs = 0

  /**
   * Takes `events` from month, day and minute, all or none; the first without room refuses. An empty batch costs 1 of
   * the minute. Returns the Unix ms of the take, for `commit` and `refund`.
   */
  take(app: App, events: number, nowMs: number): number | LimitRefusal {
    if (!(events >= 0)) throw new Error(`a request cannot hold ${events} events`)
    this.#advanceTo(nowMs)
    const counts = this.#countsNow(app.appId)
    const { minute, day } = counts
    const month = currentCycle(counts, app.billingAnchorMs, this.#newestMs)
    const refusal = limitRefusal(app, minute.used, day.used, month.used, events)
    if (refusal !== null) return refusal
    if (events === 0) {
      minute.used++
      return nowMs
    }
    addTaken(minute, events, nowMs)
    addTaken(day, events, nowMs)
    addTaken(month, events, nowMs)
    counts.newestMs = this.#newestMs
    return nowMs
  }

  /**
   * The events taken at `takenAtMs` are durable and stay used. Until `commit` or `refund` they are in flight and left
   * out of snapshots: after a crash the journal says whether they were stored.
   */
  commit(app: App, events: number, takenAtMs: number): void {
    if (events > 0) this.#endFlight(app, events, takenAtMs, 0)
  }

  /** Returns the events taken at `takenAtMs` to each of their windows that is still open. */
  refund(app: App, events: number, takenAtMs: number, nowMs: number): void {
    this.#advanceTo(nowMs)
    if (events > 0) this.#endFlight(app, events, takenAtMs, events)
  }

  /** The minute's figures for the answer's headers. */
  view(app: App, nowMs: number): RateLimitView {
    this.#advanceTo(nowMs)
    const counts = this.#countsOfApp.get(app.appId)
    const used = counts === undefined ? 0 : usedInMinute(counts, this.#minuteStartMs)
    return {
      limit: app.eventsPerMinute,
      remaining: Math.max(0, app.eventsPerMinute - used),
      resetUnixSeconds: (this.#minuteStartMs + MINUTE_MS) / 1000,
    }
  }

  usage(app: App, nowMs: number): Usage {
    this.#advanceTo(nowMs)
    const counts = this.#countsOfApp.get(app.appId) ?? newAppCounts(this.#minuteStartMs, this.#dayStartMs)
    const cycle = cycleAt(app.billingAnchorMs, this.#newestMs)
    return {
      atMs: nowMs,
      minute: {
        limit: app.eventsPerMinute,
        used: usedInMinute(counts, this.#minuteStartMs),
        endsAtMs: this.#minuteStartMs + MINUTE_MS,
      },
      day: {
        limit: app.eventsPerDay,
        used: this.#usedToday(counts),
        endsAtMs: this.#dayStartMs + DAY_MS,
      },
      month: {
        limit: app.eventsPerMonth,
        used: usedInCycle(counts, cycle.startMs, cycle.endMs),
        endsAtMs: cycle.endMs,
      },
    }
  }

  /** Whether less than a fifth of a window is left. Makes nothing for an app whose counts are those of its record: every answer asks this. */
  isNearLimit(app: App, nowMs: number): boolean {
    this.#advanceTo(nowMs)
    const counts = this.#countsOfApp.get(app.appId)
    if (counts === undefined) return false
    if (isNear(app.eventsPerMinute, usedInMinute(counts, this.#minuteStartMs))) return true
    if (app.eventsPerDay !== null && isNear(app.eventsPerDay, this.#usedToday(counts))) return true
    const [cycle] = counts.cycles
    if (counts.anchorMs !== app.billingAnchorMs || !contains(cycle, this.#newestMs)) {
      const { month } = this.usage(app, nowMs)
      return isNear(month.limit, month.used)
    }
    return isNear(app.eventsPerMonth, cycle.used)
  }

  #usedToday({ day, pastDays }: AppCounts): number {
    return day.startMs === this.#dayStartMs ? day.used : (pastDays.get(this.#dayStartMs) ?? 0)
  }

  /** What is durable. */
  days(appId: string, nowMs: number): DaysUsed {
    this.#advanceTo(nowMs)
    const counts = this.#countsOfApp.get(appId)
    if (counts === undefined) return new Map()
    const { guess } = counts
    const days = new Map(pastDaysBefore(counts, Number.POSITIVE_INFINITY))
    if (guess !== null && days.has(guess.startMs)) addToDay(days, guess.startMs, -guess.used)
    return new Map(Array.from(days, ([startMs, used]) => [startMs / DAY_MS, Math.max(0, used)]))
  }

  /** The same, with the app's cycle. */
  sums(app: App, nowMs: number): AlertSums {
    const days = this.days(app.appId, nowMs)
    const counts = this.#countsOfApp.get(app.appId)
    const { startMs, endMs } = cycleAt(app.billingAnchorMs, this.#newestMs)
    const used = counts === undefined ? 0 : usedInCycle(counts, startMs, endMs)
    const inFlight = findCycle(counts?.cycles ?? [], startMs, endMs)?.pending ?? 0
    return {
      nowMs: this.#newestMs,
      days,
      month: { startMs, endMs, used: used - inFlight },
      lastMonth: counts?.lastCycle ?? null,
      late: NO_EVENTS,
    }
  }

  /** The apps that have used something in the last 35 days. */
  appIds(): Iterable<string> {
    return this.#countsOfApp.keys()
  }

  /** The durable usage of windows that are still open, as JSON. Events in flight are left out. */
  dump(): LimiterDump {
    const apps: DumpedApp[] = []
    for (const [appId, counts] of this.#countsOfApp) {
      const { minute, day, pastDays, cycles, newestMs, guess } = counts
      // The clock went back to it.
      if (day.startMs !== this.#dayStartMs && pastDays.has(this.#dayStartMs)) turnDay(counts, this.#dayStartMs)
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
        days: pastDaysBefore(counts, this.#dayStartMs),
        ...(guess === null ? {} : { guess: [guess.startMs, guess.used] as const }),
        newestMs: Number.isFinite(newestMs) ? newestMs : null,
        cycles: running.map(({ startMs, endMs, used, pending }) => ({ startMs, endMs, used: used - pending })),
      })
    }
    return { version: LIMITER_DUMP_VERSION, newestMs: this.#newestMs, apps }
  }

  /**
   * Replaces all counts by those of a dump, and drops windows that do not hold `nowMs` (default: the time of the dump).
   * Throws if `dump` is not a dump.
   */
  restore(dump: unknown, nowMs?: number): void {
    const { newestMs: dumpedAtMs, apps } = readLimiterDump(dump)
    this.#countsOfApp.clear()
    this.#turnTo(nowMs ?? dumpedAtMs)
    const sameMinute = windowStartMs(dumpedAtMs, MINUTE_MS) === this.#minuteStartMs
    const sameDay = windowStartMs(dumpedAtMs, DAY_MS) === this.#dayStartMs
    const dumpedDayMs = windowStartMs(dumpedAtMs, DAY_MS)
    for (const { appId, minuteUsed, dayUsed, cycles, days, guess, newestMs = dumpedAtMs } of apps) {
      const counts = this.#countsNow(appId)
      counts.newestMs = newestMs ?? Number.NEGATIVE_INFINITY
      // Where the days are not known, the whole cycle counts as used on the last of them.
      const inCycle = Math.max(0, ...cycles.map(({ used }) => used)) - dayUsed
      const [guessMs, guessed] = guess ?? [dumpedDayMs, days === undefined ? Math.max(0, inCycle) : 0]
      if (guessed > 0) counts.guess = { startMs: guessMs, used: guessed }
      for (const [startMs, used] of days ?? [[guessMs, guessed]]) addToDay(counts.pastDays, startMs, used)
      if (!sameDay) addToDay(counts.pastDays, dumpedDayMs, dayUsed)
      if (sameMinute) counts.minute.used = minuteUsed
      if (sameDay) counts.day.used = dayUsed
      counts.cycles = cycles
        .filter(({ startMs, endMs }) => startMs <= this.#newestMs && this.#newestMs < endMs)
        .slice(0, MAX_CYCLES_PER_APP)
        .map(({ startMs, endMs, used }) => newCount(startMs, endMs, used))
    }
  }

  /**
   * Counts a durable record that is newer than the dump, without checking limits. If its app no longer exists, it counts
   * in the cycles that the dump has for the app, or in the calendar month.
   */
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
    // The step back may be undone while such requests are in flight.
    if (nowMs >= this.#newestMs + CLOCK_RESET_MS && this.#newestMs < this.#unknownUntilMs)
      this.#unknownUntilMs = nowMs + RESET_GRACE_MS
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
    if (counts.minute.startMs !== this.#minuteStartMs) turnMinute(counts, this.#minuteStartMs)
    if (counts.day.startMs !== this.#dayStartMs) turnDay(counts, this.#dayStartMs)
    return counts
  }

  /** Ends the flight of `cost` events in each window that they were taken from and that is still open. */
  #endFlight(app: App, cost: number, takenAtMs: number, refund: number): void {
    const counts = this.#countsOfApp.get(app.appId)
    if (counts === undefined) return
    const { minute, day, lastDay, pastDays } = counts
    const mayBeUnknown = this.#newestMs < this.#unknownUntilMs
    if (contains(minute, takenAtMs)) endTake(minute, cost, refund, mayBeUnknown)
    if (contains(day, takenAtMs)) endTake(day, cost, refund, mayBeUnknown)
    else if (contains(lastDay, takenAtMs) && lastDay.pending >= cost) {
      lastDay.pending -= cost
      addToDay(pastDays, lastDay.startMs, -refund)
    }
    const cycle = cycleOfTake(counts, app, takenAtMs)
    if (cycle !== undefined) endTake(cycle, cost, refund, mayBeUnknown)
  }
}
