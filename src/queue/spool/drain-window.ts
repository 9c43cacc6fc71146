// How much of a spool may be under way. Beside live traffic it is as much as leaves live records nearly as quick as they are in short
// rests, in which nothing of the spool is under way, and at least a tenth of all. Without live traffic it is a whole window.

import type { Timers } from '../../lib/timers.ts'

/** Live records included. */
const MAX_MESSAGES = 64
const MAX_BYTES = 1024 * 1024
/** Of live records: a tenth of all, also where a tenth of the time is rest. */
const LIVE_SHARE = 8
/** Where live traffic begins. */
const FIRST_MESSAGES = 4
/** A turn begins with a rest. */
const TICKS_OF_A_TURN = 10
const TICKS_OF_A_REST = 1
/** So much longer than in rests may live records wait for their acknowledgement. */
const ALLOWED = 1.1
/** By which a turn may change the window. */
const LEAST_FACTOR = 0.5
const MOST_FACTOR = 1.25
/** Fewer live records in a turn are no live traffic; fewer waits tell nothing, and those of the next turn are added. */
const LEAST_RECORDS = 8
/** Of the newest rest, among those before. */
const NEWEST_WEIGHT = 0.25

export class DrainWindow {
  readonly #timers: Pick<Timers, 'monotonicMs'>
  #underWay = 0
  #bytes = 0
  /** How many may be under way beside live traffic. */
  #messages = FIRST_MESSAGES
  #ticks = 0
  /** There was live traffic in the turn before. */
  #isBeside = false
  /** Published in this turn. */
  #live = 0
  #waits = noWaits()
  /** In the rests so far; null: not known. */
  #restMs: number | null = null

  constructor(timers: Pick<Timers, 'monotonicMs'>) {
    this.#timers = timers
  }

  get underWay(): number {
    return this.#underWay
  }

  /** `live`: records under way that are not from the spool. */
  isOpen(live: number): boolean {
    if (this.#isRest) return false
    const most = Math.max(1, Math.ceil(live / LIVE_SHARE), Math.min(Math.floor(this.#messages), MAX_MESSAGES - live))
    return this.#underWay < most && (this.#underWay === 0 || this.#bytes < (MAX_BYTES * most) / MAX_MESSAGES)
  }

  add(bytes: number): void {
    this.#underWay += 1
    this.#bytes += bytes
  }

  remove(bytes: number): void {
    this.#underWay -= 1
    this.#bytes -= bytes
  }

  /** Returns what is to be called when it is stored. */
  livePublished(): () => void {
    const atMs = this.#timers.monotonicMs()
    const which = this.#isRest && this.#underWay === 0 ? 'inRest' : 'beside'
    this.#live += 1
    return () => {
      const waits = this.#waits[which]
      waits.count += 1
      waits.sumMs += this.#timers.monotonicMs() - atMs
    }
  }

  /** To be called every 50 ms. */
  tick(): void {
    // A rest lasts a tick from when the last one is acknowledged.
    if (this.#isRest && this.#underWay > 0) return
    this.#ticks = (this.#ticks + 1) % TICKS_OF_A_TURN
    if (this.#ticks > 0) return
    const isBeside = this.#live >= LEAST_RECORDS
    if (isBeside && this.#isBeside) this.#adjust()
    else {
      this.#messages = isBeside ? FIRST_MESSAGES : MAX_MESSAGES
      this.#waits = noWaits()
      this.#restMs = null
    }
    this.#isBeside = isBeside
    this.#live = 0
  }

  get #isRest(): boolean {
    return this.#isBeside && this.#ticks < TICKS_OF_A_REST
  }

  #adjust(): void {
    const { inRest, beside } = this.#waits
    if (Math.min(inRest.count, beside.count) < LEAST_RECORDS) return
    this.#waits = noWaits()
    const newestMs = inRest.sumMs / inRest.count
    this.#restMs = newestMs * NEWEST_WEIGHT + (this.#restMs ?? newestMs) * (1 - NEWEST_WEIGHT)
    const besideMs = Math.max(beside.sumMs / beside.count, Number.MIN_VALUE)
    const factor = (ALLOWED * this.#restMs) / besideMs
    const messages = this.#messages * Math.min(MOST_FACTOR, Math.max(LEAST_FACTOR, factor))
    this.#messages = Math.min(MAX_MESSAGES, Math.max(1, messages))
  }
}

function noWaits() {
  return { inRest: { count: 0, sumMs: 0 }, beside: { count: 0, sumMs: 0 } }
}
