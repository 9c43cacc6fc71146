// Finding one batch in the stream of a real NATS, and which of its consumers have had it.

import { AckPolicy, type ConsumerConfig, DeliverPolicy, jetstream, jetstreamManager } from '@nats-io/jetstream'
import { headers, type NatsConnection } from '@nats-io/transport-node'
import { beforeAll, beforeEach, describe, expect, type TestContext, test } from 'vitest'
import { partitionOf } from '../../src/contract/partition.ts'
import { findingJson } from '../../src/inspect/find/finding-json.ts'
import { type Finding, goOnBeforeMs } from '../../src/queue/find/finding.ts'
import { type Asked, type Question, readQuestion } from '../../src/queue/find/question.ts'
import { findInStream, type StreamSearchOptions } from '../../src/queue/stream/read/stream-search.ts'
import { PROBE_SUBJECT, subjectOf } from '../../src/queue/stream/stream.ts'
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

const subjectFor = (appId: string): string => subjectOf(partitionOf(appId, PARTITIONS))

interface Sent {
  readonly appId?: string
  readonly batches: readonly Batch[]
  readonly isSpooled?: boolean
}

/** One message for each, under its batch's id where it has a key. Returns the last sequence. */
async function store(connection: NatsConnection, messages: readonly Sent[]): Promise<number> {
  const js = jetstream(connection)
  let last = 0
  for (const { appId = 'demo', batches, isSpooled = false } of messages) {
    const isKeyed = batches.length === 1 && batches[0].id[14] === '5'
    const all = headers()
    if (isKeyed) all.set('Nats-Msg-Id', batches[0].id)
    if (isSpooled) all.set('Sluice-Spool', '1')
    const text = batches.map(({ line }) => line).join('')
    last = (await js.publish(subjectFor(appId), text, { headers: all })).seq
  }
  return last
}

const batch = (wish: Partial<BatchWish> = {}): Batch => makeBatch({ receivedAtMs: Date.now(), ...wish })

function questionOf(asked: Asked): Question {
  const reading = readQuestion(asked, Date.now())
  if (reading.kind === 'mistake') throw new Error(reading.mistake)
  return reading.question
}

function find(connection: NatsConnection, asked: Asked, options: Partial<StreamSearchOptions> = {}): Promise<Finding> {
  return findInStream(connection, questionOf(asked), { partitions: PARTITIONS, ...options })
}

/** A consumer may have several subjects from 2.10 on. */
function needSeveralSubjects({ info }: NatsConnection, context: TestContext): void {
  const version = info?.version ?? ''
  if (/^2\.\d\./.test(version))
    context.skip(`nats-server ${version} gives a consumer one subject at most; 2.10 gives more`)
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
        place: { kind: 'stream', stream: 'SLUICE_EVENTS', subject: subjectFor('shop'), sequence, isSpooled: false },
        consumers: [],
      })
      const json = findingJson(finding, questionOf({ id: wanted.id }), { withRecord: true })
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
      const sequence = await store(connection, [{ appId: 'shop', batches: [wanted], isSpooled: true }])
      await store(connection, others)
      const place = { sequence, subject: subjectFor('shop'), isSpooled: true }
      expect(await find(connection, { app: 'shop', key: KEY })).toMatchObject({ kind: 'found', place })
      expect(await find(connection, { id: wanted.id })).toMatchObject({ kind: 'found', place })
      const missed = { app: 'shop', key: OTHER_KEY }
      expect(await find(connection, missed)).toMatchObject({ kind: 'not found', reason: 'absent' })
      expect(await find(connection, { ...missed, since: '2h' })).toMatchObject({ reason: 'absent' })
      expect(await find(connection, { ...missed, before: '1m' })).toMatchObject({ reason: 'narrowed' })
    })
  })

  test('that is stored under another id, since it was in doubt before, is found by app and key', async () => {
    await addStream(nats.url)
    await withConnection(nats.url, async (connection) => {
      const wanted = batch({ key: KEY, appId: 'shop' })
      const js = jetstream(connection)
      await js.publish(PROBE_SUBJECT, '', { msgID: wanted.id })
      const { seq: sequence } = await js.publish(subjectFor('shop'), wanted.line, { msgID: `${wanted.id}.2` })
      const place = { sequence, subject: subjectFor('shop') }
      for (const asked of [{ app: 'shop', key: KEY }, { id: wanted.id }]) {
        expect(await find(connection, asked)).toMatchObject({ kind: 'found', place })
      }
    })
  })

  test('under a key that was used again is the newest one, or an earlier one before its time', async () => {
    await addStream(nats.url, { duplicate_window: 100_000_000 })
    await withConnection(nats.url, async (connection) => {
      const places: { sequence: number; storedAtMs: number }[] = []
      const asked = { app: 'demo', key: KEY }
      const placeOf = async (times: Asked): Promise<unknown> => {
        const found = await find(connection, { ...asked, ...times })
        return found.kind === 'found' ? found.place : found.reason
      }
      for (const expected of [1, 3, 5]) {
        await eventually('the stream takes the id again', async () => {
          return (await store(connection, [{ batches: [batch({ key: KEY })] }])) === expected
        })
        await store(connection, [{ batches: [batch()] }])
        const place = await placeOf({})
        expect(place).toMatchObject({ sequence: expected })
        places.push(place as (typeof places)[0])
      }
      const [first, second, third] = places.map(({ storedAtMs }) => new Date(storedAtMs).toISOString())
      expect(await placeOf({ before: third })).toMatchObject({ sequence: 3 })
      expect(await placeOf({ before: second })).toMatchObject({ sequence: 1 })
      expect(await placeOf({ before: first })).toBe('narrowed')
      expect(await placeOf({ since: third })).toMatchObject({ sequence: 5 })
      const afterThird = new Date(places[2].storedAtMs + 1).toISOString()
      expect(await placeOf({ since: afterThird })).toBe('narrowed')
      expect(await placeOf({ since: second, before: third })).toMatchObject({ sequence: 3 })
    })
  })

  test('whose node had a wrong clock is found since a time that covers when it was stored', async () => {
    await addStream(nats.url)
    await withConnection(nats.url, async (connection) => {
      const wanted = batch({ receivedAtMs: Date.now() - HOUR_MS })
      await store(connection, [{ batches: [batch()] }, { batches: [wanted] }])
      expect(await find(connection, { id: wanted.id })).toMatchObject({ kind: 'not found', reason: 'expired' })
      expect(await find(connection, { id: wanted.id, since: '2h' })).toMatchObject({ kind: 'found' })
    })
  })

  test('is not there in an empty stream, where there is none, or once it was purged', async () => {
    await withConnection(nats.url, async (connection) => {
      const wanted = batch()
      const empty = { kind: 'not found', reachesBackToMs: null, reason: 'empty' }
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

  test('is not found by a search that is ended, which says how far it came, and goes on until all is read', async () => {
    await addStream(nats.url)
    await withConnection(nats.url, async (connection) => {
      const wanted = batch({ key: KEY })
      await store(connection, [{ batches: [wanted] }])
      const oldest = await find(connection, { id: wanted.id })
      for (let at = 0; at < 1500; at += 50) {
        await Promise.all(Array.from({ length: 50 }, () => store(connection, [{ batches: [batch()] }])))
      }
      // Ended as soon as the first chunk is read.
      const findSome = (asked: Asked): Promise<Finding> => find(connection, asked, { signal: AbortSignal.abort() })
      const byKey = { app: 'demo', key: KEY }
      const reaches: number[] = []
      let finding = await findSome(byKey)
      while (finding.kind === 'not found') {
        expect(finding).toMatchObject({
          reason: 'stopped',
          reachesBackToMs: oldest.kind === 'found' && oldest.place.kind === 'stream' && oldest.place.storedAtMs,
        })
        reaches.push(finding.searched.fromMs)
        finding = await findSome({ ...byKey, before: new Date(goOnBeforeMs(finding)).toISOString() })
      }
      expect(finding.place).toMatchObject({ sequence: 1 })
      expect(reaches.length).toBeGreaterThan(3)
      expect(new Set(reaches).size).toBe(reaches.length)
      expect(reaches).toEqual(reaches.toSorted((one, other) => other - one))
    })
  })

  test('of a known app is looked for in its partition alone', async () => {
    await addStream(nats.url)
    await withConnection(nats.url, async (connection) => {
      expect(subjectFor('shop')).not.toBe(subjectFor('demo'))
      await store(connection, [{ appId: 'shop', batches: [batch({ appId: 'shop' })] }])
      for (let at = 0; at < 300; at += 50) {
        await Promise.all(Array.from({ length: 50 }, () => store(connection, [{ batches: [batch()] }])))
      }
      const received = async (asked: Asked): Promise<number> => {
        const before = connection.stats().inMsgs
        expect(await find(connection, asked)).toMatchObject({ reason: 'absent' })
        return connection.stats().inMsgs - before
      }
      expect(await received({ app: 'shop', key: KEY })).toBeLessThan(100)
      expect(await received({ id: batch({ appId: 'shop', key: KEY }).id })).toBeGreaterThan(300)
    })
  })

  test('that is far from where its id says is found among many, whatever chunk it lies in', async () => {
    await addStream(nats.url)
    await withConnection(nats.url, async (connection) => {
      // The first chunk has 256 messages: these lie on both sides of its end, too.
      const sequences = [1, 2, 500, 943, 944, 945, 946, 1000, 1200]
      const early = sequences.map(() => batch({ receivedAtMs: Date.now() - 60_000 }))
      for (let sequence = 1; sequence <= 1200; sequence++) {
        const { line } = early[sequences.indexOf(sequence)] ?? batch()
        void jetstream(connection).publish(subjectFor('demo'), line)
      }
      await eventually('all are stored', async () => {
        const { streams } = await jetstreamManager(connection)
        return (await streams.info('SLUICE_EVENTS')).state.messages === 1200
      })
      for (const [at, { id }] of early.entries()) {
        expect(await find(connection, { id })).toMatchObject({ kind: 'found', place: { sequence: sequences[at] } })
      }
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

  test('is answered for each durable one', async () => {
    await addStream(nats.url)
    await withConnection(nats.url, async (connection) => {
      await withConsumer(connection, 'elsewhere', {
        filter_subject: subjectOf((partitionOf('demo', PARTITIONS) + 1) % 16),
      })
      await withConsumer(connection, 'exact', { filter_subject: subjectFor('demo') })
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

  test('is answered for one that takes several subjects', async (context) => {
    await addStream(nats.url)
    await withConnection(nats.url, async (connection) => {
      needSeveralSubjects(connection, context)
      const other = subjectOf((partitionOf('demo', PARTITIONS) + 1) % PARTITIONS)
      await withConsumer(connection, 'both', { filter_subjects: [other, subjectFor('demo')] })
      await withConsumer(connection, 'neither', { filter_subjects: [other, 'sluice.events.99'] })
      const wanted = batch()
      await store(connection, [{ batches: [wanted] }])
      const finding = await find(connection, { id: wanted.id })
      expect(finding.kind === 'found' && finding.consumers).toEqual([
        { name: 'both', state: 'waiting' },
        { name: 'neither', state: 'other subject' },
      ])
    })
  })
})
