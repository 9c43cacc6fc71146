// Records that a queue does not take. Like any other answer, theirs comes after `publish` has returned.

import type { QueueRefusal, Settled } from './queue.ts'

export class RefusedRecords {
  #settled: Settled[] = []
  /** Of the record at the same place. */
  #reasons: QueueRefusal[] = []

  add(settled: Settled, reason: QueueRefusal): void {
    this.#reasons.push(reason)
    if (this.#settled.push(settled) === 1) queueMicrotask(this.#answer)
  }

  readonly #answer = (): void => {
    const settled = this.#settled
    const reasons = this.#reasons
    this.#settled = []
    this.#reasons = []
    for (let at = 0; at < settled.length; at += 1) settled[at](reasons[at])
  }
}
