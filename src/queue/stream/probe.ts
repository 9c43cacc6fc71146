// Asks the stream what became of a message that was not acknowledged, by an empty one under the same id: "duplicate" says that
// it is stored, "stored" that it never will be, since JetStream drops it as a duplicate if it still arrives.

import { headers, type NatsConnection } from '@nats-io/transport-node'
import { API_TIMEOUT_MS } from '../../nats/api.ts'
import { type Ack, parseAck } from './ack.ts'
import { getFromLeader } from './read/stream-message.ts'
import { ID_HEADER, PROBE_SUBJECT } from './stream.ts'

/** The message that is stored. burnt: none is, and none will be within the duplicate window. unknown: ask again later. */
export type Probed = { readonly sequence: number; readonly data: Uint8Array } | 'burnt' | 'unknown'

/** Rejects where NATS does not answer. */
export async function probe(connection: NatsConnection, messageId: string): Promise<Probed> {
  const head = headers()
  head.set(ID_HEADER, messageId)
  const answer = await connection.request(PROBE_SUBJECT, new Uint8Array(), { headers: head, timeout: API_TIMEOUT_MS })
  const ack = parseAck(answer.data, answer.headers?.code ?? 0)
  if (ack.kind === 'stored') return 'burnt'
  if (ack.kind !== 'duplicate') return 'unknown'
  // A duplicate window may answer wrongly after a change of leader.
  const original = await getFromLeader(connection, ack.sequence, API_TIMEOUT_MS)
  if (original?.header.get(ID_HEADER) !== messageId) return 'unknown'
  // Another may have asked before.
  return original.data.length === 0 ? 'burnt' : { sequence: ack.sequence, data: original.data }
}

/** How the stream answers an empty message now; null: not at all. Never rejects. */
export async function askAck(connection: NatsConnection): Promise<Ack | null> {
  try {
    const answer = await connection.request(PROBE_SUBJECT, new Uint8Array(), { timeout: API_TIMEOUT_MS })
    return parseAck(answer.data, answer.headers?.code ?? 0)
  } catch {
    return null
  }
}
