// Accepted keys that Redis has not heard of, since it was away. It is told when it is back, so that other nodes replay
// them too; until then the queue's duplicate window knows them.

/** Above it the oldest are let go of. */
const MAX_UNTOLD = 100_000
/** Keys of one call end together, at the end of the first of them. */
const MOST_APART_MS = 1000

interface Untold {
  readonly events: number
  readonly untilMs: number
}

export interface UntoldKeysParts {
  readonly maxKeysPerCall: number
  isUp(): boolean
  /** `untilMs`, in Redis time: how long they are remembered. Gives 'away' where Redis has not heard. */
  tell(batchIds: readonly string[], events: readonly number[], untilMs: number): Promise<unknown>
}

export class UntoldKeys {
  readonly #parts: UntoldKeysParts
  /** In the order in which they were accepted. */
  readonly #untold = new Map<string, Untold>()
  #isTelling = false

  constructor(parts: UntoldKeysParts) {
    this.#parts = parts
  }

  keep(batchIds: readonly string[], events: readonly number[], untilMs: number): void {
    for (const [at, batchId] of batchIds.entries()) this.#untold.set(batchId, { events: events[at], untilMs })
    for (const oldest of this.#untold.keys()) {
      if (this.#untold.size <= MAX_UNTOLD) return
      this.#untold.delete(oldest)
    }
  }

  /** One call after the other, so that requests find their turn between them. */
  async tell(): Promise<void> {
    if (this.#isTelling) return
    this.#isTelling = true
    try {
      while (this.#untold.size > 0 && this.#parts.isUp()) {
        const { batchIds, events, untilMs } = this.#takeSome()
        if ((await this.#parts.tell(batchIds, events, untilMs)) !== 'away') continue
        this.keep(batchIds, events, untilMs)
        return
      }
    } finally {
      this.#isTelling = false
    }
  }

  #takeSome(): { batchIds: string[]; events: number[]; untilMs: number } {
    const batchIds: string[] = []
    const events: number[] = []
    let untilMs = 0
    for (const [batchId, next] of this.#untold) {
      if (batchIds.length === 0) untilMs = next.untilMs
      if (batchIds.length === this.#parts.maxKeysPerCall || next.untilMs - untilMs > MOST_APART_MS) break
      batchIds.push(batchId)
      events.push(next.events)
      this.#untold.delete(batchId)
    }
    return { batchIds, events, untilMs }
  }
}
