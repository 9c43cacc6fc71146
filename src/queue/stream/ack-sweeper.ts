// One coarse timer for the deadlines of all unacknowledged records.

import type { Timer, Timers } from '../../lib/timers.ts'

/** A record may expire this much after its deadline. */
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
    // After the sockets were read, so that an answer counts that arrived while the event loop was blocked.
    this.#timers.setImmediate(this.#run)
  }

  readonly #run = (): void => {
    this.#isDue = false
    if (this.#timer !== null) this.#task()
  }
}
