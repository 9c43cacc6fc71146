// Slots that wait for the thread that explains: bounded in bytes and in time.

/** What goes to the thread at a time: so much, or one body. It is ready for the next within some milliseconds. */
const MAX_RUN_BYTES = 64 * 1024
const MAX_RUN_SLOTS = 64
/** Bytes of the bodies that wait: a tenth of a second's work, where they are hostile. */
const MAX_WAITING_BYTES = 2 * 1024 * 1024

/** A body that has waited for so long is sent away: those before it took more time than usual ones do. */
const MAX_WAIT_MS = 250

interface Waiting {
  readonly slot: number
  readonly bytes: number
  readonly sinceMs: number
}

/** First come, first served, up to so many bytes; one body may always wait. */
export class WaitingLine {
  readonly #waiting: Waiting[] = []
  #bytes = 0

  get length(): number {
    return this.#waiting.length
  }

  /** false: too much waits already. */
  join(slot: number, bytes: number, nowMs: number): boolean {
    if (this.#bytes + bytes > MAX_WAITING_BYTES && this.#waiting.length > 0) return false
    this.#waiting.push({ slot, bytes, sinceMs: nowMs })
    this.#bytes += bytes
    return true
  }

  /** The slots that have waited for too long. */
  takeLate(nowMs: number): number[] {
    let count = 0
    while (count < this.#waiting.length && nowMs - this.#waiting[count].sinceMs > MAX_WAIT_MS) {
      this.#bytes -= this.#waiting[count].bytes
      count++
    }
    return this.#waiting.splice(0, count).map(({ slot }) => slot)
  }

  /** The slots of one run. */
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
