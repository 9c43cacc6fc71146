// Watches of one kind, and a timer that runs while there are any.

import type { Timer, Timers } from '../lib/timers.ts'

export class EachSecond<Watch> {
  readonly #onSecond: (watch: Watch) => void
  readonly #timers: Timers
  readonly #watches = new Set<Watch>()
  #timer: Timer | null = null

  /** `onSecond` is called with each watch, once a second. */
  constructor(timers: Timers, onSecond: (watch: Watch) => void) {
    this.#timers = timers
    this.#onSecond = onSecond
  }

  add(watch: Watch): void {
    this.#watches.add(watch)
    this.#timer ??= this.#timers.setInterval(() => {
      for (const one of this.#watches) this.#onSecond(one)
    }, 1000)
  }

  delete(watch: Watch): void {
    this.#watches.delete(watch)
    if (this.#watches.size > 0 || this.#timer === null) return
    this.#timers.clear(this.#timer)
    this.#timer = null
  }
}
