// Records that wait to be sent: one FIFO lane for each partition, so that the order of an app's records is kept.

import { partitionOf } from '../../contract/partition.ts'
import type { OnAck, QueueRecord } from '../queue.ts'
import { subjectOf } from './stream.ts'

/** Larger messages gain nothing: with 64 KB each, NATS already reaches its full throughput. */
const MAX_GATHERED_BYTES = 64 * 1024

/** A record from `publish` until it is acknowledged. */
export interface Entry {
  readonly record: QueueRecord
  readonly onAck: OnAck
  readonly deadlineMs: number
  /** The order of `publish`. */
  readonly number: number
  /** Ids of a keyed record that the audit has used up: it is sent under a further one. */
  burntIds: number
  /** An atomic batch with it was refused. */
  isAlone?: true
  next: Entry | null
}

/** The entries of one message. */
export interface Parcel {
  readonly first: Entry
  readonly records: number
  readonly bytes: number
}

export class Lane {
  readonly partition: number
  readonly subject: string
  /** It is in the queue of lanes to send from. */
  isReady = false
  /** Gathered messages in flight in one window: the records behind them gather until these are answered. */
  gathered = { window: -1, messages: 0 }
  #first: Entry | null = null
  #last: Entry | null = null
  #bytes = 0

  constructor(partition: number) {
    this.partition = partition
    this.subject = subjectOf(partition)
  }

  get first(): Entry | null {
    return this.#first
  }

  /** 0: the lane is empty. */
  get firstNumber(): number {
    return this.#first?.number ?? 0
  }

  /** The waiting records fill a message, so they need not gather any longer. */
  get isFull(): boolean {
    return this.#bytes >= MAX_GATHERED_BYTES
  }

  push(entry: Entry): void {
    this.#bytes += entry.record.line.length
    if (this.#last === null) this.#first = entry
    else this.#last.next = entry
    this.#last = entry
  }

  /** Takes the records of one message: one keyed record, or as many others as fit into 64 KB, and at least one. */
  take(): Parcel | null {
    const first = this.#first
    if (first === null) return null
    let last = first
    let records = 1
    let bytes = first.record.line.length
    if (!first.record.keyed) {
      for (let next = first.next; next !== null && !next.record.keyed; next = next.next) {
        if (bytes + next.record.line.length > MAX_GATHERED_BYTES) break
        bytes += next.record.line.length
        records += 1
        last = next
      }
    }
    this.#first = last.next
    if (this.#first === null) this.#last = null
    last.next = null
    this.#bytes -= bytes
    return { first, records, bytes }
  }

  /** Puts entries back in their order, since they were certainly not stored. */
  putBack(first: Entry): void {
    let before: Entry | null = null
    let after = this.#first
    while (after !== null && after.number < first.number) {
      before = after
      after = after.next
    }
    if (before === null) this.#first = first
    else before.next = first
    let last = first
    this.#bytes += last.record.line.length
    while (last.next !== null) {
      last = last.next
      this.#bytes += last.record.line.length
    }
    last.next = after
    if (after === null) this.#last = last
  }

  /** Removes the first entry if it has expired. */
  takeExpired(atMs: number): Entry | null {
    const entry = this.#first
    if (entry === null || entry.deadlineMs > atMs) return null
    this.#first = entry.next
    if (this.#first === null) this.#last = null
    entry.next = null
    this.#bytes -= entry.record.line.length
    return entry
  }

  /** Removes the entries published after this number, and returns the first of them; null: there are none. */
  takeAfter(number: number): Entry | null {
    let last: Entry | null = null
    let after = this.#first
    while (after !== null && after.number <= number) {
      last = after
      after = after.next
    }
    if (last === null) this.#first = null
    else last.next = null
    this.#last = last
    for (let entry = after; entry !== null; entry = entry.next) this.#bytes -= entry.record.line.length
    return after
  }
}

/** All lanes, and the queue of those that have records to send. */
export class Lanes {
  readonly #lanes: readonly Lane[]
  /** Each lane at most once. */
  readonly #ready: Lane[] = []

  constructor(partitions: number) {
    this.#lanes = Array.from({ length: partitions }, (_, partition) => new Lane(partition))
  }

  get isReady(): boolean {
    return this.#ready.length > 0
  }

  push(entry: Entry): void {
    const lane = this.#lanes[partitionOf(entry.record.appId, this.#lanes.length)]
    lane.push(entry)
    this.offer(lane)
  }

  offer(lane: Lane): void {
    if (lane.isReady || lane.first === null) return
    lane.isReady = true
    this.#ready.push(lane)
  }

  offerAll(): void {
    for (const lane of this.#lanes) this.offer(lane)
  }

  /** The ready lane with the oldest record, so that every partition waits equally long. */
  take(): Lane | undefined {
    let oldest = 0
    for (let at = 1; at < this.#ready.length; at++) {
      if (this.#ready[at].firstNumber < this.#ready[oldest].firstNumber) oldest = at
    }
    const [lane] = this.#ready.splice(oldest, 1)
    if (lane !== undefined) lane.isReady = false
    return lane
  }

  /** Removes the next entry that has expired by `atMs`; null: there is none. */
  takeExpired(atMs: number): Entry | null {
    for (const lane of this.#lanes) {
      const entry = lane.takeExpired(atMs)
      if (entry !== null) return entry
    }
    return null
  }

  /** Removes the entries of one lane that were published after this number; null: no lane has any. */
  takeAfter(number: number): Entry | null {
    for (const lane of this.#lanes) {
      const first = lane.takeAfter(number)
      if (first !== null) return first
    }
    return null
  }
}
