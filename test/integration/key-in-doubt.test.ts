// Batches that were sent to NATS and not acknowledged in time: what their retries cost, and what is stored of them.

import { jetstreamManager } from '@nats-io/jetstream'
import { connect, type NatsConnection } from '@nats-io/transport-node'
import type { Redis } from 'ioredis'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { DoubtSettler } from '../../src/audit/doubt-settler.ts'
import { partitionOf } from '../../src/contract/partition.ts'
import { MINUTE_MS } from '../../src/lib/spans.ts'
import type { SharedAdmission } from '../../src/limits/shared/shared-admission.ts'
import { doubtsKey, fenceKey, idempotencyKey } from '../../src/limits/shared/take.ts'
import type { QueueAck, QueueRecord } from '../../src/queue/queue.ts'
import type { StreamPublisher } from '../../src/queue/stream/publisher.ts'
import { countBatches, openReadyQueue, readStreamPlainly } from '../support/jetstream.ts'
import { makeRecord } from '../support/journal.ts'
import { connectTo, type LimitNode, limitNode, TestLink } from '../support/limits.ts'
import { type NatsServer, startNats } from '../support/nats.ts'
import { type Proxy, startProxy } from '../support/proxy.ts'
import { type RedisServer, startRedis } from '../support/redis.ts'
import { eventually } from '../support/service.ts'
import { usageOf } from '../support/usage.ts'
import { anApp } from '../unit/apps/apps.ts'

const NOON_MS = Date.UTC(2026, 10, 20, 12)
const NOON = NOON_MS / MINUTE_MS
const PARTITIONS = 16

let redis: RedisServer
let client: Redis
let nats: NatsServer
let proxy: Proxy
let connection: NatsConnection
let nowMs = NOON_MS
beforeAll(async () => {
  redis = await startRedis()
  client = connectTo(redis.url)
  nats = await startNats()
  proxy = await startProxy(nats.port)
  connection = await connect({ servers: nats.url })
})
beforeEach(async () => {
  nowMs = NOON_MS
  await client.flushall()
})
afterAll(async () => {
  client.disconnect()
  await connection.close()
})

interface Node extends LimitNode {
  readonly queue: StreamPublisher
  stop(): Promise<void>
}

const app = anApp({ eventsPerMinute: 100 })

async function startNode(nodeId: string, port: number, ackTimeoutMs: number): Promise<Node> {
  const node = limitNode(client, nodeId, () => nowMs)
  const { queue } = await openReadyQueue(`nats://127.0.0.1:${port}`, {
    ackTimeoutMs,
    onDoubt: (doubt) => node.admission.doubt(doubt),
  })
  const stop = async (): Promise<void> => {
    await queue.stop()
    await node.admission.stop()
  }
  return { ...node, queue, stop }
}

const ENDS: Readonly<Partial<Record<QueueAck, 'stored' | 'duplicate' | 'unknown'>>> = {
  durable: 'stored',
  duplicate: 'duplicate',
  in_doubt: 'unknown',
}

interface Sender {
  readonly queue: StreamPublisher
  readonly admission: Pick<SharedAdmission, 'admit' | 'end'>
}

/** As ingest does it. What the client is told: how it was settled, or why it was not sent. */
async function send({ admission, queue }: Sender, record: QueueRecord): Promise<string> {
  const { batchId, charge } = record
  const admitted = await admission.admit(app, charge.events, batchId, null)
  if (admitted.kind !== 'taken') return admitted.kind
  return new Promise((resolve) => {
    queue.publish({ ...record, charge: admitted.charge }, (ack, storedEvents = charge.events) => {
      admission.end(app, admitted.charge, batchId, ENDS[ack] ?? 'refused', storedEvents)
      resolve(ack)
    })
  })
}

const partition = partitionOf(app.appId, PARTITIONS)
const usedBy = async (node: Node): Promise<number> => (await usageOf(node.admission, app)).minute.used
const aBatch = (events: number): QueueRecord =>
  makeRecord({ keyed: true, events, appId: app.appId, receivedAtMs: NOON_MS })

describe('a batch in doubt', () => {
  it('that is stored is a replay for its retry on any node, even with too little left to take it again', async () => {
    const one = await startNode('one', proxy.port, 300)
    const two = await startNode('two', nats.port, 20_000)
    const batches = [aBatch(30), aBatch(31)]
    proxy.hold()
    expect(await Promise.all(batches.map((batch) => send(one, batch)))).toEqual(['in_doubt', 'in_doubt'])
    proxy.heal()
    await eventually('they are stored', async () => {
      const stored = countBatches(await readStreamPlainly(nats.url))
      return batches.every(({ batchId }) => stored.get(batchId) === 1)
    })
    // A node of version 0.3 knows no key in doubt, and has to find it free.
    await expect.poll(() => client.exists(idempotencyKey(partition, batches[0].batchId))).toBe(0)
    expect(await send(two, aBatch(39))).toBe('durable')
    expect([await send(two, batches[0]), await usedBy(two)]).toEqual(['duplicate', 100])
    // Its answers have to come within 300 ms.
    await eventually('its own node finds it', async () => ['duplicate', 'replay'].includes(await send(one, batches[1])))
    expect(await usedBy(one)).toBe(100)
    await expect.poll(() => send(two, batches[1])).toBe('replay')
    // A use of the key long after, for a batch as large, has to take its events.
    await expect.poll(() => client.hlen(doubtsKey(partition))).toBe(0)
    await one.stop()
    await two.stop()
  })

  it('is charged once, however often it is sent again, and stored once', async () => {
    const one = await startNode('one', proxy.port, 300)
    const two = await startNode('two', nats.port, 20_000)
    const batch = aBatch(60)
    // Nothing of it reaches NATS: the connection goes with what it holds.
    proxy.hold()
    expect(await send(one, batch)).toBe('in_doubt')
    for (let retry = 0; retry < 3; retry++) expect(await send(one, batch)).not.toBe('over limit')
    await expect.poll(() => usedBy(two)).toBe(60)
    proxy.cut()
    expect([await send(two, batch), await usedBy(two)]).toEqual(['durable', 60])
    proxy.heal()
    expect(countBatches(await readStreamPlainly(nats.url)).get(batch.batchId)).toBe(1)
    expect([await send(two, aBatch(41)), await send(two, aBatch(40))]).toEqual(['over limit', 'durable'])
    await one.stop()
    await two.stop()
  })
})

describe('before the audit closes a minute, a batch in doubt', () => {
  const doubts = (): Promise<number> => client.hlen(doubtsKey(partition))
  /** As the auditor does it: returns the last minute that may close. */
  const settle = (settler = new DoubtSettler(new TestLink(client)), minute = NOON): Promise<number> => {
    return settler.settle(partition, minute, connection)
  }
  /** The audit has closed noon, without the batch. */
  const closeNoon = async (): Promise<void> => {
    await client.set(fenceKey(partition), `1 ${NOON}`)
    nowMs = NOON_MS + MINUTE_MS
  }
  const messagesWith = async (text: string) => {
    return (await readStreamPlainly(nats.url)).filter((message) => message.text.includes(text))
  }

  it('that is stored is found, and its key replays', async () => {
    const one = await startNode('one', proxy.port, 300)
    const batch = aBatch(60)
    proxy.hold()
    expect(await send(one, batch)).toBe('in_doubt')
    proxy.heal()
    await eventually('it is stored', async () => (await messagesWith(batch.batchId)).length === 1)
    await expect.poll(doubts).toBe(1)
    expect([await settle(), await doubts()]).toEqual([NOON, 0])
    await closeNoon()
    expect(await send(one, aBatch(100))).toBe('durable')
    expect(await send(one, batch)).toBe('replay')
    await one.stop()
  })

  it('that still is on its way is never stored, and its retry is charged and stored under another id', async () => {
    const one = await startNode('one', proxy.port, 300)
    const two = await startNode('two', nats.port, 20_000)
    const [keyed, unkeyed] = [aBatch(60), makeRecord({ events: 7, appId: app.appId })]
    proxy.hold()
    const late = new Promise((resolve) =>
      one.queue.publish({ ...unkeyed, charge: { ...unkeyed.charge, minute: NOON } }, resolve),
    )
    expect([await send(one, keyed), await late]).toEqual(['in_doubt', 'in_doubt'])
    await expect.poll(doubts).toBe(2)
    expect([await settle(), await doubts()]).toEqual([NOON, 0])
    await closeNoon()
    expect(await usedBy(two)).toBe(0)
    proxy.heal()
    await eventually('what was on its way has arrived', () => one.queue.isUp)
    for (const { batchId } of [keyed, unkeyed]) expect(await messagesWith(batchId)).toEqual([])
    expect([await send(two, keyed), await usedBy(two)]).toEqual(['durable', 60])
    expect(await messagesWith(keyed.batchId)).toMatchObject([{ id: `${keyed.batchId}.2` }])
    // Where Redis has forgotten the key, the stream knows it.
    await client.flushall()
    const three = await startNode('three', nats.port, 20_000)
    expect([await send(three, keyed), await messagesWith(keyed.batchId)]).toMatchObject(['duplicate', [{}]])
    await Promise.all([one.stop(), two.stop(), three.stop()])
  })

  it('is not stored by a retry that was under way meanwhile, and the next one is charged', async () => {
    const one = await startNode('one', proxy.port, 300)
    const two = await startNode('two', nats.port, 20_000)
    const batch = aBatch(60)
    proxy.hold()
    expect(await send(one, batch)).toBe('in_doubt')
    await expect.poll(doubts).toBe(1)
    proxy.cut()
    const { queue, admission } = two
    const admit = async (...asked: Parameters<typeof admission.admit>) => {
      const admitted = await admission.admit(...asked)
      await settle()
      return admitted
    }
    const retry = send({ queue, admission: { admit, end: admission.end.bind(admission) } }, batch)
    expect(await retry).toBe('in_doubt')
    expect([await messagesWith(batch.batchId), await doubts()]).toEqual([[], 0])
    await closeNoon()
    expect([await send(two, batch), await usedBy(two)]).toEqual(['durable', 60])
    proxy.heal()
    await Promise.all([one.stop(), two.stop()])
  })

  it('holds the minute open where the message that it is a duplicate of cannot be read', async () => {
    const one = await startNode('one', nats.port, 20_000)
    const batch = aBatch(1)
    expect(await send(one, batch)).toBe('durable')
    const { streams } = await jetstreamManager(connection)
    const { state } = await streams.info('SLUICE_EVENTS')
    await streams.deleteMessage('SLUICE_EVENTS', state.last_seq)
    await client.hset(doubtsKey(partition), batch.batchId, `${NOON} 1 ${batch.batchId}`)
    expect([await settle(), await doubts()]).toEqual([NOON - 1, 1])
    await one.stop()
  })

  it('holds the minute open while NATS does not answer, and is counted where it never did', async () => {
    const settler = new DoubtSettler(new TestLink(client))
    await client.hset(
      doubtsKey(partition),
      'a',
      `${NOON - 1} 1 a`,
      'b',
      `${NOON} 1 b`,
      'c',
      `${NOON + 1} 1 c`,
      'd',
      'what',
    )
    const gone = await connect({ servers: nats.url })
    await gone.close()
    expect(await settler.settle(partition, NOON, gone)).toBe(NOON - 2)
    expect(Object.keys(await client.hgetall(doubtsKey(partition)))).toEqual(['a', 'b', 'c'])
    expect(await settler.settle(partition, NOON + 8, gone)).toBe(NOON - 1)
    expect([settler.unsettled, await doubts()]).toEqual([1, 2])
    expect(await settle(settler, NOON + 8)).toBe(NOON + 8)
    expect([settler.unsettled, await doubts()]).toEqual([1, 0])
  })
})
