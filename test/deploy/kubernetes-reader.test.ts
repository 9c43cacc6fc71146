// Whoever reads the events has a user of its own in production's NATS: what it may do, and what it may not.

import { AckPolicy, jetstream, jetstreamManager } from '@nats-io/jetstream'
import type { NatsConnection } from '@nats-io/transport-node'
import { describe, expect, it, onTestFinished } from 'vitest'
import { connectNats } from '../../src/nats/connection.ts'
import { EVENTS_STREAM } from '../../src/nats/store-names.ts'
import { ensureStream, subjectOf } from '../../src/queue/stream/stream.ts'
import { NEW_STREAM } from '../support/jetstream.ts'
import { buildKustomization } from '../support/kustomize.ts'
import { SERVERS, startProductionNats, urlOf } from '../support/manifest-nats.ts'
import { eventually, runCommand } from '../support/service.ts'

const production = await buildKustomization('deploy/overlays/production')
const ELECTION_MS = 45_000

async function open(url: string): Promise<NatsConnection> {
  const connection = await connectNats(url)
  onTestFinished(() => connection.close())
  return connection
}

describe("production's reader", () => {
  it('reads and acknowledges events, and can neither publish one nor change the stream', async () => {
    const nats = await startProductionNats(production)
    onTestFinished(nats.stop)
    const owner = await open(urlOf(nats.servers, 'operator'))
    await eventually(
      'a stream is made',
      async () => (await ensureStream(owner, { ...NEW_STREAM, replicas: SERVERS }, Date.now())).kind === 'present',
      ELECTION_MS,
    )
    const subject = subjectOf(0)
    await jetstream(owner).publish(subject, 'first')

    const url = urlOf(nats.servers, 'reader')
    const reader = await open(url)
    const manager = await jetstreamManager(reader)
    await manager.consumers.add(EVENTS_STREAM, { durable_name: 'warehouse', ack_policy: AckPolicy.Explicit })
    const consumer = await jetstream(reader).consumers.get(EVENTS_STREAM, 'warehouse')
    const message = await consumer.next({ expires: ELECTION_MS })
    expect(message?.string()).toBe('first')
    expect(await message?.ackAck()).toBe(true)
    expect((await consumer.info()).num_ack_pending).toBe(0)
    expect((await manager.direct.getMessage(EVENTS_STREAM, { seq: 1 }))?.string()).toBe('first')
    // As `sluice tail` reads, which finds no record in that.
    const tail = ['tail', '--from-start', '--no-follow', '--records']
    expect((await runCommand(tail, { NATS_URL: url, REDIS_URL: 'redis://127.0.0.1:1' })).output).toContain(
      'skipped a line',
    )
    expect(await manager.consumers.delete(EVENTS_STREAM, 'warehouse')).toBe(true)

    const forbidden: Readonly<Record<string, () => Promise<unknown>>> = {
      'publish an event': () => jetstream(reader).publish(subject, 'forged'),
      'publish one past JetStream': () => reader.request(subject, 'forged'),
      'delete a message': () => manager.streams.deleteMessage(EVENTS_STREAM, 1),
      'empty the stream': () => manager.streams.purge(EVENTS_STREAM),
      'change it': () => manager.streams.update(EVENTS_STREAM, { max_msgs: 1 }),
      'delete it': () => manager.streams.delete(EVENTS_STREAM),
      'make another': () => manager.streams.add({ name: 'OTHER', subjects: ['other'] }),
    }
    for (const [what, attempt] of Object.entries(forbidden)) {
      await expect(attempt(), what).rejects.toThrow(/permissions violation/i)
    }
    const { state } = await (await jetstreamManager(owner)).streams.info(EVENTS_STREAM)
    expect(state).toMatchObject({ messages: 1, last_seq: 1 })
  })
})
