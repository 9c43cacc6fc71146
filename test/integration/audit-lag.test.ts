// The audit's lag and log while NATS is away, and after its bucket was deleted.

import { jetstreamManager } from '@nats-io/jetstream'
import type { NatsConnection } from '@nats-io/transport-node'
import type { Redis } from 'ioredis'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { Auditor, type AuditState } from '../../src/audit/auditor.ts'
import { systemTimers } from '../../src/lib/timers.ts'
import { sendHeartbeat } from '../../src/limits/shared/nodes.ts'
import type { StreamPublisher } from '../../src/queue/stream/publisher.ts'
import { openReadyQueue, publishTo } from '../support/jetstream.ts'
import { makeRecord } from '../support/journal.ts'
import { connectTo, TestLink, timed } from '../support/limits.ts'
import { type NatsServer, startNats } from '../support/nats.ts'
import { NO_ALERTS } from '../support/no-alerts.ts'
import { type RedisServer, startRedis } from '../support/redis.ts'

const PATIENCE = { timeout: 90_000 }
const MINUTE_MS = 60_000

let nats: NatsServer
let redis: RedisServer
let client: Redis
let queue: StreamPublisher
beforeAll(async () => {
  ;[nats, redis] = await Promise.all([startNats(), startRedis()])
  queue = (await openReadyQueue(nats.url)).queue
  client = connectTo(redis.url)
})
afterAll(async () => {
  client.disconnect()
  await queue.stop()
})

it('reports its lag while NATS is away, and creates its bucket again after it was deleted', async () => {
  let aheadMs = 0
  const nowMs = (): number => Date.now() + aheadMs
  const link = new TestLink(timed(client, nowMs))
  await sendHeartbeat(link, 'one')
  await publishTo(queue, makeRecord({ receivedAtMs: Date.now() - 10 * MINUTE_MS }))
  let connection: NatsConnection | null = queue.connection
  const rounds: AuditState[] = []
  const notices: string[] = []
  const auditor = new Auditor({
    ...NO_ALERTS,
    nodeId: 'one',
    partitions: 16,
    replicas: 1,
    redis: link,
    connection: () => connection,
    timers: { ...systemTimers, nowMs },
    onNotice: (message) => notices.push(message),
    onRound: (state) => rounds.push(state),
  })
  const untilMs = (): number => rounds.at(-1)?.auditedUntilMs ?? 0
  const moreRounds = async (): Promise<void> => {
    const count = rounds.length
    await expect.poll(() => rounds.length, PATIENCE).toBeGreaterThan(count)
  }
  await expect.poll(untilMs, PATIENCE).toBeGreaterThan(nowMs() - 80_000)

  connection = null
  await moreRounds()
  const beforeMs = untilMs()
  expect(beforeMs).toBeGreaterThan(nowMs() - 80_000)
  expect(beforeMs % MINUTE_MS).toBe(0)
  expect(beforeMs).toBeLessThan(nowMs() - 5000)
  aheadMs += 10 * MINUTE_MS
  await moreRounds()
  expect(untilMs()).toBe(beforeMs)
  connection = queue.connection
  await expect.poll(untilMs, PATIENCE).toBeGreaterThan(beforeMs + 8 * MINUTE_MS)
  expect(notices).toEqual([])

  // The next minute that closes finds no bucket to write to.
  const manager = await jetstreamManager(queue.connection!)
  await manager.streams.delete('KV_SLUICE_COUNTS')
  await publishTo(queue, makeRecord({ receivedAtMs: Date.now() - 10 * MINUTE_MS }))
  aheadMs += 2 * MINUTE_MS
  await expect.poll(() => notices, PATIENCE).toContain('the audit of the limits works again')
  expect(notices[0]).toMatch(/^the audit of the limits failed and is retried: partition \d+: /)
  const { state } = await manager.streams.info('KV_SLUICE_COUNTS')
  expect(state.messages).toBeGreaterThan(0)
  await auditor.stop()
})
