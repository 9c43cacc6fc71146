// Where one process stands in the stream: what it stored up to which sequence is settled, so that others know from
// where on to read.

export class StreamPlace {
  #settled = 0
  /** The stream's end when it was first seen, where nothing was published before. */
  #start = 0
  /** ISO 8601, as last seen; null: the stream was not seen yet. */
  #createdAt: string | null = null
  #hasPublished = false
  /** `settled`, before the turn's settlements. */
  #acked = 0

  /**
   * The highest sequence that was acknowledged here and settled: what this node stored up to it is. It starts anew with
   * a stream that was made anew; 0: there is none.
   */
  get settled(): number {
    return this.#settled
  }

  /** What this process stored and has not settled stands after this sequence. null: not known, and it stored nothing. */
  get mark(): number | null {
    if (this.#createdAt === null && !this.#hasPublished) return null
    // Who has stored nothing yet must not have others read the whole stream when it dies.
    return this.#settled > 0 ? this.#settled : this.#start
  }

  /** What a message has to be told when it is sent, so that its acknowledgement can be placed. */
  get acked(): number {
    return this.#acked
  }

  /** A message is about to be sent. */
  publish(): void {
    this.#hasPublished = true
  }

  /** A message that was sent when `acked` was `afterSequence` is stored. true: in a stream that was made anew since. */
  stored(sequence: number, afterSequence: number): boolean {
    const isAnew = sequence <= afterSequence && afterSequence <= this.#acked
    if (isAnew || sequence > this.#acked) this.#acked = sequence
    return isAnew
  }

  /** All that was acknowledged is settled: whoever settles a dead node's account takes what came before for told. */
  settle(): void {
    this.#settled = this.#acked
  }

  /** What the server says of the stream. */
  see(createdAt: string, lastSequence: number): void {
    if (this.#createdAt === null) {
      if (!this.#hasPublished) this.#start = lastSequence
    } else if (createdAt !== this.#createdAt) {
      // Acknowledgements of the new stream may have come before this, and count.
      if (this.#acked > lastSequence) this.#acked = 0
      this.#settled = Math.min(this.#settled, this.#acked)
      this.#start = 0
    }
    this.#createdAt = createdAt
  }
}
