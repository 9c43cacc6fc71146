// Whether the stored original of a duplicate is this batch, and how many events it has. Its acknowledgement has the
// original's sequence.

import type { NatsConnection } from '@nats-io/transport-node'
import { parseRecordHead } from '../../../contract/record/record-head.ts'
import { recordsOf } from '../../../contract/record/record-lines.ts'
import type { Timers } from '../../../lib/timers.ts'
import { getFromLeader } from './stream-message.ts'

/** Lookups at a time: each of them brings a whole message. Further ones wait for their turn. */
const MAX_LOOKUPS = 64

/**
 * The events of the original. burnt: it is an empty message, by which the audit made sure that no batch is stored under
 * this id. undefined: it is another batch, is gone, or could not be read by the deadline. Never rejects.
 */
export type OriginalLookup = (
  connection: NatsConnection | null,
  sequence: number,
  batchId: string,
  deadlineMs: number,
) => Promise<number | 'burnt' | undefined>

export function createOriginalLookup(timers: Timers): OriginalLookup {
  let lookups = 0
  const waiting: (() => void)[] = []
  return async (connection, sequence, batchId, deadlineMs) => {
    if (connection === null) return undefined
    if (lookups < MAX_LOOKUPS) lookups += 1
    else await new Promise<void>((resolve) => waiting.push(resolve))
    try {
      const leftMs = deadlineMs - timers.monotonicMs()
      if (leftMs <= 0) return undefined
      // From the leader, which sent the acknowledgement: a replica may lag.
      const message = await getFromLeader(connection, sequence, Math.ceil(leftMs))
      if (message === null) return undefined
      return message.data.length === 0 ? 'burnt' : eventsOf(message.data, batchId)
    } catch {
      return undefined
    } finally {
      const next = waiting.shift()
      if (next === undefined) lookups -= 1
      else next()
    }
  }
}

/** Events of the record that has this id, in a message of records. */
export function eventsOf(data: Uint8Array, batchId: string): number | undefined {
  for (const record of recordsOf(data)) {
    const head = parseRecordHead(record, 0, record.length)
    if (head?.batchId === batchId) return head.events
  }
  return undefined
}
