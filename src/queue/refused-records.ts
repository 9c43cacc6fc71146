// Records that a queue does not take. Like any other answer, theirs comes after `publish` has returned.

import type { OnAck, QueueRefusal } from './queue.ts'

export class RefusedRecords {
  #onAck: OnAck[] = []
  /** Of the record at the same place. */
  #reasons: QueueRefusal[] = []

  add(onAck: OnAck, reason: QueueRefusal): void {
    this.#reasons.push(reason)
    if (this.#onAck.push(onAck) === 1) queueMicrotask(this.#answer)
  }

  readonly #answer = (): void => {
    const onAck = this.#onAck
    const reasons = this.#reasons
    this.#onAck = []
    this.#reasons = []
    for (let at = 0; at < onAck.length; at += 1) onAck[at](reasons[at])
  }
}
