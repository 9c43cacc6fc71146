// One coarse timer for all that waits for an acknowledgement.

import type { Timer, Timers } from '../../lib/timers.ts'

/** How late a record's time may be found to be over. */
const INTERVAL_MS = 25

export class AckSweeper {
  readonly #timers: Timers
  readonly #task: () => void
  #timer: Timer | null = null
  #isDue = false

  /** `task` runs again and again between `start` and `stop`. */
  constructor(timers: Timers, task: () => void) {
    this.#timers = timers
    this.#task = task
  }

  start(): void {
    this.#timer ??= this.#timers.setInterval(this.#tick, INTERVAL_MS)
  }

  stop(): void {
    if (this.#timer !== null) this.#timers.clear(this.#timer)
    this.#timer = null
  }

  readonly #tick = (): void => {
    if (this.#isDue) return
    this.#isDue = true
    // After the sockets were read: an answer that came while the event loop was held up counts.
    this.#timers.setImmediate(this.#run)
  }

  readonly #run = (): void => {
    this.#isDue = false
    if (this.#timer !== null) this.#task()
  }
}
