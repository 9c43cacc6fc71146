// Finding one batch in the stream of a real NATS, and which of its consumers have had it.

import { AckPolicy, type ConsumerConfig, DeliverPolicy, jetstream, jetstreamManager } from '@nats-io/jetstream'
import { headers, type NatsConnection } from '@nats-io/transport-node'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type Finding, findingJson, type Progress } from '../../src/queue/find/finding.ts'
import { type Asked, readQuestion } from '../../src/queue/find/question.ts'
import { partitionOf } from '../../src/queue/partition.ts'
import { findInStream, type StreamSearchOptions } from '../../src/queue/stream/read/stream-search.ts'
import { subjectOf } from '../../src/queue/stream/stream.ts'
import { type Batch, type BatchWish, makeBatch } from '../support/batches.ts'
import { addStream, withConnection } from '../support/jetstream.ts'
import { type NatsServer, startNats } from '../support/nats.ts'
import { eventually } from '../support/service.ts'

const PARTITIONS = 16
const KEY = '0b9e3a52-6f0c-4d7e-9a55-2f8c1d3e4b6a'
const OTHER_KEY = '5f4dcc3b-5aa7-465d-8327-deb882cf99aa'
const HOUR_MS = 3_600_000

let nats: NatsServer
beforeAll(async () => {
  nats = await startNats()
})
beforeEach(async () => {
  await nats.restart({ empty: true })
})
afterAll(() => nats.stop())

const subjectFor = (appId: string): string => subjectOf(partitionOf(appId, PARTITIONS))

interface Sent {
  readonly appId?: string
  readonly batches: readonly Batch[]
}

/** One message for each, under its batch's id where it has a key. Returns the last sequence. */
async function store(connection: NatsConnection, messages: readonly Sent[]): Promise<number> {
  const js = jetstream(connection)
  let last = 0
  for (const { appId = 'demo', batches } of messages) {
    const isKeyed = batches.length === 1 && batches[0].id[14] === '5'
    const all = headers()
    if (isKeyed) all.set('Nats-Msg-Id', batches[0].id)
    const text = batches.map(({ line }) => line).join('')
    last = (await js.publish(subjectFor(appId), text, { headers: all })).seq
  }
  return last
}

const batch = (wish: Partial<BatchWish> = {}): Batch => makeBatch({ receivedAtMs: Date.now(), ...wish })

async function find(
  connection: NatsConnection,
  asked: Asked,
  options: Partial<StreamSearchOptions> = {},
): Promise<Finding> {
  const reading = readQuestion(asked, Date.now())
  if (reading.kind === 'mistake') throw new Error(reading.mistake)
  return await findInStream(connection, reading.question, { partitions: PARTITIONS, ...options })
}

async function consumersLeft(connection: NatsConnection): Promise<number> {
  const { streams } = await jetstreamManager(connection)
  return (await streams.info('SLUICE_EVENTS')).state.consumer_count
}

describe('a batch in the stream', () => {
  test('is found by its id among the lines of a message, in any partition, and no consumer is left', async () => {
    await addStream(nats.url)
    await withConnection(nats.url, async (connection) => {
      const wanted = batch({ appId: 'shop', members: ',"sdk_version":"3.0"', events: '[{"n":1.50},{"n":2}]' })
      const message = { appId: 'shop', batches: [batch({ appId: 'shop' }), wanted, batch({ appId: 'shop' })] }
      const sequence = await store(connection, [
        { batches: [batch()] },
        // A client may write any id into its events.
        { batches: [batch({ events: `[${wanted.line.trim()}]` })] },
        message,
      ])
      await store(connection, [{ batches: [batch()] }])
      const finding = await find(connection, { id: wanted.id })
      expect(finding).toMatchObject({
        kind: 'found',
        record: { batchId: wanted.id, appId: 'shop', sdkVersion: '3.0', events: 2 },
        place: { kind: 'stream', stream: 'SLUICE_EVENTS', subject: subjectFor('shop'), sequence },
        consumers: [],
      })
      const reading = readQuestion({ id: wanted.id }, Date.now())
      if (reading.kind === 'mistake') throw new Error(reading.mistake)
      const json = findingJson(finding, reading.question, { withRecord: true })
      expect(json).toContain(`"record":${wanted.line.trim()}}`)
      expect(JSON.parse(json)).toMatchObject({
        found: true,
        keyed: false,
        place: { sequence, subject: subjectFor('shop') },
      })
      await eventually('no consumer is left', async () => (await consumersLeft(connection)) === 0)
    })
  })

  test('is found by app and key, and by the id that they give', async () => {
    await addStream(nats.url)
    await withConnection(nats.url, async (connection) => {
      const wanted = batch({ key: KEY, appId: 'shop' })
      const others = Array.from({ length: 30 }, (_, at) => ({ appId: `a${at}`, batches: [batch({ appId: `a${at}` })] }))
      await store(connection, [...others, { batches: [batch({ key: KEY })] }])
      const sequence = await store(connection, [{ appId: 'shop', batches: [wanted] }])
      await store(connection, others)
      const place = { sequence, subject: subjectFor('shop') }
      expect(await find(connection, { app: 'shop', key: KEY })).toMatchObject({ kind: 'found', place })
      expect(await find(connection, { id: wanted.id })).toMatchObject({ kind: 'found', place })
      const missed = await find(connection, { app: 'shop', key: OTHER_KEY })
      expect(missed).toMatchObject({ kind: 'not found', isComplete: true })
      expect(missed).toHaveProperty('advice', expect.stringContaining('All that the queue has was searched'))
      expect(await find(connection, { app: 'shop', key: OTHER_KEY, since: '2h' })).toHaveProperty(
        'advice',
        expect.stringContaining('holds no batch with this id from that time on'),
      )
    })
  })

  test('whose node had a wrong clock is found since a time that covers when it was stored', async () => {
    await addStream(nats.url)
    await withConnection(nats.url, async (connection) => {
      const wanted = batch({ receivedAtMs: Date.now() - HOUR_MS })
      await store(connection, [{ batches: [batch()] }, { batches: [wanted] }])
      const missed = await find(connection, { id: wanted.id })
      expect(missed).toHaveProperty('advice', expect.stringContaining('older than anything the queue still has'))
      expect(await find(connection, { id: wanted.id, since: '2h' })).toMatchObject({ kind: 'found' })
    })
  })

  test('is not there in an empty stream, where there is none, or once it was purged', async () => {
    await withConnection(nats.url, async (connection) => {
      const wanted = batch()
      const empty = { kind: 'not found', reachesBackToMs: null, advice: 'The queue is empty.' }
      expect(await find(connection, { id: wanted.id })).toMatchObject(empty)
      await addStream(nats.url)
      expect(await find(connection, { id: wanted.id })).toMatchObject(empty)
      const sequence = await store(connection, [{ batches: [wanted] }, { batches: [batch()] }])
      expect(await find(connection, { id: wanted.id })).toMatchObject({ kind: 'found' })
      const { streams } = await jetstreamManager(connection)
      await streams.purge('SLUICE_EVENTS', { seq: sequence })
      const { state } = await streams.info('SLUICE_EVENTS')
      expect(await find(connection, { id: wanted.id })).toMatchObject({
        kind: 'not found',
        reachesBackToMs: Date.parse(state.first_ts),
      })
    })
  })

  test('is not found by a search that is ended, which says how far it came', async () => {
    await addStream(nats.url)
    await withConnection(nats.url, async (connection) => {
      const batches = Array.from({ length: 20 }, () => batch())
      await store(
        connection,
        Array.from({ length: 300 }, () => ({ batches })),
      )
      const ending = new AbortController()
      const seen: Progress[] = []
      const finding = await find(
        connection,
        { app: 'demo', key: KEY },
        {
          signal: ending.signal,
          progressEvery: 100,
          onProgress: (progress) => {
            seen.push(progress)
            ending.abort()
          },
        },
      )
      expect(seen[0]).toMatchObject({ unit: 'messages', read: 100 })
      expect(finding).toMatchObject({ kind: 'not found', isComplete: false })
      expect(await find(connection, { id: batch().id }, { signal: ending.signal })).toMatchObject({ isComplete: false })
    })
  })
})

describe('whether a consumer has had a batch', () => {
  async function withConsumer(
    connection: NatsConnection,
    name: string,
    config: Partial<ConsumerConfig> = {},
  ): Promise<void> {
    const { consumers } = await jetstreamManager(connection)
    await consumers.add('SLUICE_EVENTS', { durable_name: name, ack_policy: AckPolicy.Explicit, ...config })
  }

  /** Takes messages, and acknowledges those at the places given. */
  async function consume(connection: NatsConnection, name: string, count: number, acknowledged: readonly number[]) {
    const consumer = await jetstream(connection).consumers.get('SLUICE_EVENTS', name)
    for (let at = 0; at < count; at++) {
      const message = await consumer.next({ expires: 5000 })
      if (message === null) throw new Error(`${name} got no message ${at}`)
      if (acknowledged.includes(at)) await message.ackAck()
    }
  }

  test('is told of each durable one', async () => {
    await addStream(nats.url)
    await withConnection(nats.url, async (connection) => {
      await withConsumer(connection, 'elsewhere', {
        filter_subject: subjectOf((partitionOf('demo', PARTITIONS) + 1) % 16),
      })
      await withConsumer(connection, 'exact', { filter_subjects: ['sluice.events.99', subjectFor('demo')] })
      await withConsumer(connection, 'wild', { filter_subject: 'sluice.*.*' })
      await withConsumer(connection, 'done')
      await withConsumer(connection, 'done-later')
      await withConsumer(connection, 'gap')
      await withConsumer(connection, 'in-hand')
      await withConsumer(connection, 'trusting', { ack_policy: AckPolicy.None })
      await withConsumer(connection, 'cumulative', { ack_policy: AckPolicy.All })
      const wanted = batch()
      await store(connection, [{ batches: [batch()] }, { batches: [wanted] }, { batches: [batch()] }])
      await withConsumer(connection, 'newcomer', { deliver_policy: DeliverPolicy.New })
      await withConsumer(connection, 'from-three', { deliver_policy: DeliverPolicy.StartSequence, opt_start_seq: 3 })
      await withConsumer(connection, 'from-two', { deliver_policy: DeliverPolicy.StartSequence, opt_start_seq: 2 })
      const later = new Date(Date.now() + HOUR_MS).toISOString()
      await withConsumer(connection, 'from-later', { deliver_policy: DeliverPolicy.StartTime, opt_start_time: later })
      // One that is not durable is no reader that anybody waits for.
      const { consumers } = await jetstreamManager(connection)
      await consumers.add('SLUICE_EVENTS', { ack_policy: AckPolicy.None, inactive_threshold: 60_000_000_000 })
      await consume(connection, 'done', 2, [0, 1])
      await consume(connection, 'done-later', 3, [0, 2, 1])
      await consume(connection, 'gap', 3, [1, 2])
      await consume(connection, 'in-hand', 2, [0])
      await consume(connection, 'trusting', 2, [])
      await consume(connection, 'cumulative', 3, [2])
      const finding = await find(connection, { id: wanted.id })
      expect(finding.kind === 'found' && finding.consumers).toEqual([
        { name: 'cumulative', state: 'acknowledged' },
        { name: 'done', state: 'acknowledged' },
        { name: 'done-later', state: 'acknowledged' },
        { name: 'elsewhere', state: 'other subject' },
        { name: 'exact', state: 'waiting' },
        { name: 'from-later', state: 'skipped' },
        { name: 'from-three', state: 'skipped' },
        { name: 'from-two', state: 'waiting' },
        { name: 'gap', state: 'delivered' },
        { name: 'in-hand', state: 'delivered' },
        { name: 'newcomer', state: 'skipped' },
        { name: 'trusting', state: 'delivered' },
        { name: 'wild', state: 'waiting' },
      ])
    })
  })
})
