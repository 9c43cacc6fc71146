// Wrong tokens and keys, by the address that they come from: beyond ten a second they get 429. Right ones are never
// counted, so that nobody is kept out by others behind the same address.

import { networkOf } from '../lib/address-ranges.ts'

const MAX_PER_SECOND = 10
/** Further addresses of the same second are counted together. */
const MAX_ADDRESSES = 10_000
const OTHERS = ''

export class Tries {
  readonly #nowMs: () => number
  readonly #counts = new Map<string, number>()
  #sinceMs = 0

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs
  }

  /** true: too many came from there in this second. */
  add(address: string): boolean {
    const nowMs = this.#nowMs()
    if (Math.abs(nowMs - this.#sinceMs) >= 1000) {
      this.#sinceMs = nowMs
      this.#counts.clear()
    }
    const network = networkOf(address)
    const from = this.#counts.has(network) || this.#counts.size < MAX_ADDRESSES ? network : OTHERS
    const count = (this.#counts.get(from) ?? 0) + 1
    this.#counts.set(from, count)
    return count > MAX_PER_SECOND
  }
}
