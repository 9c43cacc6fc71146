// Which slow uploads go on. The engine alone would end each that sends less than about 16 KB/s.

/** On the average, once the first seconds are over. The largest body has nine minutes by it. */
const LEAST_BYTES_PER_SECOND = 1024
const FIRST_SECONDS = 10
/** Each renewal is two system calls. */
const RENEWAL_INTERVAL_MS = 1000

export class UploadPace {
  readonly #startedAtMs: number
  #renewedAtMs: number

  /** `startedAtMs`: when the head was there, on a clock that never goes back. */
  constructor(startedAtMs: number) {
    this.#startedAtMs = startedAtMs
    this.#renewedAtMs = startedAtMs
  }

  /** A part of the body has come, and makes `lengthBytes` of it: whether the engine's time limit should begin anew. */
  earnsMoreTime(lengthBytes: number, nowMs: number): boolean {
    if (nowMs - this.#renewedAtMs < RENEWAL_INTERVAL_MS) return false
    const seconds = (nowMs - this.#startedAtMs) / 1000
    if (lengthBytes < (seconds - FIRST_SECONDS) * LEAST_BYTES_PER_SECOND) return false
    this.#renewedAtMs = nowMs
    return true
  }
}
