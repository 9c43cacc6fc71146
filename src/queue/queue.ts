import type { Charge } from './charge.ts'
// The seam of the queue: where an accepted batch becomes durable.

/** One accepted request, ready to be stored. */
export interface QueueRecord {
  /** The NDJSON line, newline included. It lies in the ring, and stays untouched only until `settled` is called. */
  readonly line: Uint8Array
  readonly batchId: string
  readonly appId: string
  /** The request carried an Idempotency-Key: its record travels alone, under its `batchId`. */
  readonly keyed: boolean
  /** What it is charged to. */
  readonly charge: Charge
}

/**
 * durable: stored, and stays so (202). duplicate: the queue had this batch already (replay).
 * unavailable: not stored (503). unknown: no answer in time, so that it may be stored or not (503).
 */
export type Settlement = 'durable' | 'duplicate' | 'unavailable' | 'unknown'

/** `storedEvents`: how many events the stored original of a duplicate has, where the queue could tell. */
export type Settled = (settlement: Settlement, storedEvents?: number) => void

export interface EventQueue {
  /** Hands a record over. `settled` is called exactly once, never before `publish` returns; nothing throws. */
  publish(record: QueueRecord, settled: Settled): void
  /** Settles what is in hand, then closes. */
  stop(): Promise<void>
}
