// Says in the log how full a store of events is, such as the journal or the stream, before it refuses batches: at each
// step on the way up, when it is full, and when there is room again.

import { formatBytes, formatSpan } from '../lib/format.ts'
import type { OnNotice } from '../lib/notice.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../lib/spans.ts'
import type { Timers } from '../lib/timers.ts'

/** Percent of the maximum, from which on those who fill the store are held, until it is below the other one. */
const HELD_FROM = 80
const HELD_UNTIL = 70
/** Percent of the maximum. */
const STEPS = [80, 90, 95]
/** A step is logged again only after the level was this much below it, in percent of the maximum. */
const FALL_PERCENT = 5
/** Full is a store without room for the largest batch, or for this share of it where that is less. */
const FULL_SHARE = 0.01
/** There is room again from this share on, so that a full journal does not log each old segment that it removes. */
const ROOM_SHARE = 0.02
/** And only so long after the last batch that found none: large ones may find none where small ones do. */
const QUIET_MS = 5000
const RATE_MS = HOUR_MS
/** A later date is not worth a mention. */
const MAX_FORECAST_MS = 10 * 365 * DAY_MS

/** Who stores how much. */
export interface Fillers {
  /** A store fills: those who fill it are held to less, until it has room again. */
  hold(store: string, isHeld: boolean): void
  /** Names those who stored most, to end a line of the log; empty: nobody stored anything. */
  mostText(): string
}

interface FillingOptions {
  /** The subject of the sentences: `the journal`. */
  readonly store: string
  /** What the largest batch takes. */
  readonly largestBytes: number
  readonly fillers?: Fillers
  readonly onNotice: OnNotice
  readonly timers: Pick<Timers, 'nowMs' | 'monotonicMs'>
}

export class Filling {
  readonly #options: FillingOptions
  /** About one a minute, back to an hour ago. */
  readonly #samples: { readonly atMs: number; readonly roomBytes: number }[] = []
  /** How many of the steps were logged. */
  #steps = 0
  #isHeld = false
  #isFull = false
  #refusedAtMs = Number.NEGATIVE_INFINITY

  constructor(options: FillingOptions) {
    this.#options = options
  }

  get isFull(): boolean {
    return this.#isFull
  }

  /** A batch was refused for want of room, so that the next look finds the store full. */
  noteRefusal(): void {
    this.#refusedAtMs = this.#options.timers.monotonicMs()
  }

  /** To be called at least once a minute. `advice`: what the operator can do to make room. `freeBytes`: of its disk. */
  look(usedBytes: number, maxBytes: number, advice: () => string, freeBytes = Number.POSITIVE_INFINITY): void {
    const roomBytes = Math.min(maxBytes - usedBytes, freeBytes)
    const totalBytes = usedBytes + roomBytes
    const percent = (100 * usedBytes) / totalBytes
    this.#sample(roomBytes)
    if (percent >= HELD_FROM || percent < HELD_UNTIL) this.#hold(percent >= HELD_FROM)
    while (this.#steps > 0 && percent < STEPS[this.#steps - 1] - FALL_PERCENT) {
      this.#steps -= 1
      // Segments were removed, or the maximum was raised: the rate until then says nothing of the time to come.
      this.#samples.length = 0
      this.#sample(roomBytes)
    }
    const { store, fillers, onNotice, timers } = this.#options
    const wasFull = this.#isFull
    const hasRefused = timers.monotonicMs() - this.#refusedAtMs < QUIET_MS
    this.#isFull = hasRefused || roomBytes < this.#leastRoomBytes(maxBytes, totalBytes)
    const steps = STEPS.findLastIndex((step) => percent >= step) + 1
    const isHigher = steps > this.#steps
    this.#steps = Math.max(steps, this.#steps)
    // The common case, at each commit.
    if (this.#isFull === wasFull && (wasFull || !isHigher)) return
    const amount = `(${formatBytes(usedBytes)} of ${formatBytes(totalBytes)})`
    if (this.#isFull)
      onNotice(`${store} is full ${amount}: answering 503 until there is room: ${advice()}${fillers?.mostText() ?? ''}`)
    else if (wasFull) onNotice(`${store} has room again ${amount}: requests get 202 as before`, 'info')
    else {
      const when = this.#forecast(roomBytes)
      onNotice(
        `${store} is ${STEPS[steps - 1]}% full ${amount}${when}; when full, requests get 503: ${advice()}${fillers?.mostText() ?? ''}`,
      )
    }
  }

  /** The store has no maximum any more. */
  unbound(): void {
    this.#hold(false)
  }

  #hold(isHeld: boolean): void {
    if (isHeld === this.#isHeld) return
    this.#isHeld = isHeld
    this.#options.fillers?.hold(this.#options.store, isHeld)
  }

  /** The store is full below it. Not a share of what it has where its disk is full: that may be next to nothing. */
  #leastRoomBytes(maxBytes: number, totalBytes: number): number {
    const { largestBytes } = this.#options
    if (!this.#isFull) return Math.min(largestBytes, FULL_SHARE * maxBytes)
    // A store may be smaller than the largest batch.
    return Math.max(Math.min(largestBytes, maxBytes / 2), ROOM_SHARE * totalBytes)
  }

  #sample(roomBytes: number): void {
    const atMs = this.#options.timers.monotonicMs()
    const last = this.#samples.at(-1)
    if (last === undefined || atMs - last.atMs >= MINUTE_MS) this.#samples.push({ atMs, roomBytes })
    while (this.#samples.length > 1 && atMs - this.#samples[1].atMs >= RATE_MS) this.#samples.shift()
  }

  /** Empty where the room does not shrink. */
  #forecast(roomBytes: number): string {
    const { timers } = this.#options
    const [first] = this.#samples
    const elapsedMs = timers.monotonicMs() - first.atMs
    const leftMs = (roomBytes * elapsedMs) / (first.roomBytes - roomBytes)
    if (!(leftMs > 0 && leftMs <= MAX_FORECAST_MS)) return ''
    const date = new Date(timers.nowMs() + leftMs + MINUTE_MS - 1).toISOString()
    const span = formatSpan(elapsedMs).replace(/^1 h$/, 'hour')
    return ` and will be full on ${date.slice(0, 16)}Z at the rate of the last ${span}`
  }
}
