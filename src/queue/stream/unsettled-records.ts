// Counts the records that were published and are not settled yet, and settles them.

import type { Settlement } from '../queue.ts'
import type { Entry } from './lanes.ts'

export class UnsettledRecords {
  count = 0
  #onNone: (() => void) | null = null

  settle(entry: Entry, settlement: Settlement, storedEvents?: number): void {
    this.count -= 1
    if (storedEvents === undefined) entry.settled(settlement)
    else entry.settled(settlement, storedEvents)
    if (this.count === 0) this.#onNone?.()
  }

  settleAll(first: Entry, settlement: Settlement): void {
    for (let entry: Entry | null = first; entry !== null; ) {
      const { next }: Entry = entry
      this.settle(entry, settlement)
      entry = next
    }
  }

  /** Resolves when all records are settled. To be called once. */
  async none(): Promise<void> {
    if (this.count > 0) await new Promise<void>((resolve) => (this.#onNone = resolve))
  }
}
