// The limits of one process, counted in memory: per app a UTC minute, a UTC day and a billing cycle. What they hold
// is dumped to a snapshot, and rebuilt from it and the records that became durable after it.

import type { App } from '../../apps/app.ts'
import { cycleAt, DAY_MS, MINUTE_MS, windowStartMs } from '../../apps/plans.ts'
import type { RateLimitView } from '../../outcome.ts'
import type { LimitRefusal, Standing } from '../limiter.ts'
import { type DumpedApp, LIMITER_DUMP_VERSION, type LimiterDump, readLimiterDump } from './limiter-dump.ts'

/** A clock that steps back by this or more was wrong before. */
const STEP_BACK_BELIEVED_MS = 60_000
/** How long after such a step something may still land that was taken before it. */
const STEP_BACK_FORGIVEN_MS = 60_000
/** Cycles counted side by side for an app whose anchor keeps changing; one more drops the oldest. */
const MAX_CYCLES_PER_APP = 4

export interface MemoryLimiter {
  /**
   * Takes `events` from month, then day, then minute, all or none; the first that has no room refuses. An empty batch
   * costs 1 of the minute. Gives the Unix ms at which it was taken, which is what `settle` and `giveBack` want to hear.
   */
  take(app: App, events: number, nowMs: number): number | LimitRefusal
  /**
   * What `take` at `takenAtMs` took has become durable and stays spent. Until `settle` or `giveBack` it is only in
   * flight, and a snapshot leaves it out: a crash then finds it in the journal or not at all.
   */
  settle(app: App, events: number, takenAtMs: number): void
  /** Gives back what `take` at `takenAtMs` took, in each window that has not turned since. */
  giveBack(app: App, events: number, takenAtMs: number, nowMs: number): void
  /** The minute's figures for the answer's headers. */
  view(app: App, nowMs: number): RateLimitView
  standing(app: App, nowMs: number): Standing
  /** What is durably spent in windows that are not over, as JSON: what is only in flight is left out. */
  dump(): LimiterDump
  /**
   * Puts back what `dump` gave, in place of all that is counted. With `nowMs` the clock of this start is believed:
   * windows that do not hold `nowMs` are dropped. Throws where `dump` is not a dump.
   */
  restore(dump: unknown, nowMs?: number): void
  /**
   * Counts a durable record that the dump does not cover, whatever the limits say. Where its app is not known any
   * more, it counts in the cycles the app had, or in the calendar month.
   */
  addUsage(app: App | undefined, appId: string, cost: number, receivedAtMs: number): void
}

/** One window of one app. Of `used`, `pending` is in flight: neither settled nor given back. */
interface Count {
  startMs: number
  endMs: number
  used: number
  pending: number
}

interface AppCounts {
  readonly minute: Count
  readonly day: Count
  /** The cycle last counted in stands first. More than one only where the app's anchor was changed. */
  cycles: Count[]
  /** The anchor for which the first cycle was worked out; undefined: none was since the restart. */
  anchorMs: number | null | undefined
}

/**
 * Time goes forward here: windows follow the newest time that any call has shown. When the clock steps back a little,
 * a window that was left stays closed, and what is taken counts in the newest one until the clock has caught up. What
 * is taken at a time before the window it counts in is held to be durable at once, and is not given back: later it
 * could not be told from what an earlier window took. So a small step back may cost an app a part of one window, and
 * never lets it have more. A large one says that the clock was wrong before: it is believed, or apps would wait in one
 * minute until the clock has caught up.
 *
 * A changed plan or override holds from the next take. A changed anchor opens a cycle with nothing spent, beside the
 * one that ran; going back to the old anchor while its cycle runs finds what was spent in it.
 */
export function createMemoryLimiter(): MemoryLimiter {
  return new CountingLimiter()
}

class CountingLimiter implements MemoryLimiter {
  readonly #countsOfApp = new Map<string, AppCounts>()
  #newestMs = 0
  #minuteStartMs = 0
  #dayStartMs = 0
  /** Until then, what lands may have been taken before the clock was set back, in a window that was dropped. */
  #forgivenUntilMs = 0

  take(app: App, events: number, nowMs: number): number | LimitRefusal {
    if (!(events >= 0)) throw new Error(`a request cannot hold ${events} events`)
    this.#see(nowMs)
    const counts = this.#countsNow(app.appId)
    const { minute, day } = counts
    const month = this.#cycleNow(counts, app.billingAnchorMs)
    if (events === 0) {
      if (minute.used + 1 > app.eventsPerMinute) return 'rate_limit_exceeded'
      minute.used++
      return nowMs
    }
    if (month.used + events > app.eventsPerMonth) return 'monthly_limit_exceeded'
    if (app.eventsPerDay !== null && day.used + events > app.eventsPerDay) return 'daily_limit_exceeded'
    if (minute.used + events > app.eventsPerMinute) return 'rate_limit_exceeded'
    spend(minute, events, nowMs)
    spend(day, events, nowMs)
    spend(month, events, nowMs)
    return nowMs
  }

  settle(app: App, events: number, takenAtMs: number): void {
    if (events > 0) this.#land(app, events, takenAtMs, 0)
  }

  giveBack(app: App, events: number, takenAtMs: number, nowMs: number): void {
    this.#see(nowMs)
    if (events > 0) this.#land(app, events, takenAtMs, events)
  }

  view(app: App, nowMs: number): RateLimitView {
    this.#see(nowMs)
    const minute = this.#countsOfApp.get(app.appId)?.minute
    const used = minute !== undefined && minute.startMs === this.#minuteStartMs ? minute.used : 0
    return {
      limit: app.eventsPerMinute,
      remaining: Math.max(0, app.eventsPerMinute - used),
      resetUnixSeconds: (this.#minuteStartMs + MINUTE_MS) / 1000,
    }
  }

  standing(app: App, nowMs: number): Standing {
    this.#see(nowMs)
    const { minute, day, cycles } =
      this.#countsOfApp.get(app.appId) ?? newAppCounts(this.#minuteStartMs, this.#dayStartMs)
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
        used: findCycle(cycles, cycle.startMs, cycle.endMs)?.used ?? 0,
        endsAtMs: cycle.endMs,
      },
    }
  }

  dump(): LimiterDump {
    const apps: DumpedApp[] = []
    for (const [appId, { minute, day, cycles }] of this.#countsOfApp) {
      const running = cycles.filter((cycle) => cycle.endMs > this.#newestMs)
      if (running.length === 0 && day.startMs !== this.#dayStartMs) {
        // Every window is over, so there is nothing to remember of this app.
        this.#countsOfApp.delete(appId)
        continue
      }
      apps.push({
        appId,
        minuteUsed: minute.startMs === this.#minuteStartMs ? minute.used - minute.pending : 0,
        dayUsed: day.startMs === this.#dayStartMs ? day.used - day.pending : 0,
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
    for (const { appId, minuteUsed, dayUsed, cycles } of apps) {
      const counts = this.#countsNow(appId)
      if (sameMinute) counts.minute.used = minuteUsed
      if (sameDay) counts.day.used = dayUsed
      counts.cycles = cycles
        .filter(({ startMs, endMs }) => startMs <= this.#newestMs && this.#newestMs < endMs)
        .slice(0, MAX_CYCLES_PER_APP)
        .map(({ startMs, endMs, used }) => newCount(startMs, endMs, used))
    }
  }

  addUsage(app: App | undefined, appId: string, cost: number, receivedAtMs: number): void {
    // Only forward: a record from before midnight must not reopen yesterday over what the dump has of today.
    if (receivedAtMs > this.#newestMs) this.#turnTo(receivedAtMs)
    const counts = this.#countsNow(appId)
    const cycles =
      app === undefined && counts.cycles.length > 0
        ? counts.cycles
        : [this.#cycleNow(counts, app?.billingAnchorMs ?? null)]
    for (const count of [counts.minute, counts.day, ...cycles]) {
      if (count.startMs <= receivedAtMs) count.used += cost
    }
  }

  /** Takes note of the time a call was made at. */
  #see(nowMs: number): void {
    if (nowMs <= this.#newestMs) {
      if (nowMs > this.#newestMs - STEP_BACK_BELIEVED_MS) return
      this.#forgivenUntilMs = nowMs + STEP_BACK_FORGIVEN_MS
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

  /** The app's counts, its minute and day turned to the newest time. */
  #countsNow(appId: string): AppCounts {
    const counts = this.#countsOfApp.get(appId)
    if (counts === undefined) {
      const fresh = newAppCounts(this.#minuteStartMs, this.#dayStartMs)
      this.#countsOfApp.set(appId, fresh)
      return fresh
    }
    if (counts.minute.startMs !== this.#minuteStartMs) reopen(counts.minute, this.#minuteStartMs, MINUTE_MS)
    if (counts.day.startMs !== this.#dayStartMs) reopen(counts.day, this.#dayStartMs, DAY_MS)
    return counts
  }

  /** The running cycle. It is worked out anew only where the last one is over or the anchor has changed. */
  #cycleNow(counts: AppCounts, anchorMs: number | null): Count {
    const last = counts.cycles[0]
    if (last !== undefined && counts.anchorMs === anchorMs && holds(last, this.#newestMs)) return last
    const { startMs, endMs } = cycleAt(anchorMs, this.#newestMs)
    const running = counts.cycles.filter((cycle) => cycle.endMs > this.#newestMs)
    const cycle = findCycle(running, startMs, endMs) ?? newCount(startMs, endMs, 0)
    counts.cycles = [cycle, ...running.filter((other) => other !== cycle)].slice(0, MAX_CYCLES_PER_APP)
    counts.anchorMs = anchorMs
    return cycle
  }

  /** What was taken at `takenAtMs` is in flight no more, in each window that it counts in and that still stands. */
  #land(app: App, cost: number, takenAtMs: number, givenBack: number): void {
    const counts = this.#countsOfApp.get(app.appId)
    if (counts === undefined) return
    const { minute, day, cycles } = counts
    const isForgiven = this.#newestMs < this.#forgivenUntilMs
    if (holds(minute, takenAtMs)) land(minute, cost, givenBack, isForgiven)
    if (holds(day, takenAtMs)) land(day, cost, givenBack, isForgiven)
    let cycle: Count | undefined = cycles[0]
    if (counts.anchorMs !== app.billingAnchorMs || cycle === undefined || takenAtMs < cycle.startMs) {
      // Rare: the cycle has turned, or the anchor has changed, while the request was in flight.
      const { startMs, endMs } = cycleAt(app.billingAnchorMs, takenAtMs)
      cycle = findCycle(cycles, startMs, endMs)
    }
    if (cycle !== undefined) land(cycle, cost, givenBack, isForgiven)
  }
}

function newCount(startMs: number, endMs: number, used: number): Count {
  return { startMs, endMs, used, pending: 0 }
}

function newAppCounts(minuteStartMs: number, dayStartMs: number): AppCounts {
  return {
    minute: newCount(minuteStartMs, minuteStartMs + MINUTE_MS, 0),
    day: newCount(dayStartMs, dayStartMs + DAY_MS, 0),
    cycles: [],
    anchorMs: undefined,
  }
}

function reopen(count: Count, startMs: number, lengthMs: number): void {
  count.startMs = startMs
  count.endMs = startMs + lengthMs
  count.used = 0
  count.pending = 0
}

function spend(count: Count, cost: number, takenAtMs: number): void {
  count.used += cost
  if (takenAtMs >= count.startMs) count.pending += cost
}

function holds(count: Count, timeMs: number): boolean {
  return count.startMs <= timeMs && timeMs < count.endMs
}

function land(count: Count, cost: number, givenBack: number, isForgiven: boolean): void {
  if (count.pending < cost) {
    if (isForgiven) return
    throw new Error(`${cost} landed of ${count.pending} in flight`)
  }
  count.pending -= cost
  count.used -= givenBack
}

/** A cycle is known by both its ends: anchors on the 30th and the 31st begin some cycles together. */
function findCycle(cycles: readonly Count[], startMs: number, endMs: number): Count | undefined {
  return cycles.find((cycle) => cycle.startMs === startMs && cycle.endMs === endMs)
}
