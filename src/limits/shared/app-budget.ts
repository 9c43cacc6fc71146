// One node's view of one app's limits: the usage in Redis's last reply, a token budget, of events that Redis has already
// counted, and the share to spend while Redis is away.

import type { App } from '../../apps/app.ts'
import { MINUTES_A_DAY } from '../../lib/spans.ts'
import { type CycleMinutes, cycleMinutesAt } from '../cycle-minutes.ts'
import { isNear, type LimitRefusal } from '../limiter.ts'
import type { Acknowledged, AppReply } from './take.ts'
import type { UsedEvents } from './usage.ts'

/** Requests a second to this node from which an app gets a token budget: below it a token budget saves too few calls. */
const ADVANCE_MIN_REQUESTS = 40
const RATE_WINDOW_MS = 1000
/** A token budget is refilled once less than 1/4 of it is left. */
const REFILL_BELOW_FRACTION = 4
/** Corrections and sums of older minutes are dropped: the audit has replaced those counters. */
const MAX_CORRECTION_AGE_MINUTES = 3
/** Shared by all budgets, since most apps never need a correction. */
const NO_CORRECTIONS: ReadonlyMap<number, number> = new Map()
const NOTHING_ACKNOWLEDGED: readonly Acknowledged[] = []

/** One request that waits for Redis. */
export interface Take {
  readonly events: number
  /** The Redis key of its idempotency key; null: the request has none. */
  readonly key: string | null
  /** It only asks whether there is room. */
  readonly asks: boolean
  readonly askedAtMs: number
  readonly resolve: (outcome: TakeOutcome) => void
}

/**
 * unsent: it waited too long for its call. unanswered: Redis is up but did not answer it. retry: the app's record changed
 * while the call was under way, and what it took was given back.
 */
export type TakeOutcome = TakeAnswer | 'away' | 'unsent' | 'unanswered' | 'retry'

export interface TakeAnswer {
  /** One of `ANSWER`. */
  readonly answer: number
  readonly nowMs: number
  readonly minute: number
  readonly cycleMinute: number
}

export class AppBudget {
  readonly partition: number
  app: App
  /** For the next call. */
  takes: Take[] = []
  /**
   * What the next call subtracts from Redis's counters, by minute: events that are counted but not stored. Below 0:
   * events taken without Redis, which the call adds.
   */
  corrections: ReadonlyMap<number, number> = NO_CORRECTIONS
  /** One for each of the last minutes with events. */
  acknowledged: readonly Acknowledged[] = NOTHING_ACKNOWLEDGED
  needsRefill = false
  usedAtMs = 0
  cycle: CycleMinutes = { first: 0, next: 0 }
  /** The token budget belongs to one minute: what is left of it then is not spent in the next. */
  tokensMinute = -1
  tokensCycle = 0
  /** Events left in the token budget. */
  tokens = 0
  #tokensWhenFilled = 0
  /** The minute of `#usedInRedis`. */
  #minute = -1
  #usedInRedis = { month: 0, day: 0, minute: 0 }
  /** Since Redis's last reply. */
  #takenWithoutRedis = { month: 0, day: 0, minute: 0 }
  #rateWindowStartMs = Number.NEGATIVE_INFINITY
  #requests = 0
  #events = 0
  #previousRequests = 0
  #previousEvents = 0

  constructor(app: App, partition: number) {
    this.app = app
    this.partition = partition
  }

  /** A request of this app came, and `app` is its newest record. Changed limits hold from now on. */
  use(app: App, minute: number, atMs: number): void {
    this.usedAtMs = atMs
    if (!hasSameLimits(app, this.app)) {
      // The old limits granted the token budget, and the new ones may allow less.
      this.returnTokens()
      this.app = app
      this.cycle = { first: 0, next: 0 }
    }
    this.turnTo(minute)
  }

  turnTo(minute: number): void {
    if (this.tokensMinute < minute) this.returnTokens()
    this.turnCycleTo(minute)
  }

  turnCycleTo(minute: number): void {
    const { first, next } = this.cycle
    if (minute < first || minute >= next) this.cycle = cycleMinutesAt(this.app, minute)
  }

  /** Only requests without a key count towards a token budget: a key has to be claimed in Redis in any case. */
  countRequest(events: number, atMs: number): void {
    if (atMs - this.#rateWindowStartMs >= RATE_WINDOW_MS) {
      const isNext = atMs - this.#rateWindowStartMs < 2 * RATE_WINDOW_MS
      this.#previousRequests = isNext ? this.#requests : 0
      this.#previousEvents = isNext ? this.#events : 0
      this.#rateWindowStartMs = atMs
      this.#requests = 0
      this.#events = 0
    }
    this.#requests++
    this.#events += events
  }

  /** Takes from the token budget; false: it holds too little, and nothing was taken. */
  spend(events: number): boolean {
    if (events === 0 || this.tokens < events) return false
    this.tokens -= events
    return true
  }

  get isLow(): boolean {
    return this.#tokensWhenFilled > 0 && this.tokens * REFILL_BELOW_FRACTION < this.#tokensWhenFilled
  }

  /** Events to request for the token budget: one second's worth of a fast app, 0 for the others. */
  refillAt(atMs: number): number {
    if (atMs - this.#rateWindowStartMs >= 2 * RATE_WINDOW_MS) return 0
    if (Math.max(this.#requests, this.#previousRequests) < ADVANCE_MIN_REQUESTS) return 0
    return Math.max(0, Math.max(this.#events, this.#previousEvents) - this.tokens)
  }

  returnTokens(): void {
    if (this.tokens > 0) this.correct(this.tokensMinute, this.tokens)
    this.tokens = 0
    this.#tokensWhenFilled = 0
  }

  /** Adds to `corrections`: above 0 for events that are not stored, below 0 for events taken without Redis. */
  correct(minute: number, events: number): void {
    const kept = new Map([...this.corrections].filter(([old]) => old >= minute - MAX_CORRECTION_AGE_MINUTES))
    this.corrections = kept.set(minute, (kept.get(minute) ?? 0) + events)
  }

  /** What Redis says that this node has taken and given back, whatever else it answered. */
  acknowledge({ minute, taken, givenBack }: AppReply): void {
    if (taken === 0) return
    const isKept = (one: Acknowledged): boolean =>
      one.minute >= minute - MAX_CORRECTION_AGE_MINUTES && one.minute !== minute
    const known = this.acknowledged.find((one) => one.minute === minute)
    // Answers may come out of order.
    const newest = {
      minute,
      taken: Math.max(taken, known?.taken ?? 0),
      givenBack: Math.max(givenBack, known?.givenBack ?? 0),
    }
    this.acknowledged = [...this.acknowledged.filter(isKept), newest]
  }

  /** Removes what the next call sends: up to `maxTakes` takes, and all corrections. */
  drain(maxTakes: number): { takes: Take[]; corrections: ReadonlyMap<number, number> } {
    const { corrections } = this
    this.corrections = NO_CORRECTIONS
    const takes = this.takes.slice(0, maxTakes)
    this.takes = this.takes.slice(maxTakes)
    return { takes, corrections }
  }

  apply({ minute, cycleMinute, monthUsed, dayUsed, minuteUsed, granted }: AppReply): void {
    if (minute < this.#minute) {
      // The call was sent before the minute turned here.
      if (granted > 0) this.correct(minute, granted)
      return
    }
    this.#minute = minute
    this.#usedInRedis = { month: monthUsed, day: dayUsed, minute: minuteUsed }
    this.#takenWithoutRedis = { month: 0, day: 0, minute: 0 }
    if (this.tokensMinute !== minute) this.returnTokens()
    this.tokensMinute = minute
    this.tokensCycle = cycleMinute
    this.tokens += granted
    this.#tokensWhenFilled = granted > 0 ? this.tokens : this.#tokensWhenFilled
  }

  /** Takes from this node's share, 1/`nodes` of what was left at Redis's last reply, unless it only asks. null: there is room. */
  takeWithoutRedis(events: number, minute: number, nodes: number, asks = false): LimitRefusal | null {
    this.#turnUsageTo(minute)
    const { eventsPerMonth, eventsPerDay, eventsPerMinute } = this.app
    const used = this.#usedInRedis
    const taken = this.#takenWithoutRedis
    const cost = Math.max(1, events)
    const isFull = (limit: number, window: 'month' | 'day' | 'minute', wanted: number): boolean =>
      taken[window] + wanted > Math.floor(Math.max(0, limit - used[window]) / nodes)
    if (events > 0 && isFull(eventsPerMonth, 'month', events)) return 'monthly_limit_exceeded'
    if (events > 0 && eventsPerDay !== null && isFull(eventsPerDay, 'day', events)) return 'daily_limit_exceeded'
    if (isFull(eventsPerMinute, 'minute', cost)) return 'rate_limit_exceeded'
    if (asks) return null
    taken.month += events
    taken.day += events
    taken.minute += cost
    if (events > 0) this.correct(minute, -events)
    return null
  }

  /** As far as this node knows. Events left in its token budget do not count as used. */
  usedAt(minute: number): UsedEvents {
    const inMinute = this.usedInMinute(minute)
    const unspent = this.#unspentIn(minute)
    return {
      month: Math.max(0, this.#usedInRedis.month + this.#takenWithoutRedis.month - unspent),
      day: Math.max(0, this.#usedInRedis.day + this.#takenWithoutRedis.day - unspent),
      minute: inMinute,
    }
  }

  /** Whether less than a fifth of a window is left, as far as this node knows. Makes nothing: every answer asks this. */
  isNearLimit(limits: App, minute: number): boolean {
    if (isNear(limits.eventsPerMinute, this.usedInMinute(minute))) return true
    const unspent = this.#unspentIn(minute)
    const { month, day } = this.#usedInRedis
    const taken = this.#takenWithoutRedis
    if (limits.eventsPerDay !== null && isNear(limits.eventsPerDay, day + taken.day - unspent)) return true
    return isNear(limits.eventsPerMonth, month + taken.month - unspent)
  }

  usedInMinute(minute: number): number {
    this.#turnUsageTo(minute)
    return Math.max(0, this.#usedInRedis.minute + this.#takenWithoutRedis.minute - this.#unspentIn(minute))
  }

  #unspentIn(minute: number): number {
    return this.tokensMinute === minute ? this.tokens : 0
  }

  #turnUsageTo(minute: number): void {
    if (minute <= this.#minute) return
    this.#usedInRedis.minute = 0
    this.#takenWithoutRedis.minute = 0
    if (Math.floor(minute / MINUTES_A_DAY) !== Math.floor(this.#minute / MINUTES_A_DAY)) {
      this.#usedInRedis.day = 0
      this.#takenWithoutRedis.day = 0
    }
    this.turnCycleTo(minute)
    // Also where Redis has not replied about this app yet: then `#minute` is -1.
    if (this.#minute < this.cycle.first) {
      this.#usedInRedis.month = 0
      this.#takenWithoutRedis.month = 0
    }
    this.#minute = minute
  }
}

function hasSameLimits(one: App, other: App): boolean {
  return (
    one.eventsPerMonth === other.eventsPerMonth &&
    one.eventsPerDay === other.eventsPerDay &&
    one.eventsPerMinute === other.eventsPerMinute &&
    one.billingAnchorMs === other.billingAnchorMs
  )
}
