// Batches that were sent to NATS and not acknowledged in time: what their retries cost, and what is stored of them.

import type { Redis } from 'ioredis'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { doubtsKey, idempotencyKey } from '../../src/limits/shared/take.ts'
import { partitionOf } from '../../src/queue/partition.ts'
import type { QueueRecord, Settlement } from '../../src/queue/queue.ts'
import type { StreamPublisher } from '../../src/queue/stream/publisher.ts'
import { countBatches, openReadyQueue, readStreamPlainly } from '../support/jetstream.ts'
import { makeRecord } from '../support/journal.ts'
import { connectTo, type LimitNode, limitNode } from '../support/limits.ts'
import { type NatsServer, startNats } from '../support/nats.ts'
import { type Proxy, startProxy } from '../support/proxy.ts'
import { type RedisServer, startRedis } from '../support/redis.ts'
import { eventually } from '../support/service.ts'
import { usageOf } from '../support/usage.ts'
import { anApp } from '../unit/apps/apps.ts'

const NOON_MS = Date.UTC(2026, 10, 20, 12)
const PARTITIONS = 16

let redis: RedisServer
let client: Redis
let nats: NatsServer
let proxy: Proxy
beforeAll(async () => {
  redis = await startRedis()
  client = connectTo(redis.url)
  nats = await startNats()
  proxy = await startProxy(nats.port)
})
beforeEach(() => client.flushall())
afterAll(async () => {
  client.disconnect()
  await proxy.stop()
  await nats.stop()
  await redis.stop()
})

interface Node extends LimitNode {
  readonly queue: StreamPublisher
  stop(): Promise<void>
}

const app = anApp({ eventsPerMinute: 100 })

async function startNode(nodeId: string, port: number, ackTimeoutMs: number): Promise<Node> {
  const node = limitNode(client, nodeId, () => NOON_MS)
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

const ENDS: Readonly<Partial<Record<Settlement, 'stored' | 'duplicate' | 'unknown'>>> = {
  durable: 'stored',
  duplicate: 'duplicate',
  in_doubt: 'unknown',
}

/** As ingest does it. What the client is told: how it was settled, or why it was not sent. */
async function send({ admission, queue }: Node, record: QueueRecord): Promise<string> {
  const { batchId, charge } = record
  const admitted = await admission.admit(app, charge.events, batchId)
  if (admitted.kind !== 'taken') return admitted.kind
  return new Promise((resolve) => {
    queue.publish({ ...record, charge: admitted.charge }, (settlement, storedEvents = charge.events) => {
      admission.end(app, admitted.charge, batchId, ENDS[settlement] ?? 'refused', storedEvents)
      resolve(settlement)
    })
  })
}

const usedBy = async (node: Node): Promise<number> => (await usageOf(node.admission, app)).minute.used
const aBatch = (events: number): QueueRecord => makeRecord({ keyed: true, events, appId: app.appId })

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
    const [partition, { batchId }] = [partitionOf(app.appId, PARTITIONS), batches[0]]
    await expect.poll(() => client.exists(idempotencyKey(partition, batchId))).toBe(0)
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
