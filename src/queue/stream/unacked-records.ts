// Counts the records that were published and are not settled yet, and settles them.

import type { QueueAck } from '../queue.ts'
import type { Entry } from './lanes.ts'

export class UnackedRecords {
  count = 0
  #onNone: (() => void) | null = null

  ack(entry: Entry, ack: QueueAck, storedEvents?: number, sequence?: number): void {
    this.count -= 1
    if (storedEvents === undefined && sequence === undefined) entry.onAck(ack)
    else entry.onAck(ack, storedEvents, sequence)
    if (this.count === 0) this.#onNone?.()
  }

  /** `sequence`: of their message, which is that of a single record; 0: not known. */
  ackAll(first: Entry, ack: QueueAck, sequence = 0): void {
    if (sequence > 0) return this.ack(first, ack, undefined, sequence)
    for (let entry: Entry | null = first; entry !== null; ) {
      const { next }: Entry = entry
      this.ack(entry, ack)
      entry = next
    }
  }

  /** Resolves when all records are acknowledged. To be called once. */
  async none(): Promise<void> {
    if (this.count > 0) await new Promise<void>((resolve) => (this.#onNone = resolve))
  }
}
