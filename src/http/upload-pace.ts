// Decides which slow uploads may continue. The engine by itself would close any that sends less than about 16 KB/s.

/** On average, after the first seconds. The largest body may take nine minutes. */
const MIN_BYTES_PER_SECOND = 1024
const FIRST_SECONDS = 10
/** Each renewal is two system calls. */
const RENEWAL_INTERVAL_MS = 1000

export class UploadPace {
  readonly #startedAtMs: number
  #renewedAtMs: number

  /** `startedAtMs`: monotonic time at which the head had arrived. */
  constructor(startedAtMs: number) {
    this.#startedAtMs = startedAtMs
    this.#renewedAtMs = startedAtMs
  }

  /** `lengthBytes` of the body have arrived. true: the engine's time limit should restart. */
  earnsMoreTime(lengthBytes: number, monotonicMs: number): boolean {
    if (monotonicMs - this.#renewedAtMs < RENEWAL_INTERVAL_MS) return false
    const seconds = (monotonicMs - this.#startedAtMs) / 1000
    if (lengthBytes < (seconds - FIRST_SECONDS) * MIN_BYTES_PER_SECOND) return false
    this.#renewedAtMs = monotonicMs
    return true
  }
}
