// When Redis counts as answering, for those who judge limits: see `Trouble`.

/** What an audit may take to put the queue's truth in the place of the counters, and a request that was under way. */
const EXACT_AGAIN_MS = 120_000 + 5000

/**
 * Redis answers while no fault of it, or of a path to it, has been for so long that the audit has had its two minutes
 * with Redis and NATS both at hand. From the first fault to that moment is one trouble; in it a limit may be accepted
 * anew for each fault: a node's share of what was left, or all of it where the counters are lost.
 */
export class Trouble {
  /** Of faults so far, in this trouble; 0: there is none. */
  onsets = 0
  sinceMs = 0
  #active = 0
  /** Faults of NATS: they only hold up the audit. */
  #withoutTruth = 0
  #untilMs = Number.NEGATIVE_INFINITY

  /** false: Redis answers, and its counters are exact. */
  isOn(nowMs: number): boolean {
    if (this.onsets > 0 && this.#active + this.#withoutTruth === 0 && nowMs > this.#untilMs) this.onsets = 0
    return this.onsets > 0
  }

  begin(nowMs: number): void {
    if (!this.isOn(nowMs)) this.sinceMs = nowMs
    this.onsets++
    this.#active++
  }

  end(nowMs: number): void {
    this.#active--
    this.#untilMs = nowMs + EXACT_AGAIN_MS
  }

  /** Redis has lost what it knew, and answers. */
  lose(nowMs: number): void {
    this.begin(nowMs)
    this.end(nowMs)
  }

  /** What a node alone knew is gone with it: another fault, where there is a trouble already. */
  more(nowMs: number): void {
    if (!this.isOn(nowMs)) return
    this.onsets++
    this.#untilMs = nowMs + EXACT_AGAIN_MS
  }

  truthAway(): void {
    this.#withoutTruth++
  }

  truthBack(nowMs: number): void {
    this.#withoutTruth--
    if (this.onsets > 0) this.#untilMs = nowMs + EXACT_AGAIN_MS
  }
}
