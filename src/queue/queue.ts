// The interface of the queue, in which an accepted batch becomes durable.

import type { Charge } from '../contract/charge.ts'
import type { QueueReason } from '../contract/overload-advice.ts'

/** One accepted request, ready to be stored. */
export interface QueueRecord {
  /** The NDJSON line with its newline. It lies in the ring and is valid only until `onAck` is called. */
  readonly line: Uint8Array
  readonly batchId: string
  readonly appId: string
  /** The request had an Idempotency-Key: its record is a message of its own, with `batchId` as its id. */
  readonly keyed: boolean
  readonly charge: Charge
  /** It comes from a spool, maybe long after its minute. It is a message of its own, which says so. */
  readonly isSpooled?: true
}

/** Why a record is certainly not stored (503). */
export type QueueRefusal = Exclude<QueueReason, 'in_doubt'>

/**
 * durable: stored (202). duplicate: the queue already has this batch (replay). in_doubt: no answer in time, so it may be
 * stored or not (503).
 */
export type QueueAck = 'durable' | 'duplicate' | 'in_doubt' | QueueRefusal

/**
 * `storedEvents`: the number of events in the stored original of a duplicate. `sequence`: of the message in the stream, where the
 * record is a message of its own.
 */
export type OnAck = (ack: QueueAck, storedEvents?: number, sequence?: number) => void

export interface EventQueue {
  /** Never throws. `onAck` is called exactly once, and never before `publish` returns. */
  publish(record: QueueRecord, onAck: OnAck): void
  /** Why a record of this length would be refused now, as far as the queue knows; null: it would be taken. */
  refusalNow(lineBytes: number): QueueRefusal | null
  /** Why a new batch is refused now before anything is taken for it; null: it is tried. Absent: each one is tried. */
  refusalOfNew?(): QueueRefusal | null
  /** Acknowledges all published records, then closes. */
  stop(): Promise<void>
}
