// Whether the stored original of a duplicate is this batch, and how many events it has. Its acknowledgement has the
// original's sequence.

import type { NatsConnection } from '@nats-io/transport-node'
import { IDEMPOTENCY_WINDOW_SECONDS } from '../../../contract/bounds.ts'
import { parseRecordHead, type RecordHead } from '../../../contract/record/record-head.ts'
import { recordsOf } from '../../../contract/record/record-lines.ts'
import type { Timers } from '../../../lib/timers.ts'
import { getFromLeader } from './stream-message.ts'

/** Lookups at a time: each of them brings a whole message. Further ones wait for their turn. */
const MAX_LOOKUPS = 64
const KEY_WINDOW_MS = IDEMPOTENCY_WINDOW_SECONDS * 1000

/**
 * What tells a batch from others: an app may use a key again, and so an id, when the key's window is over. `receivedAtMs` null: any
 * batch with its id is taken for it.
 */
export interface Taken {
  readonly batchId: string
  readonly receivedAtMs: number | null
}

/**
 * The events of the original. burnt: it is an empty message, by which the audit made sure that no batch is stored under
 * this id. earlier: it has this id, and its key was forgotten when this batch came. undefined: it is another batch, is gone, or
 * could not be read by the deadline. Never rejects.
 */
export type OriginalLookup = (
  connection: NatsConnection | null,
  sequence: number,
  batch: Taken,
  deadlineMs: number,
) => Promise<number | 'burnt' | 'earlier' | undefined>

export function createOriginalLookup(timers: Timers): OriginalLookup {
  let lookups = 0
  const waiting: (() => void)[] = []
  return async (connection, sequence, batch, deadlineMs) => {
    if (connection === null) return undefined
    if (lookups < MAX_LOOKUPS) lookups += 1
    else await new Promise<void>((resolve) => waiting.push(resolve))
    try {
      const leftMs = deadlineMs - timers.monotonicMs()
      if (leftMs <= 0) return undefined
      // From the leader, which sent the acknowledgement: a replica may lag.
      const message = await getFromLeader(connection, sequence, Math.ceil(leftMs))
      if (message === null) return undefined
      if (message.data.length === 0) return 'burnt'
      const head = headOf(message.data, batch.batchId)
      return head === undefined || isSame(head, batch) ? head?.events : 'earlier'
    } catch {
      return undefined
    } finally {
      const next = waiting.shift()
      if (next === undefined) lookups -= 1
      else next()
    }
  }
}

/** Of the record that has this id, in a message of records. */
export function headOf(data: Uint8Array, batchId: string): RecordHead | undefined {
  for (const record of recordsOf(data)) {
    const head = parseRecordHead(record, 0, record.length)
    if (head?.batchId === batchId) return head
  }
  return undefined
}

export function isSame(head: RecordHead, { batchId, receivedAtMs }: Taken): boolean {
  const isNear = receivedAtMs === null || Math.abs(head.receivedAtMs - receivedAtMs) <= KEY_WINDOW_MS
  return head.batchId === batchId && isNear
}
