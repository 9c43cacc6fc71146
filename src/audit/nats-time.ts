// NATS's clock. The stream's leader says its time with each description of the stream, from 2.10 on. Before, only the making
// of a consumer shows it, which costs the servers more.

import { AckPolicy, DeliverPolicy } from '@nats-io/jetstream'
import type { NatsConnection } from '@nats-io/transport-node'
import { askStream, managerOf } from '../nats/api.ts'
import { EVENTS_STREAM } from '../nats/store-names.ts'
import { ALL_SUBJECTS } from '../queue/stream/stream.ts'

const CONSUMER_INACTIVE_NANOSECONDS = 1_000_000_000

/** Unix ms; null: it is not known. `mayProbe`: where the description has no time, a consumer is made and deleted. */
export async function readNatsTime(connection: NatsConnection, mayProbe: boolean): Promise<number | null> {
  const answer = await askStream(connection, EVENTS_STREAM, ({ ts }: { readonly ts?: string }) => ts)
  // Whoever reads the stream next says why it cannot be read.
  const said = answer.kind === 'present' ? answer.facts : null
  if (said !== undefined || !mayProbe) return timeOf(said)
  try {
    const { name, created } = await (await managerOf(connection)).consumers.add(EVENTS_STREAM, {
      ack_policy: AckPolicy.None,
      deliver_policy: DeliverPolicy.New,
      filter_subject: ALL_SUBJECTS,
      inactive_threshold: CONSUMER_INACTIVE_NANOSECONDS,
      mem_storage: true,
      num_replicas: 1,
    })
    connection.publish(`$JS.API.CONSUMER.DELETE.${EVENTS_STREAM}.${name}`)
    return timeOf(created)
  } catch {
    return null
  }
}

function timeOf(text: string | null | undefined): number | null {
  const timeMs = Date.parse(text ?? '')
  return timeMs > 0 ? timeMs : null
}
