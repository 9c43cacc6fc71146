// Finds the subject that holds an app's events, where the stream confirms the number of partitions.

import type { NatsConnection } from '@nats-io/transport-node'
import { partitionOf } from '../../contract/partition.ts'
import { parseRecordHead } from '../../contract/record/record-head.ts'
import { recordsOf } from '../../contract/record/record-lines.ts'
import { managerOf } from '../../nats/api.ts'
import { EVENTS_STREAM } from '../../nats/store-names.ts'
import { readRange } from './read/stream-range.ts'
import { ALL_SUBJECTS, PROBE_SUBJECT, subjectOf } from './stream.ts'

/** The newest messages of all subjects that are searched for one of the app. */
const MAX_SEARCHED = 2048

/**
 * null: the whole stream has to be read, since there is one partition only, or the stream has subjects beyond
 * `partitions`, or the newest messages of the app's partition hold none of the app. In the last two cases the number of
 * partitions may be wrong, and the reader would find nothing. Rejects where JetStream does not answer.
 */
export async function subjectOfApp(
  connection: NatsConnection,
  appId: string,
  partitions: number,
): Promise<string | null> {
  if (partitions === 1) return null
  const manager = await managerOf(connection)
  const { state } = await manager.streams.info(EVENTS_STREAM, { subjects_filter: ALL_SUBJECTS })
  const present = new Set(Object.keys(state.subjects ?? {}))
  const subject = subjectOf(partitionOf(appId, partitions))
  if (!present.delete(subject)) return null
  present.delete(PROBE_SUBJECT)
  for (let partition = 0; partition < partitions; partition++) present.delete(subjectOf(partition))
  if (present.size > 0) return null
  const until = state.last_seq
  const range = { from: Math.max(state.first_seq, until - MAX_SEARCHED + 1), until, subject }
  for await (const { data } of readRange(connection, range)) {
    for (const record of recordsOf(data)) {
      if (parseRecordHead(record, 0, record.length)?.appId === appId) return subject
    }
  }
  return null
}
