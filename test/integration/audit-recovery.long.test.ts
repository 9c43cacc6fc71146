// The audit where what it has saved is lost, unreadable or impossible: what was charged stays charged, once.

import { brotliCompressSync, brotliDecompressSync } from 'node:zlib'
import { jetstream, jetstreamManager } from '@nats-io/jetstream'
import { Kvm } from '@nats-io/kv'
import type { NatsConnection } from '@nats-io/transport-node'
import type { Redis } from 'ioredis'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { Auditor } from '../../src/audit/auditor.ts'
import type { SavedTotals } from '../../src/audit/totals.ts'
import { partitionOf } from '../../src/contract/partition.ts'
import { MINUTE_MS } from '../../src/lib/spans.ts'
import { systemTimers } from '../../src/lib/timers.ts'
import { sendHeartbeat } from '../../src/limits/shared/nodes.ts'
import { countsKey, fenceKey } from '../../src/limits/shared/take.ts'
import { type OpenQueue, openReadyQueue, publishTo } from '../support/jetstream.ts'
import { makeRecord } from '../support/journal.ts'
import { connectTo, TestLink } from '../support/limits.ts'
import { type NatsServer, startNats } from '../support/nats.ts'
import { NO_ALERTS } from '../support/no-alerts.ts'
import { type RedisServer, startRedis } from '../support/redis.ts'
import { STREAM } from '../support/stream.ts'

const PATIENCE = { timeout: 90_000 }
const PARTITION = partitionOf('demo', 16)
const ENTRY = `p${PARTITION}`
/** The first minute of the billing cycle: a midnight some days ago. */
const CYCLE_MINUTE = (Math.floor(Date.now() / MINUTE_MS / 1440) - 5) * 1440

let redis: RedisServer
let client: Redis
let nats: NatsServer
let opened: OpenQueue
let connection: NatsConnection
beforeAll(async () => {
  redis = await startRedis()
  client = connectTo(redis.url)
})
beforeEach(async () => {
  await client.flushall()
  nats = await startNats()
  opened = await openReadyQueue(nats.url)
  connection = opened.queue.connection as NatsConnection
})
afterEach(async () => {
  await opened.queue.stop()
  await nats.stop()
})
afterAll(() => client.disconnect())

/** Runs an auditor until `isDone`, or else fails; returns what it said. */
async function audit(isDone: () => Promise<unknown>, expected: unknown): Promise<string[]> {
  const notices: string[] = []
  const link = new TestLink(client)
  await sendHeartbeat(link, 'one')
  const auditor = new Auditor({
    ...NO_ALERTS,
    nodeId: 'one',
    partitions: 16,
    replicas: 1,
    redis: link,
    connection: () => connection,
    timers: systemTimers,
    onNotice: (message) => notices.push(message),
  })
  try {
    await expect.poll(isDone, PATIENCE).toEqual(expected)
  } finally {
    await auditor.stop()
  }
  return notices
}

/** A batch of some minutes ago, whose charge only the audit can bring into Redis. */
async function store(events: number, minutesAgo: number): Promise<void> {
  const minute = Math.floor(Date.now() / MINUTE_MS) - minutesAgo
  const charge = { events, takenAtMs: minute * MINUTE_MS, minute, cycleMinute: CYCLE_MINUTE }
  const record = { ...makeRecord({ appId: 'demo', events }), charge }
  expect((await publishTo(opened.queue, record)).ack).toBe('durable')
}

async function used(): Promise<number> {
  return Number((await client.hget(countsKey(PARTITION, 'demo'), 'base'))?.split(' ')[3] ?? 0)
}

const fenceMinute = async (): Promise<number> => Number((await client.get(fenceKey(PARTITION)))?.split(' ')[1])
const bucket = async () => await new Kvm(jetstream(connection)).open('SLUICE_COUNTS')

async function savedTotals(): Promise<SavedTotals | null> {
  const entry = await (await bucket()).get(ENTRY)
  return entry === null ? null : (JSON.parse(brotliDecompressSync(entry.value).toString()) as SavedTotals)
}

const savedSum = async (): Promise<number | undefined> => (await savedTotals())?.apps['demo']?.[2][0][1]

async function dropOldest(messages: number): Promise<void> {
  const { streams } = await jetstreamManager(connection)
  await streams.purge(STREAM, { seq: messages + 1 })
}

async function deleteBucket(): Promise<void> {
  const { streams } = await jetstreamManager(connection)
  await streams.delete('KV_SLUICE_COUNTS')
}

describe('without its saved sums, once the stream has dropped its first messages', () => {
  beforeEach(async () => {
    await store(100, 8)
    await store(100, 7)
    await store(100, 6)
    await audit(used, 300)
    await dropOldest(2)
    await store(50, 5)
  })

  const lost = expect.stringContaining(`the sums of partitions ${PARTITION} in SLUICE_COUNTS were lost`)

  it('goes on from the sums in Redis, counts what came since, and saves them', async () => {
    await deleteBucket()
    expect(await audit(savedSum, 350)).toEqual([lost])
    expect(await used()).toBe(350)
    // The next auditor goes on from what was saved.
    await store(7, 5)
    expect(await audit(used, 357)).toEqual([])
  })

  it('does the same where the entry cannot be read', async () => {
    await (await bucket()).put(ENTRY, brotliCompressSync('{"v":2}'))
    expect(await audit(savedSum, 350)).toEqual([lost])
    expect(await used()).toBe(350)
  })

  it('takes the stream’s sum where Redis has less', async () => {
    await deleteBucket()
    const base = (await client.hget(countsKey(PARTITION, 'demo'), 'base')) as string
    await client.hset(countsKey(PARTITION, 'demo'), {
      base: base.replace(/ 300 /, ' 20 ').replace(/ 300$/, ' 20'),
      days: '',
    })
    expect(await audit(savedSum, 150)).toEqual([lost])
    expect(await used()).toBe(150)
  })

  it('waits for a Redis that is away', async () => {
    await deleteBucket()
    const notices: string[] = []
    const link = new TestLink(client)
    await sendHeartbeat(link, 'one')
    const rounds: number[] = []
    const auditor = new Auditor({
      ...NO_ALERTS,
      nodeId: 'one',
      partitions: 16,
      replicas: 1,
      redis: link,
      // From the first round on, in which Redis said its time and its nodes.
      connection: () => {
        if (rounds.length === 1) link.set(false)
        return rounds.length === 0 ? null : connection
      },
      timers: systemTimers,
      onNotice: (message) => notices.push(message),
      onRound: () => rounds.push(rounds.length),
    })
    try {
      await expect.poll(() => notices, PATIENCE).toContainEqual(expect.stringContaining('which may have them, is away'))
      expect(await savedSum()).toBe(undefined)
      link.set(true)
      await expect.poll(savedSum, PATIENCE).toBe(350)
    } finally {
      await auditor.stop()
    }
  })
})

describe('where minutes of the future were closed', () => {
  it('opens them again in SLUICE_COUNTS and in Redis, says it once, and keeps every event', async () => {
    await store(100, 6)
    expect(await audit(used, 100)).toEqual([])
    const saved = (await savedTotals()) as SavedTotals
    const minute = saved.minute + 118
    // What 0.3 left behind, in the bucket and in Redis.
    const { open: _, ...poisoned } = { ...saved, minute }
    await (await bucket()).put(ENTRY, brotliCompressSync(JSON.stringify(poisoned)))
    const fields = (await client.hget(countsKey(PARTITION, 'demo'), 'base')) as string
    await client.hset(countsKey(PARTITION, 'demo'), 'base', fields.replace(/^(\d+) \d+/, `$1 ${minute}`))
    await client.set(fenceKey(PARTITION), `${saved.timeUs} ${minute}`)
    await store(7, 5)
    const notices = await audit(used, 107)
    expect(notices).toEqual([expect.stringContaining(`in partitions ${PARTITION}: a clock was wrong`)])
    expect(await fenceMinute()).toBeLessThan(minute - 110)
    expect((await savedTotals())?.minute).toBeLessThan(minute - 110)
    await store(3, 5)
    expect(await audit(used, 110)).toEqual([])
  })
})
