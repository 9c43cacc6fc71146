// The clock that is passed to whatever needs the time of day.

/** Unix time in ms, as an integer. */
export type Clock = () => number

export const systemClock: Clock = () => Date.now()

/**
 * Reads both clocks once in a turn of the event loop. Its requests share the time, as they came and are answered together: to
 * read the clocks a dozen times for each costs as much as to parse its head.
 */
export class TurnClock {
  readonly #clock: Clock
  readonly #monotonic: () => number
  #isRead = false
  #nowMs = 0
  #monotonicMs = 0

  constructor(clock: Clock, monotonic: () => number = () => performance.now()) {
    this.#clock = clock
    this.#monotonic = monotonic
  }

  /** The time of day. */
  readonly nowMs: Clock = () => {
    this.#read()
    return this.#nowMs
  }

  /** A monotonic time, in ms. */
  readonly monotonicMs = (): number => {
    this.#read()
    return this.#monotonicMs
  }

  #read(): void {
    if (this.#isRead) return
    this.#isRead = true
    this.#nowMs = this.#clock()
    this.#monotonicMs = this.#monotonic()
    // The loop does not wait for events before it has run this.
    setImmediate(this.#forget)
  }

  readonly #forget = (): void => {
    this.#isRead = false
  }
}

/** ISO 8601 text of a time in Unix ms. The last one is kept, since many requests share a millisecond. */
export function createIsoTime(): (timeMs: number) => string {
  let lastMs = Number.NaN
  let lastText = ''
  return (timeMs) => {
    if (timeMs !== lastMs) {
      lastText = new Date(timeMs).toISOString()
      lastMs = timeMs
    }
    return lastText
  }
}
