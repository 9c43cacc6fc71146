// What is read of the spool and not sent yet: its batches in their order, and how far each of them is.

import type { Timers } from '../../lib/timers.ts'
import type { Disk } from '../journal/disk.ts'
import type { Damage } from '../journal/segment-cursor.ts'
import { comparePositions, type JournalPosition } from '../journal/segments.ts'
import { sureUntilMs } from './settler.ts'
import { readPieces, type SpooledRecord, type SpoolPiece } from './spool-records.ts'

/**
 * While fewer wait, a piece more is read. Some 170 small batches: more of them would outlive the young generation of the heap, and
 * live requests would wait for the collection of the old one.
 */
const AHEAD_BYTES = 128 * 1024

export interface Item {
  readonly record: SpooledRecord
  state: 'waiting' | 'sent' | 'done'
  /** While it waits, in Unix ms: until when the stream need not be asked for it. */
  sureUntilMs: number
  burntIds: number
}

export interface ReadAheadParts {
  readonly journalDirectory: string
  readonly disk: Disk
  readonly timers: Pick<Timers, 'nowMs'>
  readonly onDamage: (damage: Damage) => void
}

export class ReadAhead {
  readonly #parts: ReadAheadParts
  /** Where the next reading begins. */
  #next: JournalPosition
  /** Before it, any record may be in the stream. */
  #reserved: JournalPosition
  #reader: AsyncGenerator<SpoolPiece> | null = null
  #isReading = false
  #items: Item[] = []
  /** The first that is not sent. */
  #at = 0
  #bytes = 0

  constructor(parts: ReadAheadParts, from: JournalPosition, reserved: JournalPosition) {
    this.#parts = parts
    this.#next = from
    this.#reserved = reserved
  }

  get isReading(): boolean {
    return this.#isReading
  }

  /** When the oldest was taken; null: none is read. */
  get oldestAtMs(): number | null {
    return this.#items[0]?.record.head.receivedAtMs ?? null
  }

  /** The first that is not sent. */
  get first(): Item | undefined {
    return this.#items[this.#at]
  }

  /** The first one is sent, or done. */
  pass(): void {
    this.#at += 1
  }

  /** It was not taken. */
  putBack(item: Item): void {
    this.#at = Math.min(this.#at, this.#items.indexOf(item))
  }

  in(state: Item['state']): Item[] {
    return this.#items.filter((item) => item.state === state)
  }

  /** Before they are sent, the stream has to be asked for them. */
  unsure(nowMs: number): Item[] {
    return this.in('waiting').filter((item) => nowMs > item.sureUntilMs)
  }

  /** Forgets those that are done, up to the first that is not. Returns where they end; null: there are none. */
  takeDone(): JournalPosition | null {
    const firstLeft = this.#items.findIndex(({ state }) => state !== 'done')
    const done = this.#items.splice(0, firstLeft < 0 ? this.#items.length : firstLeft)
    for (const { record } of done) this.#bytes -= record.line.length
    this.#at = Math.max(0, this.#at - done.length)
    // Behind the last one there may be damaged lines.
    return this.#items.length === 0 ? this.#next : (done.at(-1)?.record.end ?? null)
  }

  /** There is more before `until`, and room for it. */
  isDue(until: JournalPosition): boolean {
    const isThere = this.#reader !== null || comparePositions(this.#next, until) < 0
    return isThere && !this.#isReading && this.#bytes < AHEAD_BYTES
  }

  /** Reads a piece. Returns where it ends. Rejects where the disk fails. */
  async read(until: JournalPosition): Promise<JournalPosition> {
    const { journalDirectory: directory, disk, onDamage } = this.#parts
    this.#isReading = true
    try {
      this.#reader ??= readPieces({ directory, from: this.#next, until, disk, onDamage })
      const { done, value } = await this.#reader.next()
      if (done === true) this.#reader = null
      else this.#add(value)
    } catch (error) {
      this.#reader = null
      throw error
    } finally {
      this.#isReading = false
    }
    return this.#next
  }

  /** To be called while nothing is read. */
  async restart(from: JournalPosition, reserved: JournalPosition): Promise<void> {
    this.#next = from
    this.#reserved = reserved
    this.#items = []
    this.#at = this.#bytes = 0
    await this.stop()
  }

  async stop(): Promise<void> {
    const reader = this.#reader
    this.#reader = null
    await reader?.return(undefined)
  }

  #add({ records, next }: SpoolPiece): void {
    for (const record of records) {
      const mayBeSent = record.state === 'doubt' || comparePositions(record.start, this.#reserved) < 0
      const sureMs = sureUntilMs(record, mayBeSent, this.#parts.timers.nowMs())
      this.#items.push({ record, state: 'waiting', sureUntilMs: sureMs, burntIds: 0 })
      this.#bytes += record.line.length
    }
    this.#next = next
  }
}
