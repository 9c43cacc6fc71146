import { jetstream, jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { beforeAll, describe, expect, it } from 'vitest'
import { partitionOf } from '../../src/contract/partition.ts'
import { storedSequence } from '../../src/queue/stream/ack.ts'
import { askAck } from '../../src/queue/stream/probe.ts'
import { ensureStream } from '../../src/queue/stream/stream.ts'
import {
  addStream,
  countBatches,
  freeze,
  NEW_STREAM,
  openQueue,
  openReadyQueue,
  publishTo,
  readStreamPlainly,
  type SeenMessage,
  settlementsOf,
  streamConfig,
  untilSent,
  withConnection,
} from '../support/jetstream.ts'
import { makeRecord } from '../support/journal.ts'
import { type NatsServer, startNats } from '../support/nats.ts'
import { startProxy } from '../support/proxy.ts'
import { eventually } from '../support/service.ts'

const KIB = 1024
/** A call for the measurement is given up before, after 1 s. That it was shows nowhere. A frozen connection is given up after 1.5 s or more. */
const LONGER_THAN_A_LOOK_MS = 1100

describe('messages of the JetStream queue', () => {
  let nats: NatsServer
  beforeAll(async () => {
    nats = await startNats()
  })

  const messagesOf = async (appId: string): Promise<SeenMessage[]> => {
    return (await readStreamPlainly(nats.url)).filter(({ text }) => text.includes(`"app_id":"${appId}"`))
  }

  it('creates the stream where there is none, as the contract says', async () => {
    const { queue, notices } = await openReadyQueue(nats.url)
    expect(queue.hasBeenUp).toBe(true)
    expect(queue.status.state).toBe('ok')
    expect(notices).toEqual(['stream SLUICE_EVENTS was created with 1 replica', 'NATS: connected'])
    expect(await streamConfig(nats.url)).toMatchObject({
      subjects: ['sluice.events.*'],
      storage: 'file',
      retention: 'limits',
      discard: 'new',
      duplicate_window: 600e9,
      max_age: 72 * 3600e9,
      max_bytes: -1,
      max_msgs: -1,
      num_replicas: 1,
      allow_direct: true,
    })
    await queue.stop()
  })

  it('sends a keyed record alone, under its batch id, on the subject of its partition', async () => {
    const { queue } = await openReadyQueue(nats.url)
    const records = Array.from({ length: 20 }, (_, index) => makeRecord({ keyed: true, appId: `keyed-${index % 3}` }))
    expect(new Set(await settlementsOf(records.map((record) => publishTo(queue, record))))).toEqual(
      new Set(['durable']),
    )
    const messages = new Map((await readStreamPlainly(nats.url)).map((message) => [message.id, message]))
    for (const { batchId, appId, line, charge } of records) {
      expect(messages.get(batchId)).toMatchObject({
        subject: `sluice.events.${partitionOf(appId, 16)}`,
        cost: `${charge.minute} ${charge.cycleMinute} ${appId} 1`,
        text: line.toString(),
      })
    }
    await queue.stop()
  })

  it('sends a record without a key at once where none is in flight', async () => {
    const { queue, commits } = await openReadyQueue(nats.url, { nodeId: '00000001' })
    for (let index = 0; index < 3; index += 1) {
      expect(await publishTo(queue, makeRecord({ appId: 'free' }))).toMatchObject({ ack: 'durable' })
    }
    expect(commits).toEqual([1, 1, 1])
    const messages = await messagesOf('free')
    expect(messages.map(({ id }) => id)).toEqual(['00000001-1', '00000001-2', '00000001-3'])
    await queue.stop()
  })

  it('gathers records without a key while one is in flight, up to 64 KB, and keeps their order', async () => {
    const proxy = await startProxy(nats.port)
    const { queue, commits } = await openReadyQueue(`nats://127.0.0.1:${proxy.port}`)
    proxy.delay(150)
    const first = publishTo(queue, makeRecord({ appId: 'gather' }))
    await untilSent()
    const records = Array.from({ length: 100 }, () => makeRecord({ appId: 'gather', fillBytes: 2000 }))
    const rest = []
    for (const record of records) {
      rest.push(publishTo(queue, record))
      // Each in a turn of its own, like requests.
      await new Promise((resolve) => setImmediate(resolve))
    }
    expect(new Set(await settlementsOf([first, ...rest]))).toEqual(new Set(['durable']))
    proxy.heal()
    await queue.stop()
    await proxy.stop()

    expect(commits[0]).toBe(1)
    const size = records[0].line.length
    const full = Math.floor((64 * KIB) / size)
    expect(commits.slice(1)).toEqual([full, full, full, 100 - 3 * full])
    const messages = await messagesOf('gather')
    for (const { text } of messages) expect(text.length).toBeLessThanOrEqual(64 * KIB)
    expect(
      messages
        .slice(1)
        .map(({ text }) => text)
        .join(''),
    ).toBe(records.map(({ line }) => line.toString()).join(''))
  })

  it('sends records that fill a message without waiting', async () => {
    const proxy = await startProxy(nats.port)
    const { queue, commits } = await openReadyQueue(`nats://127.0.0.1:${proxy.port}`)
    proxy.delay(300)
    // Sent one after the other, the last one would not be stored within its 2 s.
    const records = Array.from({ length: 8 }, () => makeRecord({ appId: 'full', fillBytes: 64 * KIB }))
    const answers = await settlementsOf(records.map((record) => publishTo(queue, record)))
    expect(answers).toEqual(records.map(() => 'durable'))
    expect(commits).toEqual(records.map(() => 1))
    proxy.heal()
    await queue.stop()
    await proxy.stop()
  })

  it('keeps the order of an app across keyed and other records', async () => {
    const { queue } = await openReadyQueue(nats.url)
    const records = Array.from({ length: 500 }, (_, index) => makeRecord({ appId: 'order', keyed: index % 7 === 3 }))
    await Promise.all(records.map((record) => publishTo(queue, record)))
    const messages = await messagesOf('order')
    expect(messages.map(({ text }) => text).join('')).toBe(records.map(({ line }) => line.toString()).join(''))
    await queue.stop()
  })

  it('sends a record of more than 64 KB alone, and refuses one that is too large for the server', async () => {
    const { queue, notices, commits } = await openReadyQueue(nats.url)
    const large = makeRecord({ appId: 'large', fillBytes: 600 * KIB })
    const tooLarge = makeRecord({ appId: 'large', fillBytes: KIB * KIB })
    const small = makeRecord({ appId: 'large' })
    const outcomes = await settlementsOf([large, tooLarge, small, tooLarge].map((record) => publishTo(queue, record)))
    expect(outcomes).toEqual(['durable', 'too_large_for_nats', 'durable', 'too_large_for_nats'])
    expect(commits).toEqual([1, 1])
    expect(notices.filter((notice) => notice.includes('max_payload of the NATS server is 1048576'))).toHaveLength(1)
    const counts = countBatches(await readStreamPlainly(nats.url))
    expect([large, small, tooLarge].map(({ batchId }) => counts.get(batchId))).toEqual([1, 1, undefined])
    await queue.stop()
  })

  it('stores the message by which it asks whether NATS is back, and no batch with it', async () => {
    const { queue } = await openReadyQueue(nats.url)
    expect(await publishTo(queue, makeRecord())).toMatchObject({ ack: 'durable' })
    await queue.stop()
    const before = await readStreamPlainly(nats.url)
    expect(await withConnection(nats.url, askAck)).toMatchObject({ kind: 'stored' })
    const after = await readStreamPlainly(nats.url)
    expect(after.slice(before.length).map(({ text }) => text)).toEqual([''])
    expect(countBatches(after)).toEqual(countBatches(before))
  })

  it('sends the oldest record first, whatever its partition', async () => {
    const { queue } = await openReadyQueue(nats.url)
    const ofOne = Array.from({ length: 200 }, () => makeRecord({ keyed: true, appId: 'busy' }))
    const ofOthers = Array.from({ length: 100 }, (_, index) => makeRecord({ keyed: true, appId: `other-${index}` }))
    const records = [...ofOne, ...ofOthers]
    expect(new Set(await settlementsOf(records.map((record) => publishTo(queue, record))))).toEqual(
      new Set(['durable']),
    )
    const ids = records.map(({ batchId }) => batchId)
    const stored = (await readStreamPlainly(nats.url)).map(({ id }) => id)
    expect(stored.filter((id) => ids.includes(id))).toEqual(ids)
    await queue.stop()
  })

  it('copies records: the ring may be overwritten once a record is settled', async () => {
    const ring = Buffer.from(new SharedArrayBuffer(8 * KIB))
    const { queue } = await openReadyQueue(nats.url)
    const texts: string[] = []
    for (let index = 0; index < 50; index += 1) {
      const record = makeRecord({ appId: 'ring', fillBytes: 3000 })
      texts.push(record.line.toString())
      ring.fill(record.line, 0, record.line.length)
      await publishTo(queue, { ...record, line: ring.subarray(0, record.line.length) })
      ring.fill(0)
    }
    const messages = await messagesOf('ring')
    expect(messages.map(({ text }) => text)).toEqual(texts)
    await queue.stop()
  })

  it('reports a duplicate with the number of events in the stored record', async () => {
    const one = await openReadyQueue(nats.url)
    const two = await openReadyQueue(nats.url)
    const record = makeRecord({ keyed: true, events: 7 })
    const other = { ...makeRecord({ keyed: true, events: 3 }), batchId: record.batchId }
    expect(await publishTo(one.queue, record)).toMatchObject({ ack: 'durable', storedEvents: undefined })
    for (const { queue } of [one, two, one]) {
      expect(await publishTo(queue, other)).toMatchObject({ ack: 'duplicate', storedEvents: 7 })
    }
    expect(two.commits).toEqual([])
    expect(two.notices).toEqual(['NATS: connected'])
    expect(countBatches(await readStreamPlainly(nats.url)).get(record.batchId)).toBe(1)
    await one.queue.stop()
    await two.queue.stop()
  })

  it('stores other events under a key that was forgotten since, and tells their repeats from the earlier ones', async () => {
    const { queue } = await openReadyQueue(nats.url)
    const { batchId } = makeRecord({ keyed: true })
    const usedAt = (seconds: number, events: number) => {
      const record = makeRecord({ keyed: true, events, receivedAtMs: 1_800_000_000_000 + seconds * 1000 })
      return { ...record, batchId, line: Buffer.from(record.line.toString().replace(record.batchId, batchId)) }
    }
    expect(await publishTo(queue, usedAt(0, 1))).toMatchObject({ ack: 'durable' })
    expect(await publishTo(queue, usedAt(299, 2))).toMatchObject({ ack: 'duplicate', storedEvents: 1 })
    const another = usedAt(301, 3)
    // Without Redis the clock of the node may be wrong.
    const share = { ...another, charge: { ...another.charge, isShare: true as const } }
    expect(await publishTo(queue, share)).toMatchObject({ ack: 'duplicate', storedEvents: 1 })
    // The same events are a late repeat: nothing is lost with them.
    expect(await publishTo(queue, usedAt(301, 1))).toMatchObject({ ack: 'duplicate', storedEvents: 1 })
    expect(await publishTo(queue, another)).toMatchObject({ ack: 'durable' })
    expect(await publishTo(queue, usedAt(302, 4))).toMatchObject({ ack: 'duplicate', storedEvents: 3 })
    // The batch in doubt has the charge of its first try.
    const retry = { ...usedAt(620, 3), charge: { ...another.charge, isOfDoubt: true as const } }
    expect(await publishTo(queue, retry)).toMatchObject({ ack: 'duplicate', storedEvents: 3 })
    expect(countBatches(await readStreamPlainly(nats.url)).get(batchId)).toBe(2)
    await queue.stop()
  })

  it('takes a duplicate for doubt where its original is another batch, or gone', async () => {
    const { queue } = await openReadyQueue(nats.url)
    const record = makeRecord({ keyed: true })
    await withConnection(nats.url, async (connection) => {
      const manager = await jetstreamManager(connection)
      // Another batch under this batch's id: what a duplicate window that answers wrongly looks like.
      const client = jetstream(connection, { checkAPI: false })
      const { seq } = await client.publish('sluice.events.0', makeRecord({ keyed: true }).line, {
        msgID: record.batchId,
      })
      const doubt = { ack: 'in_doubt', storedEvents: undefined }
      expect(await publishTo(queue, record)).toMatchObject(doubt)
      await manager.streams.deleteMessage('SLUICE_EVENTS', seq)
      expect(await publishTo(queue, record)).toMatchObject(doubt)
    })
    expect(countBatches(await readStreamPlainly(nats.url)).get(record.batchId)).toBe(undefined)
    await queue.stop()
  })

  it('looks up the originals of many duplicates at once, and answers each', async () => {
    const { queue } = await openReadyQueue(nats.url, { ackTimeoutMs: 20_000 })
    const records = Array.from({ length: 200 }, () => makeRecord({ keyed: true, events: 2 }))
    await Promise.all(records.map((record) => publishTo(queue, record)))
    const outcomes = await Promise.all(records.map((record) => publishTo(queue, record)))
    for (const outcome of outcomes) expect(outcome).toMatchObject({ ack: 'duplicate', storedEvents: 2 })
    await queue.stop()
  })

  it('settles its records before it stops, and refuses later ones', async () => {
    const { queue } = await openReadyQueue(nats.url)
    const published = Array.from({ length: 300 }, (_, index) =>
      publishTo(queue, makeRecord({ keyed: index % 2 === 0, appId: `app-${index % 5}` })),
    )
    const stopped = queue.stop()
    const late = publishTo(queue, makeRecord())
    await stopped
    expect(new Set(await settlementsOf(published))).toEqual(new Set(['durable']))
    expect(await late).toMatchObject({ ack: 'stopping' })
  })
})

describe('an existing stream', () => {
  it('is not changed, and every difference is named once', async () => {
    const nats = await startNats()
    await addStream(nats.url, { duplicate_window: 120e9, max_age: 3600e9, subjects: ['sluice.events.*', 'other'] })
    const before = await streamConfig(nats.url)
    const { queue, notices } = await openReadyQueue(nats.url)
    expect(notices[0]).toBe(
      'stream SLUICE_EVENTS would break a promise: discard is old, sluice wants new; ' +
        'duplicate_window is 120 s, sluice wants at least 600 s',
    )
    expect(await publishTo(queue, makeRecord())).toMatchObject({ ack: 'durable' })
    await nats.restart()
    await eventually('the queue is up again', () => queue.isUp)
    expect(notices.filter((notice) => notice.includes('promise'))).toHaveLength(1)
    expect(await streamConfig(nats.url)).toEqual(before)
    await queue.stop()
    await nats.stop()
  })

  it('that is full refuses: nothing is discarded, and it continues once there is room', async () => {
    const nats = await startNats()
    await addStream(nats.url, { discard: 'new', max_msgs: 3, duplicate_window: 600e9 })
    const { queue, notices } = await openReadyQueue(nats.url)
    const records = Array.from({ length: 6 }, (_, index) => makeRecord({ keyed: true, appId: `app-${index}` }))
    const outcomes = []
    for (const record of records) outcomes.push((await publishTo(queue, record)).ack)
    expect(outcomes).toEqual(['durable', 'durable', 'durable', 'stream_full', 'stream_full', 'stream_full'])
    expect(queue.status).toEqual({ state: 'full', reason: 'maximum messages exceeded' })
    expect(queue.refusalNow()).toBe('stream_full')
    expect(queue.isUp).toBe(true)
    expect(notices.filter((notice) => notice.includes('stream full'))).toEqual([
      'stream full: maximum messages exceeded: answering 503 until there is room',
    ])
    expect((await readStreamPlainly(nats.url)).map(({ id }) => id)).toEqual(
      records.slice(0, 3).map(({ batchId }) => batchId),
    )
    await withConnection(nats.url, async (connection) => {
      const manager = await jetstreamManager(connection)
      await manager.streams.purge('SLUICE_EVENTS')
    })
    expect(await publishTo(queue, records[3])).toMatchObject({ ack: 'durable' })
    expect(queue.status.state).toBe('ok')
    await queue.stop()
    await nats.stop()
  })

  it('is created again after it was deleted, within the timeout of the waiting records', async () => {
    const nats = await startNats()
    const { queue, notices } = await openReadyQueue(nats.url)
    await publishTo(queue, makeRecord())
    await withConnection(nats.url, async (connection) => {
      const manager = await jetstreamManager(connection)
      await manager.streams.delete('SLUICE_EVENTS')
    })
    const records = Array.from({ length: 200 }, (_, index) =>
      makeRecord({ keyed: index % 3 === 0, appId: `app-${index % 7}` }),
    )
    expect(new Set(await settlementsOf(records.map((record) => publishTo(queue, record))))).toEqual(
      new Set(['durable']),
    )
    const counts = countBatches(await readStreamPlainly(nats.url))
    expect(records.map(({ batchId }) => counts.get(batchId))).toEqual(records.map(() => 1))
    expect(notices).toContain('no stream in NATS: nobody takes the messages: answering 503 until there is one')
    await queue.stop()
    await nats.stop()
  })

  it('of another name that takes our subjects is reported, and its end is waited for', async () => {
    const nats = await startNats()
    await addStream(nats.url, { name: 'OTHER', subjects: ['sluice.>'] })
    const { queue, notices } = openQueue(nats.url, { ackTimeoutMs: 300 })
    await eventually('the overlap is told', () => notices.some((notice) => notice.includes('overlap')))
    expect(queue.isUp).toBe(false)
    expect(queue.hasBeenUp).toBe(false)
    expect(queue.refusalNow()).toBe('nats_away')
    expect(await publishTo(queue, makeRecord())).toMatchObject({ ack: 'stream_refused' })
    await withConnection(nats.url, async (connection) => {
      const manager = await jetstreamManager(connection)
      await manager.streams.delete('OTHER')
    })
    await eventually('the queue is up', () => queue.isUp)
    expect(await publishTo(queue, makeRecord())).toMatchObject({ ack: 'durable' })
    expect(notices.filter((notice) => notice.includes('overlap'))).toHaveLength(1)
    await queue.stop()
    await nats.stop()
  })

  it('is measured while connected, including its settings, and unknown otherwise', async () => {
    const nats = await startNats()
    await addStream(nats.url, { discard: 'new', duplicate_window: 600e9 })
    const { queue, notices } = openQueue(nats.url, { measureIntervalMs: 20 })
    expect(queue.stream).toBeNull()
    await eventually('it is seen', () => queue.stream?.messages === 0)
    expect(queue.stream).toMatchObject({ bytes: 0, maxBytes: null, oldestAtMs: null })
    const storedFromMs = Date.now()
    await publishTo(queue, makeRecord({ fillBytes: 1024 }))
    await eventually('it has grown', () => queue.stream?.messages === 1)
    expect(queue.stream?.bytes).toBeGreaterThan(1024)
    expect(queue.stream?.oldestAtMs).toBeGreaterThanOrEqual(storedFromMs - 1000)
    expect(notices).toEqual(['NATS: connected'])
    await withConnection(nats.url, async (connection) => {
      const manager = await jetstreamManager(connection)
      await manager.streams.update('SLUICE_EVENTS', { max_bytes: 1e6, duplicate_window: 120e9 })
    })
    await eventually('it has a size', () => queue.stream?.maxBytes === 1e6)
    expect(notices.slice(1)).toEqual([expect.stringContaining('duplicate_window is 120 s')])
    await nats.kill()
    await eventually('it is not known', () => queue.stream === null)
    await nats.restart()
    await eventually('it is known again', () => queue.stream?.messages === 1)
    await queue.stop()
    expect(queue.stream).toBeNull()
    await nats.stop()
  })

  it('has the age of the first message that each durable consumer has not acknowledged', async () => {
    const nats = await startNats()
    const { queue } = await openReadyQueue(nats.url, { measureIntervalMs: 20 })
    expect(queue.consumerLags).toEqual({})
    await withConnection(nats.url, async (connection) => {
      const streams = jetstream(connection)
      const manager = await streams.jetstreamManager()
      const add = (name: string, settings = {}) =>
        manager.consumers.add('SLUICE_EVENTS', { durable_name: name, ack_policy: 'explicit', ...settings })
      for (let at = 0; at < 21; at++) await add(`w-${String(at).padStart(2, '0')}`)
      await manager.consumers.add('SLUICE_EVENTS', {
        name: 'a-passing',
        ack_policy: 'explicit',
        inactive_threshold: 60e9,
      })
      await eventually('all are seen', () => queue.stream?.consumers === 22)
      expect(Object.keys(queue.consumerLags)).toHaveLength(20)
      expect(Object.keys(queue.consumerLags).at(-1)).toBe('w-19')
      expect(Object.values(queue.consumerLags).every((lag) => lag === 0)).toBe(true)

      for (let at = 2; at < 21; at++)
        await manager.consumers.delete('SLUICE_EVENTS', `w-${String(at).padStart(2, '0')}`)
      await add('other', { filter_subject: 'sluice.events.other' })
      await publishTo(queue, makeRecord())
      await eventually('they are behind', () => (queue.consumerLags['w-00'] ?? 0) > 0.3)
      await streams.publish('sluice.events.other', 'second')
      const consumer = await streams.consumers.get('SLUICE_EVENTS', 'w-00')
      const had = [await consumer.next(), await consumer.next()]
      // Acknowledging its second message is not enough: the first one is still open.
      await had[1]?.ackAck()
      await eventually('it is further behind', () => (queue.consumerLags['w-00'] ?? 0) > 0.5)
      await had[0]?.ackAck()
      await eventually('it has had all', () => queue.consumerLags['w-00'] === 0)
      expect(queue.consumerLags['w-01']).toBeGreaterThan(0.5)
      expect(queue.consumerLags['w-01'] - queue.consumerLags['other']).toBeGreaterThan(0.25)
    })
    await queue.stop()
    expect(queue.consumerLags).toEqual({})
    await nats.stop()
  })

  it('that cannot be measured for a while is still up', async () => {
    const nats = await startNats()
    const { queue } = await openReadyQueue(nats.url, { measureIntervalMs: 20 })
    await eventually('it is measured', () => queue.stream?.messages === 0)
    await freeze(nats)
    await new Promise((resolve) => setTimeout(resolve, LONGER_THAN_A_LOOK_MS))
    expect([queue.isUp, queue.stream?.messages]).toEqual([true, 0])
    nats.resume()
    expect(await publishTo(queue, makeRecord())).toMatchObject({ ack: 'durable' })
    await eventually('it is measured again', () => queue.stream?.messages === 1)
    await queue.stop()
    await nats.stop()
  })

  it('may be created by many nodes at the same moment', async () => {
    const nats = await startNats()
    for (let round = 0; round < 10; round += 1) {
      const connections = await Promise.all(Array.from({ length: 40 }, () => connect({ servers: [nats.url] })))
      const reports = await Promise.all(
        connections.map((connection) => ensureStream(connection, NEW_STREAM, Date.now())),
      )
      expect(reports.map(({ kind }) => kind)).toEqual(reports.map(() => 'present'))
      await (await jetstreamManager(connections[0])).streams.delete('SLUICE_EVENTS')
      await Promise.all(connections.map((connection) => connection.close()))
    }
    await nats.stop()
  })

  it('answers in the form that is read without parsing', async () => {
    const nats = await startNats()
    await addStream(nats.url)
    await withConnection(nats.url, async (connection) => {
      for (const sequence of [1, 2, 3]) {
        expect(storedSequence((await connection.request('sluice.events.0', 'x')).data)).toBe(sequence)
      }
    })
    await nats.stop()
  })
})
