// Counts of the last hour, in one cell a minute. A step back of the clock by less than an hour counts in the newest cell;
// after a larger one, the hour begins anew.

import { MINUTE_MS } from '../../lib/spans.ts'

const MINUTES = 60
/** Those of which a rate is taken: four whole ones and the running one. */
const RECENT_MINUTES = 5

export class HourCount {
  readonly #cells = new Uint32Array(MINUTES)
  #minute = 0
  #total = 0
  #firstMs = 0
  #lastMs = 0
  /** The first one after a silence of so many minutes. */
  #recentFirstMs = 0

  add(nowMs: number, count = 1): void {
    const minute = Math.floor(nowMs / MINUTE_MS)
    if (minute !== this.#minute) this.#turnTo(minute)
    this.#cells[this.#minute % MINUTES] += count
    if (this.#total === 0) this.#firstMs = nowMs
    if (this.#total === 0 || nowMs - this.#lastMs >= RECENT_MINUTES * MINUTE_MS) this.#recentFirstMs = nowMs
    this.#total += count
    this.#lastMs = nowMs
  }

  total(nowMs: number): number {
    this.#turnTo(Math.floor(nowMs / MINUTE_MS))
    return this.#total
  }

  /** The count of the last five minutes, or since the first one in them, and their time. To be read right behind `total`. */
  recent(nowMs: number): readonly [count: number, seconds: number] {
    const firstMinute = this.#minute - RECENT_MINUTES + 1
    let count = 0
    for (let minute = firstMinute; minute <= this.#minute; minute++) count += this.#cells[minute % MINUTES]
    const sinceMs = Math.max(this.#recentFirstMs, firstMinute * MINUTE_MS)
    return [count, Math.max(0, nowMs - sinceMs) / 1000]
  }

  /** To be read right behind `total`. The first may be that of its minute, where older ones are forgotten already. */
  get times(): { readonly firstMs: number; readonly lastMs: number } {
    let oldest = this.#minute - MINUTES + 1
    while (oldest < this.#minute && this.#cells[oldest % MINUTES] === 0) oldest++
    return { firstMs: Math.max(this.#firstMs, oldest * MINUTE_MS), lastMs: this.#lastMs }
  }

  /** Oldest first. To be read right behind `total`. */
  get perMinute(): number[] {
    // Thousands of groups are read at once: a callback for each cell took five times as long.
    const cells: number[] = []
    for (let minute = this.#minute + 1; minute <= this.#minute + MINUTES; minute++) {
      cells.push(this.#cells[minute % MINUTES])
    }
    return cells
  }

  #turnTo(minute: number): void {
    const passed = minute - this.#minute
    if (passed <= 0 && passed > -MINUTES) return
    if (Math.abs(passed) >= MINUTES) {
      this.#cells.fill(0)
      this.#total = 0
    } else {
      for (let next = this.#minute + 1; next <= minute; next++) {
        this.#total -= this.#cells[next % MINUTES]
        this.#cells[next % MINUTES] = 0
      }
    }
    this.#minute = minute
  }
}
