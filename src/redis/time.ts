// What time it is for Redis, told from this machine's monotonic clock. Redis's clock alone opens windows, so that all
// nodes agree on them.

export class RedisTime {
  /** Redis time minus monotonic time. */
  #offsetMs: number

  /** Until Redis has told the time, this machine's own clock is believed. */
  constructor(wallMs: number, monotonicMs: number) {
    this.#offsetMs = wallMs - monotonicMs
  }

  nowMs(monotonicMs: number): number {
    return Math.floor(monotonicMs + this.#offsetMs)
  }

  /**
   * A call sent and answered at these monotonic times was told `redisMs`. Redis's clock may have read that at any
   * moment between; the offset moves only as far as what it was leaves no doubt that it is wrong. So it starts low,
   * and a window is opened late rather than early.
   */
  learn(redisMs: number, sentMs: number, answeredMs: number): void {
    const lowestMs = redisMs - answeredMs
    const highestMs = redisMs + 1 - sentMs
    this.#offsetMs = Math.min(Math.max(this.#offsetMs, lowestMs), highestMs)
  }
}
