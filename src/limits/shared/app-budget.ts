// What one node knows of one app's limits: what Redis last said is used, a bucket of events that Redis has counted
// already, and what to spend without Redis.

import type { App } from '../../apps/app.ts'
import { MINUTES_A_DAY } from '../../apps/plans.ts'
import { type CycleMinutes, cycleMinutesAt } from '../cycle-minutes.ts'
import type { LimitRefusal } from '../limiter.ts'
import type { Used } from './standing.ts'
import type { AppAnswer } from './take.ts'

/** Requests a second to this node from which on an app has a bucket. */
const HOT_REQUESTS = 40
const RATE_MS = 1000
/** A bucket is filled again when so much of it is left. */
const REFILL_SHARE = 4
/** A correction of an older minute is dropped: the audit has counted that minute. */
const MINUTES_CORRECTED = 3
/** One for all, since most apps never give anything back. */
const NOTHING: ReadonlyMap<number, number> = new Map()

/** One request that waits for Redis. */
export interface Take {
  readonly events: number
  /** In Redis; null: it has no key. */
  readonly key: string | null
  readonly askedAtMs: number
  readonly resolve: (outcome: TakeOutcome) => void
}

/**
 * away: Redis is. unanswered: it is not away, and gave no answer in time. ask again: the app's
 * record has changed since. Otherwise an answer of take.lua, with the minute and the cycle that were taken from.
 */
export type TakeOutcome = TakeAnswer | 'away' | 'unanswered' | 'ask again'

export interface TakeAnswer {
  readonly answer: number
  readonly nowMs: number
  readonly minute: number
  readonly cycleMinute: number
}

export class Room {
  readonly partition: number
  app: App
  /** Waits for the next call. */
  takes: Take[] = []
  /** Events that Redis still counts and that are not stored, by minute; below zero, those that it does not count yet. */
  givenBack: ReadonlyMap<number, number> = NOTHING
  isFillWanted = false
  usedAtMs = 0
  cycle: CycleMinutes = { first: 0, next: 0 }
  /** Of the bucket, and what is left in it. */
  bucketMinute = -1
  bucketCycle = 0
  tokens = 0
  #filledTo = 0
  /** The minute that `used` is of. */
  #minute = -1
  #used = { month: 0, day: 0, minute: 0 }
  /** Spent since, without Redis. */
  #alone = { month: 0, day: 0, minute: 0 }
  #rateFromMs = Number.NEGATIVE_INFINITY
  #requests = 0
  #events = 0
  #lastRequests = 0
  #lastEvents = 0

  constructor(app: App, partition: number) {
    this.app = app
    this.partition = partition
  }

  /** A changed record holds from now on: what an older one has granted goes back. */
  use(app: App, minute: number, nowMs: number): void {
    this.usedAtMs = nowMs
    if (!hasSameLimits(app, this.app)) {
      this.emptyBucket()
      this.app = app
      this.cycle = { first: 0, next: 0 }
    }
    this.turnTo(minute)
  }

  turnTo(minute: number): void {
    if (this.bucketMinute < minute) this.emptyBucket()
    const { first, next } = this.cycle
    if (minute < first || minute >= next) this.cycle = cycleMinutesAt(this.app, minute)
  }

  /** One that may spend from a bucket: a key has to be claimed in Redis in any case. */
  countRequest(events: number, nowMs: number): void {
    if (nowMs - this.#rateFromMs >= RATE_MS) {
      const isNext = nowMs - this.#rateFromMs < 2 * RATE_MS
      this.#lastRequests = isNext ? this.#requests : 0
      this.#lastEvents = isNext ? this.#events : 0
      this.#rateFromMs = nowMs
      this.#requests = 0
      this.#events = 0
    }
    this.#requests++
    this.#events += events
  }

  /** Takes from the bucket; false: it does not hold so much. */
  spend(events: number): boolean {
    if (events === 0 || this.tokens < events) return false
    this.tokens -= events
    return true
  }

  get isBucketLow(): boolean {
    return this.#filledTo > 0 && this.tokens * REFILL_SHARE < this.#filledTo
  }

  /** A second's worth, for an app that sends fast. */
  wantedAt(nowMs: number): number {
    if (nowMs - this.#rateFromMs >= 2 * RATE_MS) return 0
    if (Math.max(this.#requests, this.#lastRequests) < HOT_REQUESTS) return 0
    return Math.max(0, Math.max(this.#events, this.#lastEvents) - this.tokens)
  }

  emptyBucket(): void {
    if (this.tokens > 0) this.giveBack(this.bucketMinute, this.tokens)
    this.tokens = 0
    this.#filledTo = 0
  }

  /** What was taken and is surely not stored; below zero, what was taken without Redis. */
  giveBack(minute: number, events: number): void {
    const given = new Map([...this.givenBack].filter(([old]) => old >= minute - MINUTES_CORRECTED))
    this.givenBack = given.set(minute, (given.get(minute) ?? 0) + events)
  }

  /** For the next call: at most so many takes, and all that is given back. */
  hand(most: number): { takes: Take[]; givenBack: ReadonlyMap<number, number> } {
    const { givenBack } = this
    this.givenBack = NOTHING
    const takes = this.takes.slice(0, most)
    this.takes = this.takes.slice(most)
    return { takes, givenBack }
  }

  /** Redis has answered. */
  apply({ minute, cycleMinute, monthUsed, dayUsed, minuteUsed, granted }: AppAnswer): void {
    if (minute < this.#minute) {
      // It was asked before the minute turned here.
      if (granted > 0) this.giveBack(minute, granted)
      return
    }
    this.#minute = minute
    this.#used = { month: monthUsed, day: dayUsed, minute: minuteUsed }
    this.#alone = { month: 0, day: 0, minute: 0 }
    if (this.bucketMinute !== minute) this.emptyBucket()
    this.bucketMinute = minute
    this.bucketCycle = cycleMinute
    this.tokens += granted
    this.#filledTo = granted > 0 ? this.tokens : this.#filledTo
  }

  /** Takes from this node's share of what was left when Redis last answered. null: taken. */
  takeAlone(events: number, minute: number, nodes: number): LimitRefusal | null {
    this.#turnAlone(minute)
    const { eventsPerMonth, eventsPerDay, eventsPerMinute } = this.app
    const used = this.#used
    const alone = this.#alone
    const cost = Math.max(1, events)
    const isFull = (limit: number, window: 'month' | 'day' | 'minute', wanted: number): boolean =>
      alone[window] + wanted > Math.floor(Math.max(0, limit - used[window]) / nodes)
    if (events > 0 && isFull(eventsPerMonth, 'month', events)) return 'monthly_limit_exceeded'
    if (events > 0 && eventsPerDay !== null && isFull(eventsPerDay, 'day', events)) return 'daily_limit_exceeded'
    if (isFull(eventsPerMinute, 'minute', cost)) return 'rate_limit_exceeded'
    alone.month += events
    alone.day += events
    alone.minute += cost
    if (events > 0) this.giveBack(minute, -events)
    return null
  }

  /** As far as this node knows. What lies in its bucket is not used. */
  usedAt(minute: number): Used {
    const inMinute = this.usedInMinute(minute)
    const held = this.#heldIn(minute)
    return {
      month: Math.max(0, this.#used.month + this.#alone.month - held),
      day: Math.max(0, this.#used.day + this.#alone.day - held),
      minute: inMinute,
    }
  }

  usedInMinute(minute: number): number {
    this.#turnAlone(minute)
    return Math.max(0, this.#used.minute + this.#alone.minute - this.#heldIn(minute))
  }

  #heldIn(minute: number): number {
    return this.bucketMinute === minute ? this.tokens : 0
  }

  #turnAlone(minute: number): void {
    if (minute <= this.#minute) return
    this.#used.minute = 0
    this.#alone.minute = 0
    if (Math.floor(minute / MINUTES_A_DAY) !== Math.floor(this.#minute / MINUTES_A_DAY)) {
      this.#used.day = 0
      this.#alone.day = 0
    }
    // Of an app that Redis has said nothing of, nothing is known to be used.
    if (this.#minute < this.cycle.first) {
      this.#used.month = 0
      this.#alone.month = 0
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
