// One coarse timer for all that waits for an acknowledgement.

/** How late a record's time may be found to be over. */
const INTERVAL_MS = 25

export class AckSweeper {
  readonly #task: () => void
  #timer: NodeJS.Timeout | null = null
  #isDue = false

  /** `task` runs again and again between `start` and `stop`. */
  constructor(task: () => void) {
    this.#task = task
  }

  start(): void {
    this.#timer ??= setInterval(this.#tick, INTERVAL_MS)
  }

  stop(): void {
    if (this.#timer !== null) clearInterval(this.#timer)
    this.#timer = null
  }

  readonly #tick = (): void => {
    if (this.#isDue) return
    this.#isDue = true
    // After the sockets were read: an answer that came while the event loop was held up counts.
    setImmediate(this.#run)
  }

  readonly #run = (): void => {
    this.#isDue = false
    if (this.#timer !== null) this.#task()
  }
}
