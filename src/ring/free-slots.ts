// The slots that hold no body. They are taken in order, so that bodies which arrive together are a run of slots, and from
// the first ones only, as long as these are enough: slots beyond them then cost no memory.

export class FreeSlots {
  readonly #slots: number
  readonly #firstReach: number
  /** Slots below this one are in use, or their bit says that they are free. */
  #reach: number
  #taken = 0
  /** The slot that the next search tries first. */
  #next = 0
  /** A bit for each slot; 1: free. */
  readonly #free: Int32Array

  /** `firstReach`: how many slots are enough under a small load. */
  constructor(slots: number, firstReach: number) {
    this.#slots = slots
    this.#firstReach = Math.min(firstReach, slots)
    this.#reach = this.#firstReach
    this.#free = new Int32Array(Math.ceil(slots / 32))
    this.#markFree(0, this.#reach)
  }

  /** The next free slot. There must be one. */
  take(): number {
    if (this.#taken === this.#slots) throw new Error('every slot is in use')
    if (this.#taken === this.#reach) this.#reachFurther()
    const slot = this.#search()
    this.#free[slot >>> 5] &= ~(1 << (slot & 31))
    this.#taken++
    this.#next = slot + 1 === this.#reach ? 0 : slot + 1
    return slot
  }

  give(slot: number): void {
    this.#free[slot >>> 5] |= 1 << (slot & 31)
    this.#taken--
    if (this.#taken === 0 && this.#reach > this.#firstReach) this.#shrink()
  }

  /** One of the slots is free, and the search goes round once. */
  #search(): number {
    const words = ((this.#reach - 1) >>> 5) + 1
    let word = this.#next >>> 5
    // Without the bits before `#next`, which come last.
    let bits = this.#free[word] & (-1 << (this.#next & 31))
    while (bits === 0) {
      word = word + 1 === words ? 0 : word + 1
      bits = this.#free[word]
    }
    return (word << 5) + 31 - Math.clz32(bits & -bits)
  }

  #reachFurther(): void {
    const from = this.#reach
    this.#reach = Math.min(2 * from, this.#slots)
    this.#markFree(from, this.#reach)
    this.#next = from
  }

  #shrink(): void {
    this.#reach = this.#firstReach
    this.#free.fill(0)
    this.#markFree(0, this.#reach)
    if (this.#next >= this.#reach) this.#next = 0
  }

  #markFree(from: number, to: number): void {
    for (let slot = from; slot < to; slot++) this.#free[slot >>> 5] |= 1 << (slot & 31)
  }
}
