// How many messages may be under way at once: more where the quickest acknowledgement is slow, as over a long way or from
// replicas that each write to their disk.

/** Keeps a server busy that answers within 2 ms: 64 messages of 1 KB, or 16 of 64 KB. More only adds queueing. */
const MIN_MESSAGES = 64
const MAX_MESSAGES = 1024
const MIN_BYTES = 1024 * 1024
const MAX_BYTES = 8 * MIN_BYTES
const NEAR_MS = 2
/** Acknowledgements whose quickest one is the measure, so that a hiccup is none. */
const SAMPLES = 256
/** What was measured holds so long; then the window closes to its least for as many acknowledgements. */
const MEASURE_EVERY_MS = 10_000

export class AckPace {
  maxMessages = MIN_MESSAGES
  maxBytes = MIN_BYTES
  #samples = 0
  #quickestMs = Number.POSITIVE_INFINITY
  #measuredAtMs = Number.NEGATIVE_INFINITY

  /** `openMessages`: how many were under way when it was sent. */
  answered(openMessages: number, sentAtMs: number, nowMs: number): void {
    if (nowMs - this.#measuredAtMs > MEASURE_EVERY_MS) this.#allow(1)
    // Behind more than the least, a message waits for the others, and would bear out any window, however wide.
    if (openMessages >= MIN_MESSAGES) return
    this.#samples += 1
    this.#quickestMs = Math.min(this.#quickestMs, nowMs - sentAtMs)
    if (this.#samples < SAMPLES) return
    // As many for each millisecond; a server near by that is busy takes one or two.
    this.#allow(this.#quickestMs < NEAR_MS ? 1 : this.#quickestMs)
    this.#samples = 0
    this.#quickestMs = Number.POSITIVE_INFINITY
    this.#measuredAtMs = nowMs
  }

  /** Of another connection nothing is known. */
  renew(): void {
    this.#allow(1)
    this.#samples = 0
    this.#quickestMs = Number.POSITIVE_INFINITY
  }

  #allow(times: number): void {
    this.maxMessages = Math.min(MAX_MESSAGES, Math.max(MIN_MESSAGES, Math.round(MIN_MESSAGES * times)))
    this.maxBytes = Math.min(MAX_BYTES, Math.max(MIN_BYTES, MIN_BYTES * times))
  }
}
