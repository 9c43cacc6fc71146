// Keyed records that go to the stream together, each a message of its own, where its server takes atomic batches.

import { jetstreamManager } from '@nats-io/jetstream'
import type { NatsConnection } from '@nats-io/transport-node'
import { afterEach, beforeAll, beforeEach, describe, expect, it, type TestContext } from 'vitest'
import type { QueueAck, QueueRecord } from '../../src/queue/queue.ts'
import type { StreamPublisher } from '../../src/queue/stream/publisher.ts'
import {
  addStream,
  openReadyQueue,
  publishTo,
  readStreamPlainly,
  settlementsOf,
  withConnection,
} from '../support/jetstream.ts'
import { makeRecord } from '../support/journal.ts'
import { type NatsServer, startNats } from '../support/nats.ts'

const ALONE = 4
const MINUTE_NANOSECONDS = 60e9

let nats: NatsServer
beforeAll(async () => {
  nats = await startNats()
})

const keyedRecords = (count: number, fillBytes = 0): QueueRecord[] =>
  Array.from({ length: count }, (_, index) => makeRecord({ keyed: true, appId: `together-${index % 5}`, fillBytes }))

interface Settled {
  readonly ack: QueueAck
  readonly sequence: number | undefined
}

/** All in one turn of the event loop. */
function publishAll(queue: StreamPublisher, records: readonly QueueRecord[]): Promise<Settled[]> {
  return Promise.all(
    records.map(
      (record) =>
        new Promise<Settled>((resolve) => {
          queue.publish(record, (ack, _events, sequence) => resolve({ ack, sequence }))
        }),
    ),
  )
}

/** By message id: where it is, and of which atomic batch. */
async function storedById(): Promise<Map<string, { sequence: number; batch: string; lines: number }>> {
  return await withConnection(nats.url, async (connection) => {
    const { streams } = await jetstreamManager(connection)
    const found = new Map<string, { sequence: number; batch: string; lines: number }>()
    for (const { sequence, id, text } of await readStreamPlainly(nats.url)) {
      const message = await streams.getMessage('SLUICE_EVENTS', { seq: sequence })
      const lines = text.trimEnd().split('\n').length
      found.set(id, { sequence, batch: message?.header.get('Nats-Batch-Id') ?? '', lines })
    }
    return found
  })
}

async function deleteStream(): Promise<void> {
  await withConnection(nats.url, async (connection) => {
    await (await jetstreamManager(connection)).streams.delete('SLUICE_EVENTS')
  })
}

describe('with a server that takes atomic batches', () => {
  let queue: StreamPublisher
  beforeEach(async (context) => {
    await withConnection(nats.url, async (connection) => needBatches(connection, context))
    ;({ queue } = await openReadyQueue(nats.url, { keyedAlone: () => ALONE }))
  })
  afterEach(async () => {
    await queue.stop()
    await deleteStream()
  })

  it('stores many as one batch, each under its own id and with its own place in the stream', async () => {
    const records = keyedRecords(40)
    const settled = await publishAll(queue, records)
    const stored = await storedById()
    expect(stored.size).toBe(records.length)
    for (const [index, { batchId }] of records.entries()) {
      expect(stored.get(batchId)).toMatchObject({ lines: 1, sequence: settled[index].sequence })
      expect(settled[index].ack).toBe('durable')
    }
    const batches = new Set(Array.from(stored.values(), ({ batch }) => batch))
    expect(batches.size).toBe(1)
    expect(batches).not.toContain('')
  })

  it('stores few alone', async () => {
    expect(new Set((await publishAll(queue, keyedRecords(ALONE))).map(({ ack }) => ack))).toEqual(new Set(['durable']))
    expect(Array.from((await storedById()).values(), ({ batch }) => batch)).toEqual(
      Array.from({ length: ALONE }, () => ''),
    )
  })

  it('sends each of a batch alone where one of them is stored already, which alone is a duplicate', async () => {
    const records = keyedRecords(30)
    const other = await openReadyQueue(nats.url)
    expect(await publishTo(other.queue, records[7])).toMatchObject({ ack: 'durable' })
    await other.queue.stop()
    const acks = (await publishAll(queue, records)).map(({ ack }) => ack)
    expect(acks).toEqual(records.map((_, index) => (index === 7 ? 'duplicate' : 'durable')))
    const stored = await storedById()
    expect(stored.size).toBe(records.length)
    expect(new Set(Array.from(stored.values(), ({ batch }) => batch))).toEqual(new Set(['']))
    expect(queue.status.state).toBe('ok')
  })

  it('sends large records alone, and the order of an app is kept between keyed records and others', async () => {
    const app = (keyed: boolean, fillBytes = 0): QueueRecord => makeRecord({ keyed, appId: 'in-order', fillBytes })
    const records = [...Array.from({ length: 8 }, () => app(true)), app(false), app(true, 100_000), app(true)]
    await publishAll(queue, records)
    const stored = await readStreamPlainly(nats.url)
    const inStream = stored.flatMap(({ text }) => text.trimEnd().split('\n')).map((line) => batchIdOf(line))
    expect(inStream).toEqual(records.map(({ batchId }) => batchId))
  })

  it('takes a refusal for want of room as one', async () => {
    await deleteStream()
    await addStream(nats.url, {
      allow_atomic: true,
      max_bytes: 30_000,
      discard: 'new' as never,
      duplicate_window: 10 * MINUTE_NANOSECONDS,
    })
    const acks = new Set((await publishAll(queue, keyedRecords(40, 2000))).map(({ ack }) => ack))
    expect(acks).toContain('stream_full')
    expect(acks).not.toContain('in_doubt')
  })
})

it('sends each record alone to a stream that takes no batches', async () => {
  await addStream(nats.url, { duplicate_window: 10 * MINUTE_NANOSECONDS })
  const { queue } = await openReadyQueue(nats.url, { keyedAlone: () => ALONE })
  const records = keyedRecords(30)
  expect(new Set(await settlementsOf(records.map((record) => publishTo(queue, record))))).toEqual(new Set(['durable']))
  expect((await storedById()).size).toBe(records.length)
  await queue.stop()
  await deleteStream()
})

function batchIdOf(line: string): string {
  return (JSON.parse(line) as { batch_id: string }).batch_id
}

function needBatches({ info }: NatsConnection, context: TestContext): void {
  const version = info?.version ?? ''
  const [, minor = 0] = version.split('.').map(Number)
  if (minor < 14) context.skip(`nats-server ${version} has no atomic batches of messages with ids: 2.14 has`)
}
