// Two nodes over one Redis and one NATS are one service: keys, apps and messages are the same wherever a request lands.

import { randomUUID } from 'node:crypto'
import { beforeAll, describe, expect, test } from 'vitest'
import { batch, bodyOfSize, expectAccepted, expectRefused, MARK, post, single, uuidVersion } from '../support/client.ts'
import {
  AUDITED_MS,
  type Cluster,
  expectCovered,
  expectExact,
  metric,
  partsOf,
  startCluster,
  whileRedisAnswers,
} from '../support/cluster.ts'
import { untilRead } from '../support/hostile.ts'
import { metricsOf } from '../support/processes.js'
import { startProxy } from '../support/proxy.ts'
import { appRecord, eventually, runCommand, type Service } from '../support/service.ts'
import { readStream, STREAM, type StoredMessage, withStreams } from '../support/stream.ts'

const TWINS = 40
const GATHERED = 120
/** Less than an unknown key is remembered for, and far less than a known record. */
const CHANGE_MS = 3000
const PARTITIONS = 16
const SMALL_RING_MB = 4

let cluster: Cluster
let first: Service
let second: Service

beforeAll(async () => {
  const apps = ['twins', 'keyed', 'waits', 'gathered', 'other'].map((id) =>
    appRecord(id, { bytes_per_minute: 1_000_000_000 }),
  )
  cluster = await startCluster({ nodes: 2, apps })
  ;[first, second] = cluster.nodes as [Service, Service]
})

const keyHeader = (): { 'Idempotency-Key': string } => ({ 'Idempotency-Key': randomUUID() })

async function messagesOf(appId: string): Promise<StoredMessage[]> {
  const messages = await readStream(cluster.nats.url)
  return messages.filter(({ records }) => records.some(({ app_id }) => app_id === appId))
}

function apps(...args: string[]): Promise<{ code: number | null; stdout: string }> {
  return runCommand(['apps', ...args], cluster.commandEnv)
}

describe('a key', () => {
  test('is accepted once, whichever node gets it again', async () => {
    const key = keyHeader()
    const batchId = expectAccepted(await post(first, batch('ak_keyed', 3), key), 3)
    expect(uuidVersion(batchId)).toBe(5)
    expect(expectAccepted(await post(second, batch('ak_keyed', 3), key), 3, true)).toBe(batchId)
    expect(expectAccepted(await post(first, batch('ak_keyed', 3), key), 3, true)).toBe(batchId)
    expect((await messagesOf('keyed')).length).toBe(1)
  })

  test('sent to both nodes at one moment is queued by one and replayed by the other', async () => {
    const rounds = Array.from({ length: TWINS }, async () => {
      const key = keyHeader()
      const answers = await Promise.all([first, second].map((node) => post(node, batch('ak_twins', 2), key)))
      const replays = answers.filter(({ json }) => json['deduplicated'] === true)
      expect(replays.length).toBe(1)
      const ids = answers.map((answer) => expectAccepted(answer, 2, answer.json['deduplicated'] === true))
      expect(ids[0]).toBe(ids[1])
      return ids[0]
    })
    const ids = await Promise.all(rounds)
    const stored = (await messagesOf('twins')).map(({ id }) => id)
    expect(stored.toSorted()).toEqual(ids.toSorted())
    await expectCovered(cluster, 'ak_twins', 2 * TWINS)
  })

  test('whose first request fails is handled for its twin on the other node', () =>
    whileRedisAnswers(cluster, async (attempt) => {
      const appId = `doubt-${attempt}`
      const appKey = `ak_${appId}`
      await cluster.addApps([appRecord(appId)])
      const natsProxy = await startProxy(cluster.nats.port)
      const cutOff = await cluster.addNode({ NATS_URL: `nats://127.0.0.1:${natsProxy.port}` })
      try {
        expectAccepted(await post(cutOff, single(appKey)), 1)
        natsProxy.hold()
        const key = keyHeader()
        const failing = post(cutOff, batch(appKey, 2), key)
        await untilRead(cutOff)
        const twin = await post(second, batch(appKey, 2), key)
        expectRefused(await failing, 503, 'service_overloaded')
        expectAccepted(twin, 2)
        // What was held arrives after all, and is not stored beside its twin.
        natsProxy.heal()
        expectAccepted(await post(cutOff, batch(appKey, 2), key), 2, true)
        await eventually('the node cut off is back', async () => (await metric(cutOff, 'sluice_nats_up')) === 1)
        expectAccepted(await post(cutOff, single(appKey)), 1)
        expect((await messagesOf(appId)).length).toBe(3)
        // The first try was in doubt, and stays counted until the audit knows.
        await expectCovered(cluster, appKey, 4)
      } finally {
        expect((await cutOff.stop()).code).toBe(0)
        await natsProxy.stop()
      }
    }))
})

describe('a request that waits for its twin', () => {
  test('holds up nobody, though the ring could not hold what goes by meanwhile', async () => {
    const natsProxy = await startProxy(cluster.nats.port)
    const cutOff = await cluster.addNode({ NATS_URL: `nats://127.0.0.1:${natsProxy.port}` })
    const small = await cluster.addNode({ SLUICE_RING_MB: String(SMALL_RING_MB) })
    try {
      expectAccepted(await post(cutOff, single('ak_waits')), 1)
      natsProxy.hold()
      const key = keyHeader()
      const failing = post(cutOff, batch('ak_waits', 2), key)
      await untilRead(cutOff)
      const twin = post(small, batch('ak_waits', 2), key)
      const body = bodyOfSize('ak_waits', 400_000)
      for (let sentMb = 0; sentMb < 10 * SMALL_RING_MB; sentMb += 0.4) expectAccepted(await post(small, body), 1)
      expectAccepted(await twin, 2)
      expectRefused(await failing, 503, 'service_overloaded')
    } finally {
      await natsProxy.stop()
      await Promise.all([cutOff.kill(), small.kill()])
    }
  })
})

describe('a message', () => {
  test('holds a keyed record alone, under its batch id, in the partition of its app', async () => {
    const key = keyHeader()
    const batchId = expectAccepted(await post(first, batch('ak_other', 2, { sdk_version: '2.1.0' }), key), 2)
    const messages = await messagesOf('other')
    expect(messages.map(({ id, records }) => [id, records.length])).toEqual([[batchId, 1]])
    const { records, subject } = messages[0]
    expect(records[0]).toMatchObject({ v: 1, batch_id: batchId, app_id: 'other', sdk_version: '2.1.0' })
    expect(records[0]?.events.length).toBe(2)
    const partition = Number(/^sluice\.events\.(\d+)$/.exec(subject)?.[1])
    expect(partition).toBeLessThan(PARTITIONS)
    expectAccepted(await post(second, single('ak_other'), keyHeader()), 1)
    expect(new Set((await messagesOf('other')).map((message) => message.subject))).toEqual(new Set([subject]))
  })

  test('gathers records without a key while earlier ones are on their way, up to 64 KB', async () => {
    // Acknowledgements that take their time: what comes meanwhile piles up.
    cluster.natsProxy.delay(100)
    const answers = await Promise.all(
      Array.from({ length: GATHERED }, (_, at) => post(at % 2 ? first : second, batch('ak_gathered', 5))),
    )
    cluster.natsProxy.heal()
    const ids = answers.map((answer) => expectAccepted(answer, 5))
    const messages = await messagesOf('gathered')
    const records = messages.flatMap((message) => message.records)
    expect(records.map(({ batch_id }) => batch_id).toSorted()).toEqual(ids.toSorted())
    expect(messages.length).toBeLessThan(GATHERED / 2)
    for (const { id, bytes } of messages) {
      expect(bytes).toBeLessThanOrEqual(65_536)
      expect(ids).not.toContain(id)
    }
    expect(new Set(messages.map(({ id }) => id)).size).toBe(messages.length)
    expect(await metric(first, 'sluice_publish_records_count')).toBeGreaterThan(0)
  })

  test('lies in a stream on disk that refuses when it is full and knows repeats for 300 s', async () => {
    const { config } = await withStreams(cluster.nats.url, (streams) => streams.streams.info(STREAM))
    expect(config).toMatchObject({
      subjects: ['sluice.events.*'],
      storage: 'file',
      discard: 'new',
      duplicate_window: 600 * 1e9,
    })
  })
})

describe('an app that `sluice apps` changes', () => {
  test('is known, paused, renamed and gone on each node long before what they remember runs out', async () => {
    const both = async (appKey: string, status: number): Promise<void> => {
      for (const node of [first, second]) {
        await eventually(`${status}`, async () => (await post(node, single(appKey))).status === status, CHANGE_MS)
      }
    }
    // Asked for while it is unknown, so that both nodes remember that.
    await both('ak_changing', 401)
    expect((await apps('add', '--app-id', 'changing', '--app-key', 'ak_changing', '--plan', '1m')).code).toBe(0)
    await both('ak_changing', 202)
    expect((await apps('set', 'changing', '--subscription', 'paused')).code).toBe(0)
    await both('ak_changing', 402)
    expect((await apps('set', 'changing', '--subscription', 'active')).code).toBe(0)
    await both('ak_changing', 202)
    const overlapping = (await apps('rotate', 'changing')).stdout.trim()
    await both(overlapping, 202)
    await both('ak_changing', 202)
    const newKey = (await apps('rotate', 'changing', '--overlap', '0')).stdout.trim()
    await both('ak_changing', 401)
    await both(overlapping, 401)
    await both(newKey, 202)
    expect((await apps('remove', 'changing', '--yes')).code).toBe(0)
    await both(newKey, 401)
    expectRefused(await post(first, single(newKey, { name: MARK })), 401, 'invalid_app_key')
  })
})

describe('the admin port', () => {
  test('shows Redis and NATS up, nothing degraded, and each part by its name', async () => {
    for (const node of [first, second]) {
      await eventually('Redis is up', async () => (await metric(node, 'sluice_redis_up')) === 1)
      expect(await metric(node, 'sluice_nats_up')).toBe(1)
      expect(await metric(node, 'sluice_limit_calls_total{result="answered"}')).toBeGreaterThan(0)
      const degraded = [...(await metricsOf(node))].filter(([series]) => series.startsWith('sluice_degraded'))
      expect(degraded.length).toBeGreaterThan(1)
      for (const [series, value] of degraded) expect(value, series).toBe(0)
      await expect
        .poll(() => partsOf(node))
        .toEqual({
          queue: 'ok, NATS JetStream',
          limits: 'ok, in Redis',
          apps: 'ok, in NATS',
          durability: expect.stringMatching(/^a 202 survives/),
          audit: expect.stringMatching(/^ok, audit of the limits: /),
        })
    }
    const partitionsOf = async (node: Service): Promise<number[]> => {
      return (await partsOf(node))['audit'].match(/\d+/g)?.map(Number) ?? []
    }
    await eventually('each partition has one auditor, which names it', async () => {
      const all = await Promise.all([first, second].map(partitionsOf))
      const audited = all.flat().toSorted((one, other) => one - other)
      return audited.join() === Array.from({ length: 16 }, (_, at) => at).join()
    })
  })
})

describe('the counters', () => {
  test('are in the end what the stream holds', () => expectExact(cluster), AUDITED_MS + 10_000)
})
