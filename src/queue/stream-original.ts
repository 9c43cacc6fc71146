// How many events the stored original of a duplicate has: its acknowledgement names the original's place in the stream.

import type { NatsConnection } from '@nats-io/transport-node'
import { parseRecordHead } from './record-head.ts'
import { getFromLeader, getFromReplica, type StoredMessage } from './stream-message.ts'

/** Duplicates come singly; of a storm of them those above this are answered without looking. */
const MAX_LOOKUPS = 64
const NEWLINE = 10

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
      const message = await getMessage(connection, sequence, timeoutMs)
      return message === null ? undefined : eventsOf(message.data, batchId)
    } catch {
      return undefined
    } finally {
      lookups -= 1
    }
  }
}

async function getMessage(
  connection: NatsConnection,
  sequence: number,
  timeoutMs: number,
): Promise<StoredMessage | null> {
  const startedAtMs = performance.now()
  const message = await getFromReplica(connection, { sequence }, timeoutMs)
  if (message !== null && message !== 'closed') return message
  const leftMs = timeoutMs - (performance.now() - startedAtMs)
  return leftMs < 1 ? null : await getFromLeader(connection, { sequence }, leftMs)
}

/** Events of the record that has this id, in a message of records. */
function eventsOf(data: Buffer, batchId: string): number | undefined {
  for (let start = 0; start < data.length; ) {
    const newlineAt = data.indexOf(NEWLINE, start)
    const end = newlineAt < 0 ? data.length : newlineAt
    const head = parseRecordHead(data, start, end)
    if (head?.batchId === batchId) return head.events
    start = end + 1
  }
  return undefined
}
