// A queue of slots for the explainer's thread, bounded in bytes and in time.

/** Bounds of one run, which may exceed the bytes only with a single body. A run takes some milliseconds. */
const MAX_RUN_BYTES = 64 * 1024
const MAX_RUN_SLOTS = 64
/** Bound on the waiting bodies: a tenth of a second of work if they are hostile. */
const MAX_WAITING_BYTES = 2 * 1024 * 1024

/** A body that has waited longer is refused, because the bodies before it took unusually long. */
const MAX_WAIT_MS = 250

interface Waiting {
  readonly slot: number
  readonly bytes: number
  readonly sinceMs: number
}

/** First in, first out. One body may always wait, whatever its size. */
export class WaitingLine {
  readonly #waiting: Waiting[] = []
  #bytes = 0

  get length(): number {
    return this.#waiting.length
  }

  /** false: too many bytes wait already. */
  join(slot: number, bytes: number, monotonicMs: number): boolean {
    if (this.#bytes + bytes > MAX_WAITING_BYTES && this.#waiting.length > 0) return false
    this.#waiting.push({ slot, bytes, sinceMs: monotonicMs })
    this.#bytes += bytes
    return true
  }

  /** Removes the slots that have waited for too long. */
  takeLate(monotonicMs: number): number[] {
    let count = 0
    while (count < this.#waiting.length && monotonicMs - this.#waiting[count].sinceMs > MAX_WAIT_MS) {
      this.#bytes -= this.#waiting[count].bytes
      count++
    }
    return this.#waiting.splice(0, count).map(({ slot }) => slot)
  }

  /** Removes the slots of one run. */
  take(): number[] {
    let count = 0
    let bytes = 0
    while (count < this.#waiting.length && count < MAX_RUN_SLOTS) {
      if (count > 0 && bytes + this.#waiting[count].bytes > MAX_RUN_BYTES) break
      bytes += this.#waiting[count].bytes
      count++
    }
    this.#bytes -= bytes
    return this.#waiting.splice(0, count).map(({ slot }) => slot)
  }
}
