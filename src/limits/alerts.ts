// Which alerts an app's use gives rise to: a pure decision, made again and again from the sums of what is stored, by the
// partition's auditor or on one machine by the node. What stands is remembered; whoever forgets it decides the same ids.

import type { App } from '../apps/app.ts'
import { type Alert, type AlertWindow, alertId } from '../contract/alert.ts'
import { DAY_MS, HOUR_MS } from '../lib/spans.ts'

const SOON_MS = 48 * HOUR_MS
/** A forecast that stands is cleared only from here on, since the rate goes up and down. */
const LASTS_MS = 72 * HOUR_MS
/** So long behind the end of the cycle must the room last, to be cleared before it. */
const LASTS_BEYOND_MS = 24 * HOUR_MS
const ALL_PERCENT = 100
/** An app that nobody has looked at may have begun so long ago, on the day before. */
const NEW_APP_MS = 10 * 60_000

export type AlertLimits = Pick<App, 'alertSteps' | 'eventsPerDay' | 'eventsPerMonth' | 'billingAnchorMs'>

export interface MonthSum {
  readonly startMs: number
  readonly endMs: number
  readonly used: number
}

export interface AlertSums {
  /** By the clock that opens the windows. */
  readonly nowMs: number
  /** Events by UTC day, numbered from 1970. */
  readonly days: ReadonlyMap<number, number>
  readonly month: MonthSum
  /** The cycle before it; null: not known. */
  readonly lastMonth: MonthSum | null
  /** Of `days`: events that came when their day was over, since the last decision. */
  readonly late: ReadonlyMap<number, number>
}

/** What stands of one window. */
export interface StandingSteps {
  readonly startMs: number
  readonly endMs: number
  /** The highest step that was raised; 0: none. */
  readonly reached: number
  /** How often steps were cleared in this window, so that one that is raised again is another alert. */
  readonly round: number
}

export interface StandingAlerts {
  readonly day: StandingSteps
  readonly month: StandingSteps & { readonly isForecast: boolean; readonly forecastRound: number }
}

export interface AlertDecision {
  readonly standing: StandingAlerts
  /** In the order in which they happened. */
  readonly alerts: readonly Alert[]
}

/** One window as it is now, or was at its end. */
interface Window {
  readonly name: AlertWindow
  readonly startMs: number
  readonly endMs: number
  readonly used: number
  readonly limit: number | null
}

/** `standing` null: nothing is known of this app. */
export function decideAlerts(
  appId: string,
  limits: AlertLimits,
  standing: StandingAlerts | null,
  sums: AlertSums,
): AlertDecision {
  const decision = new Decision(appId, limits.alertSteps, sums.nowMs)
  const day = decision.days(limits, standing?.day ?? null, sums)
  const month = decision.month(limits, standing?.month ?? null, sums)
  return { standing: { day, month }, alerts: decision.alerts }
}

class Decision {
  readonly alerts: Alert[] = []
  readonly #appId: string
  readonly #steps: readonly number[]
  readonly #nowMs: number

  constructor(appId: string, steps: readonly number[], nowMs: number) {
    this.#appId = appId
    this.#steps = steps
    this.#nowMs = nowMs
  }

  /** Also the days that were over before anybody looked at them. */
  days({ eventsPerDay: limit }: AlertLimits, standing: StandingSteps | null, sums: AlertSums): StandingSteps {
    const today = Math.floor(sums.nowMs / DAY_MS)
    const knownMs = standing === null ? sums.nowMs - NEW_APP_MS : standing.startMs
    const known = Math.floor(knownMs / DAY_MS)
    // The clock was set back: the day that is known goes on when it comes.
    if (standing !== null && known > today) return standing
    this.#lateDays(limit, sums, known)
    const between = [...sums.days.keys()].filter((day) => day >= known && day < today)
    let now = standing ?? fresh(known * DAY_MS, (known + 1) * DAY_MS)
    for (const day of [...between.toSorted((one, other) => one - other), today]) {
      const startMs = day * DAY_MS
      const window = { name: 'day', startMs, endMs: startMs + DAY_MS, used: sums.days.get(day) ?? 0, limit } as const
      if (startMs > now.startMs) now = this.#turn(now, window)
      now = this.#compare(now, window)
    }
    return now
  }

  /** Days before `known`, which were decided already. */
  #lateDays(limit: number | null, { nowMs, days, late }: AlertSums, known: number): void {
    const today = Math.floor(nowMs / DAY_MS)
    const windowOf = (day: number): Window => {
      const startMs = day * DAY_MS
      return { name: 'day', startMs, endMs: startMs + DAY_MS, used: days.get(day) ?? 0, limit }
    }
    for (const [day, events] of late) if (day < known) this.#addLate(events, windowOf(day), windowOf(today))
  }

  /** So many events of a window came after it was decided: the steps between are raised, and cleared as at its end. */
  #addLate(events: number, window: Window, running: Window): void {
    const { startMs, endMs, used } = window
    const standing = { ...fresh(startMs, endMs), reached: this.#reached({ ...window, used: used - events }) }
    const now = this.#compare(standing, window)
    if (now !== standing) this.#turn(now, running)
  }

  month(
    { eventsPerMonth: limit }: AlertLimits,
    standing: StandingAlerts['month'] | null,
    sums: AlertSums,
  ): StandingAlerts['month'] {
    const { lastMonth, nowMs } = sums
    const { startMs, endMs, used } = sums.month
    const window = { name: 'month', startMs, endMs, used, limit } as const
    const isNew = lastMonth !== null && lastMonth.endMs > nowMs - NEW_APP_MS
    const first = isNew ? fresh(lastMonth.startMs, lastMonth.endMs) : fresh(startMs, endMs)
    let { isForecast, forecastRound, ...steps } = standing ?? { ...first, isForecast: false, forecastRound: 0 }
    if (lastMonth !== null && lastMonth.startMs < steps.startMs) {
      const [from, to] = [Math.floor(lastMonth.startMs / DAY_MS), Math.floor((lastMonth.endMs - 1) / DAY_MS)]
      let events = 0
      for (const [day, ofDay] of sums.late) if (day >= from && day <= to) events += ofDay
      if (events > 0) this.#addLate(Math.min(events, lastMonth.used), { ...window, ...lastMonth }, window)
    }
    if (nowMs >= steps.endMs) {
      if (lastMonth?.startMs === steps.startMs)
        steps = this.#compare(steps, { ...window, ...steps, used: lastMonth.used })
      if (isForecast) this.#forecast('cleared', window, { round: steps.startMs, fullMs: null })
      steps = this.#turn(steps, window)
      isForecast = false
      forecastRound = 0
    } else if (steps.startMs !== startMs || steps.endMs !== endMs) {
      // The anchor was moved: what was raised is not raised again.
      steps = { ...steps, startMs, endMs }
    }
    steps = this.#compare(steps, window)
    const fullMs = this.#steps.length === 0 ? Number.POSITIVE_INFINITY : fullInMs(sums, limit)
    const isSoon = fullMs < SOON_MS && nowMs + fullMs < endMs
    const lasts = fullMs >= LASTS_MS || nowMs + fullMs >= endMs + LASTS_BEYOND_MS
    // With no room left the step of 100% says so.
    if (used < limit && (isForecast ? lasts : isSoon)) {
      const state = isForecast ? 'cleared' : 'raised'
      this.#forecast(state, window, { round: forecastRound, fullMs: isForecast ? null : fullMs })
      if (isForecast) forecastRound++
      isForecast = !isForecast
    }
    return { ...steps, isForecast, forecastRound }
  }

  /** Raises and clears steps within one window. */
  #compare(standing: StandingSteps, window: Window): StandingSteps {
    const reached = this.#reached(window)
    if (reached > standing.reached) {
      for (const step of this.#steps) {
        if (step > standing.reached && step <= reached) this.#step('raised', step, window, standing)
      }
      return { ...standing, reached }
    }
    // A step that was raised and is no longer in the list stands until the use is below it.
    if (reached === standing.reached || (this.#steps.length > 0 && standing.reached <= percentOf(window)))
      return standing
    this.#step('cleared', this.#lowestAbove(reached, standing), window, standing)
    return { ...standing, reached, round: standing.round + 1 }
  }

  /** The highest step that the window has reached; 0: none. */
  #reached(window: Window): number {
    return this.#steps.findLast((step) => step <= percentOf(window)) ?? 0
  }

  /** A new window begins, in which nothing is raised yet. */
  #turn(standing: StandingSteps, window: Window): StandingSteps {
    if (standing.reached > 0)
      this.#step('cleared', this.#lowestAbove(0, standing), window, { ...standing, round: standing.startMs })
    return fresh(window.startMs, window.endMs)
  }

  #lowestAbove(percent: number, { reached }: StandingSteps): number {
    return this.#steps.find((step) => step > percent && step <= reached) ?? reached
  }

  #step(state: Alert['state'], percent: number, window: Window, { round }: StandingSteps): void {
    this.#add({ kind: 'step', state, percent, full_at: null }, window, round)
  }

  #forecast(
    state: Alert['state'],
    window: Window,
    { round, fullMs }: { readonly round: number; readonly fullMs: number | null },
  ): void {
    const fullAt = fullMs === null ? null : timeOf(this.#nowMs + fullMs)
    this.#add({ kind: 'forecast', state, percent: null, full_at: fullAt }, window, round)
  }

  #add(
    what: Pick<Alert, 'kind' | 'state' | 'percent' | 'full_at'>,
    { name, startMs, endMs, used, limit }: Window,
    round: number,
  ): void {
    const alert = {
      at: timeOf(this.#nowMs),
      app_id: this.#appId,
      window: name,
      used,
      limit,
      window_started_at: timeOf(startMs),
      window_ends_at: timeOf(endMs),
      ...what,
    }
    this.alerts.push({ id: alertId(alert, round), ...alert })
  }
}

function percentOf({ used, limit }: Window): number {
  return limit === null ? 0 : (ALL_PERCENT * used) / limit
}

function fresh(startMs: number, endMs: number): StandingSteps {
  return { startMs, endMs, reached: 0, round: 0 }
}

/** How long the month's room lasts at the rate of the last 24 hours, of which a part was yesterday. */
function fullInMs({ nowMs, days, month }: AlertSums, limit: number): number {
  const today = Math.floor(nowMs / DAY_MS)
  const ofYesterday = 1 - (nowMs - today * DAY_MS) / DAY_MS
  const lastDay = (days.get(today) ?? 0) + (days.get(today - 1) ?? 0) * ofYesterday
  return lastDay === 0 ? Number.POSITIVE_INFINITY : ((limit - month.used) / lastDay) * DAY_MS
}

function timeOf(timeMs: number): string {
  return new Date(timeMs).toISOString()
}

/** Whether it differs from what is decided of an app that nobody has looked at. */
export function isWorthKeeping({ day, month }: StandingAlerts): boolean {
  return day.reached + day.round + month.reached + month.round + month.forecastRound > 0 || month.isForecast
}

/** Who has forgotten what was cleared at the turn of a window decides it again while that is no longer ago. */
export function hasJustTurned({ day, month }: StandingAlerts, nowMs: number): boolean {
  return nowMs - NEW_APP_MS < Math.max(day.startMs, month.startMs)
}

/** Whether what was stored can be used. */
export function isStanding(value: unknown): value is StandingAlerts {
  const { day, month } = Object(value) as Partial<StandingAlerts>
  const isCounted = (window: object | undefined): boolean =>
    ['startMs', 'endMs', 'reached', 'round'].every((name) => Number.isFinite(Object(window)[name]))
  return isCounted(day) && isCounted(month) && Number.isFinite(month?.forecastRound)
}
