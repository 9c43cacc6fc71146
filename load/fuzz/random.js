// @ts-check
// What the fuzzer draws by lot: all of it from one seed, and for each client apart, so that one client can be repeated.

import { createRng } from '../payloads.js'

const CLIENT_STRIDE = 0x9e3779b1

export class Random {
  /** @param {number} seed */
  constructor(seed) {
    this.fraction = createRng(seed)
  }

  /** The lots of one client of a run. @param {number} seed @param {number} client */
  static ofClient(seed, client) {
    return new Random((seed ^ Math.imul(client + 1, CLIENT_STRIDE)) >>> 0)
  }

  /** A whole number from 0 up to, and without, `max`. @param {number} max */
  below(max) {
    return Math.floor(this.fraction() * max)
  }

  /** A whole number, both ends included. @param {number} least @param {number} most */
  between(least, most) {
    return least + this.below(most - least + 1)
  }

  /** @param {number} probability */
  chance(probability) {
    return this.fraction() < probability
  }

  /** @template T @param {readonly T[]} list @returns {T} */
  pick(list) {
    return list[this.below(list.length)]
  }

  /** One of the names, each as often as its weight says. @template {string} T @param {Readonly<Record<T, number>>} weights @returns {T} */
  weighted(weights) {
    const entries = /** @type {[T, number][]} */ (Object.entries(weights))
    let left = this.fraction() * entries.reduce((sum, [, weight]) => sum + weight, 0)
    for (const [name, weight] of entries) {
      left -= weight
      if (left < 0) return name
    }
    return entries[0][0]
  }

  /** @param {number} length */
  bytes(length) {
    return Buffer.from(Array.from({ length }, () => this.below(256)))
  }
}
