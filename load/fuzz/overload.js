// @ts-check
// Which clients may hear a 503. One thread explains all bodies that the scanner is not sure of, two decode all large compressed
// ones, and a body that waits too long for either is refused. On a busy machine that is the right answer to a harmed body, and
// to a compressed one. A sound body that is not compressed never waits for either.

/** Of the bodies that may wait. */
const MAX_SHARE = 0.01
/** One stall refuses all bodies that wait, and a short run has few in all. */
const ALWAYS_ALLOWED = 6

/** @param {import('./answers.js').Answer} answer */
export function isOverload({ status, json }) {
  return status === 503 && json?.error === 'service_overloaded'
}

/** Counts the 503 that bodies that may wait hear in a run. */
export class OverloadTally {
  #bodies = 0
  #refused = 0

  /** @param {readonly import('./answers.js').Answer[]} answers what a client of such bodies heard */
  add(answers) {
    this.#bodies++
    if (answers.some(isOverload)) this.#refused++
  }

  /** What is wrong with them; null: nothing. @param {number} counted the bodies that waited too long, as the service says */
  fault(counted) {
    // Not `>`, which a number that the service no longer gives would pass.
    if (!(this.#refused <= counted))
      return `${this.#refused} harmed or compressed bodies heard a 503, and only ${counted} waited too long for a thread`
    return this.#refused > Math.max(ALWAYS_ALLOWED, MAX_SHARE * this.#bodies)
      ? `${this.#refused} of ${this.#bodies} harmed or compressed bodies heard a 503`
      : null
  }
}
