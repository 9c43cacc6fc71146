// One stored message, from the stream's leader, who alone knows for sure that there is none.

import type { StoredMsg } from '@nats-io/jetstream'
import type { NatsConnection } from '@nats-io/transport-node'
import { managerOf } from '../../../nats/api.ts'
import { EVENTS_STREAM } from '../../../nats/store-names.ts'

/** null: there is none. */
export async function getFromLeader(
  connection: NatsConnection,
  sequence: number,
  timeoutMs: number,
): Promise<StoredMsg | null> {
  const manager = await managerOf(connection, timeoutMs)
  return await manager.streams.getMessage(EVENTS_STREAM, { seq: sequence })
}

/** The last message on a subject; null: there is none. */
export async function getLastFromLeader(
  connection: NatsConnection,
  subject: string,
  timeoutMs: number,
): Promise<StoredMsg | null> {
  const manager = await managerOf(connection, timeoutMs)
  return await manager.streams.getMessage(EVENTS_STREAM, { last_by_subj: subject })
}
