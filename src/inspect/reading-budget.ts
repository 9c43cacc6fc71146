// How long threads may read for the developers of one app in a minute, however many keys and questions they have: each
// question is bounded in time, and sixty of them a minute would keep a core busy.

import type { Timers } from '../lib/timers.ts'

const WINDOW_MS = 60_000
const MAX_READ_MS = 20_000

export class ReadingBudget {
  readonly #timers: Pick<Timers, 'monotonicMs'>
  /** By app; in one minute for all, so that nothing older is kept. */
  readonly #readMs = new Map<string, number>()
  #sinceMs = Number.NEGATIVE_INFINITY

  constructor(timers: Pick<Timers, 'monotonicMs'>) {
    this.#timers = timers
  }

  /** In how many seconds to ask again; 0: it may. */
  secondsLeft(appId: string): number {
    const atMs = this.#timers.monotonicMs()
    if (atMs - this.#sinceMs >= WINDOW_MS) {
      this.#sinceMs = atMs
      this.#readMs.clear()
    }
    if ((this.#readMs.get(appId) ?? 0) < MAX_READ_MS) return 0
    return Math.max(1, Math.ceil((this.#sinceMs + WINDOW_MS - atMs) / 1000))
  }

  add(appId: string, ms: number): void {
    this.#readMs.set(appId, (this.#readMs.get(appId) ?? 0) + ms)
  }
}
