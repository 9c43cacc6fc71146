// NATS's clock. The stream's leader says its time with each description of the stream, from 2.10 on. Before, only the making
// of a consumer shows it, which costs the servers more.

import { AckPolicy, DeliverPolicy, jetstreamManager } from '@nats-io/jetstream'
import type { NatsConnection } from '@nats-io/transport-node'
import { API_TIMEOUT_MS } from '../nats/api.ts'
import { EVENTS_STREAM } from '../nats/store-names.ts'
import { ALL_SUBJECTS } from '../queue/stream/stream.ts'

const CONSUMER_INACTIVE_NANOSECONDS = 1_000_000_000

/** Unix ms; null: it is not known. `mayProbe`: where the description has no time, a consumer is made and deleted. */
export async function readNatsTime(connection: NatsConnection, mayProbe: boolean): Promise<number | null> {
  try {
    const { streams, consumers } = await jetstreamManager(connection, { checkAPI: false, timeout: API_TIMEOUT_MS })
    const info: { readonly ts?: string } = await streams.info(EVENTS_STREAM)
    if (info.ts !== undefined || !mayProbe) return timeOf(info.ts)
    const { name, created } = await consumers.add(EVENTS_STREAM, {
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
    // Whoever reads the stream next says why it cannot be read.
    return null
  }
}

function timeOf(text: string | undefined): number | null {
  const timeMs = Date.parse(text ?? '')
  return timeMs > 0 ? timeMs : null
}
