// Which part of the stream holds an app's events, as far as the stream bears out how it is spread.

import { jetstreamManager } from '@nats-io/jetstream'
import type { NatsConnection } from '@nats-io/transport-node'
import { ALL_SUBJECTS, API_TIMEOUT_MS, partitionOf, STREAM_NAME, subjectOf } from './stream.ts'

/**
 * null: all of the stream has to be read. So it is where there is one partition, and where the messages that are there
 * do not look as if they were spread over so many: to trust that would be to find nothing, and say nothing. Rejects
 * where JetStream does not answer.
 */
export async function subjectOfApp(
  connection: NatsConnection,
  appId: string,
  partitions: number,
): Promise<string | null> {
  if (partitions === 1) return null
  const manager = await jetstreamManager(connection, { checkAPI: false, timeout: API_TIMEOUT_MS })
  const { state } = await manager.streams.info(STREAM_NAME, { subjects_filter: ALL_SUBJECTS })
  const present = new Set(Object.keys(state.subjects ?? {}))
  const subject = subjectOf(partitionOf(appId, partitions))
  if (!present.delete(subject)) return null
  for (let partition = 0; partition < partitions; partition++) present.delete(subjectOf(partition))
  return present.size === 0 ? subject : null
}
