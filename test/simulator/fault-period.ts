// The periods in which the judge allows limits to be exceeded, because Redis does not answer or has lost data.

/** The two minutes that an audit may take to correct the counters, and some seconds for requests under way. */
const EXACT_AGAIN_MS = 120_000 + 5000

/**
 * A period lasts from the first fault of Redis, or of a path to it, until the audit has had two minutes with Redis and
 * NATS both working. Within it, each fault may let a limit be accepted once more: as the nodes' shares of what was left,
 * or as all of it where the counters are lost.
 */
export class FaultPeriod {
  /** In this period; 0: there is none. */
  faults = 0
  sinceMs = 0
  #activeFaults = 0
  /** They only delay the audit. */
  #activeNatsFaults = 0
  /** In this period Redis has lost data. */
  #hasForgotten = false
  #untilMs = Number.NEGATIVE_INFINITY

  /** false: Redis answers, and its counters are exact. */
  isActive(nowMs: number): boolean {
    if (this.faults > 0 && this.#activeFaults + this.#activeNatsFaults === 0 && nowMs > this.#untilMs) {
      this.faults = 0
      this.#hasForgotten = false
    }
    return this.faults > 0
  }

  /** `young`: nodes that do not know yet how many there are, each of which enforces the limit alone. */
  begin(nowMs: number, young = 0): void {
    if (!this.isActive(nowMs)) this.sinceMs = nowMs
    this.faults += 1 + young
    this.#activeFaults++
  }

  end(nowMs: number): void {
    this.#activeFaults--
    this.#untilMs = nowMs + EXACT_AGAIN_MS
  }

  /** Redis has lost data, and answers. */
  loseData(nowMs: number): void {
    this.begin(nowMs)
    this.end(nowMs)
    this.#hasForgotten = true
  }

  /** To be called within a period: Redis will come back with less than it had. */
  forgets(): void {
    this.#hasForgotten = true
  }

  /**
   * Until the audit has written again what Redis has lost, a node that starts knows nothing of what the others have counted: its share
   * is of the whole limit.
   */
  nodeStarts(nowMs: number): void {
    if (this.isActive(nowMs) && this.#hasForgotten) this.faults++
  }

  /** A fault that matters only within a period: a node loses what it alone has counted. */
  addFault(nowMs: number): void {
    if (!this.isActive(nowMs)) return
    this.faults++
    this.#untilMs = nowMs + EXACT_AGAIN_MS
  }

  natsAway(): void {
    this.#activeNatsFaults++
  }

  natsBack(nowMs: number): void {
    this.#activeNatsFaults--
    if (this.faults > 0) this.#untilMs = nowMs + EXACT_AGAIN_MS
  }
}
