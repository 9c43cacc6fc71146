// Measures the lag of the stream's durable consumers: the age of the first message that each has not acknowledged.

import type { ConsumerInfo, JetStreamManager } from '@nats-io/jetstream'
import type { NatsConnection } from '@nats-io/transport-node'
import { managerOf } from '../../nats/api.ts'
import { EVENTS_STREAM } from '../../nats/store-names.ts'
import { ALL_SUBJECTS } from './stream.ts'

/** Consumers that are measured, the first ones by name. A bound, since each has a series in the metrics. */
const MAX_CONSUMERS = 20
/** Consumers that are searched for durable ones: one page of the list that NATS gives. */
const MAX_LISTED = 256
/** Filter subjects of one consumer that are looked up. */
const MAX_FILTERS = 16

/** Seconds by the consumer's name; 0: it has acknowledged everything. */
export type ConsumerLags = Readonly<Record<string, number>>

/** null: NATS did not answer. Never rejects. */
export async function measureLags(connection: NatsConnection, nowMs: number): Promise<ConsumerLags | null> {
  try {
    const manager = await managerOf(connection)
    const listed = (await manager.consumers.list(EVENTS_STREAM).next()).slice(0, MAX_LISTED)
    const durable = listed.filter(({ config }) => config.durable_name !== undefined)
    const measured = durable.toSorted((one, other) => (one.name < other.name ? -1 : 1)).slice(0, MAX_CONSUMERS)
    return Object.fromEntries(
      await Promise.all(measured.map(async (info) => [info.name, await lagOf(manager, info, nowMs)] as const)),
    )
  } catch {
    return null
  }
}

async function lagOf(manager: JetStreamManager, info: ConsumerInfo, nowMs: number): Promise<number> {
  if (info.num_pending + info.num_ack_pending === 0) return 0
  const { filter_subject: filter, filter_subjects: filters } = info.config
  const subjects = filters ?? [filter === undefined || filter === '' ? ALL_SUBJECTS : filter]
  const next = await Promise.all(
    subjects.slice(0, MAX_FILTERS).map((subject) => {
      const query = { seq: info.ack_floor.stream_seq + 1, next_by_subj: subject }
      return manager.streams.getMessage(EVENTS_STREAM, query)
    }),
  )
  // The clock of NATS may be ahead of this one.
  return Math.max(0, ...next.map((message) => (message === null ? 0 : nowMs - message.time.getTime()))) / 1000
}
