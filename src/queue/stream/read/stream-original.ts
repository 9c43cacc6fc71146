// How many events the stored original of a duplicate has. Its acknowledgement has the original's sequence.

import type { NatsConnection } from '@nats-io/transport-node'
import { parseRecordHead } from '../../record/record-head.ts'
import { getFromLeader } from './stream-message.ts'
import { recordsOf } from './stream-records.ts'

/** Lookups at a time. Further duplicates are answered with their own number of events. */
const MAX_LOOKUPS = 64

/** Within the time given; undefined where it cannot be told. Never rejects. */
export type OriginalLookup = (
  connection: NatsConnection | null,
  sequence: number,
  batchId: string,
  timeoutMs: number,
) => Promise<number | undefined>

export function createOriginalLookup(): OriginalLookup {
  let lookups = 0
  return async (connection, sequence, batchId, timeoutMs) => {
    if (connection === null || lookups >= MAX_LOOKUPS) return undefined
    lookups += 1
    try {
      // From the leader, which sent the acknowledgement: a replica may lag.
      const message = await getFromLeader(connection, sequence, timeoutMs)
      return message === null ? undefined : eventsOf(message.data, batchId)
    } catch {
      return undefined
    } finally {
      lookups -= 1
    }
  }
}

/** Events of the record that has this id, in a message of records. */
function eventsOf(data: Uint8Array, batchId: string): number | undefined {
  for (const record of recordsOf(data)) {
    const head = parseRecordHead(record, 0, record.length)
    if (head?.batchId === batchId) return head.events
  }
  return undefined
}
