// How much of a spool may be under way. Without live traffic it is a whole window. Beside it, it is an eighth of one, and at
// least a tenth of all: so live records wait behind little of it, and the spool gets shorter all the same.

/** Live records included. */
const MAX_MESSAGES = 64
const MAX_BYTES = 1024 * 1024
/** Beside live traffic. */
const BESIDE_MESSAGES = 8
/** Of live records: somewhat more than a tenth of all. */
const LIVE_SHARE = 8
const TICKS_OF_A_TURN = 10
/** Fewer live records in a turn are no live traffic. */
const LEAST_RECORDS = 8

export class DrainWindow {
  #underWay = 0
  #bytes = 0
  #ticks = 0
  /** Published in this turn, and in the one before. */
  #live = 0
  #liveBefore = 0

  get underWay(): number {
    return this.#underWay
  }

  /** `live`: records under way that are not from the spool. */
  isOpen(live: number): boolean {
    const isBeside = Math.max(this.#live, this.#liveBefore) >= LEAST_RECORDS
    const most = Math.max(1, Math.ceil(live / LIVE_SHARE), isBeside ? BESIDE_MESSAGES : MAX_MESSAGES - live)
    return this.#underWay < most && (this.#underWay === 0 || this.#bytes < (MAX_BYTES * most) / MAX_MESSAGES)
  }

  add(bytes: number): void {
    this.#underWay += 1
    this.#bytes += bytes
  }

  remove(bytes: number): void {
    this.#underWay -= 1
    this.#bytes -= bytes
  }

  livePublished(): void {
    this.#live += 1
  }

  /** To be called every 50 ms. */
  tick(): void {
    this.#ticks = (this.#ticks + 1) % TICKS_OF_A_TURN
    if (this.#ticks > 0) return
    this.#liveBefore = this.#live
    this.#live = 0
  }
}
