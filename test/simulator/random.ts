// Seeded random numbers: the same seed gives the same history, delays and ids.

export class Random {
  #state: number

  constructor(seed: number) {
    // Otherwise consecutive seeds would start with similar numbers.
    this.#state = Math.imul(seed ^ 0x9e3779b9, 0x85ebca6b) ^ (seed >>> 13)
    for (let skipped = 0; skipped < 4; skipped++) this.next()
  }

  /** From 0 up to 1. Mulberry32. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 0x100000000
  }

  /** A whole number, both ends included. */
  int(least: number, most: number): number {
    return least + Math.floor(this.next() * (most - least + 1))
  }

  chance(share: number): boolean {
    return this.next() < share
  }

  pick<T>(items: readonly T[]): T {
    return items[Math.floor(this.next() * items.length)]
  }

  /** An independent source: numbers drawn from one do not change the other. */
  fork(): Random {
    return new Random(Math.floor(this.next() * 0x100000000))
  }

  fillBytes(bytes: Uint8Array): void {
    for (let at = 0; at < bytes.length; at++) bytes[at] = Math.floor(this.next() * 256)
  }
}
