// The audit of an auditor whose NATS server is cut off from the others: it shows no new messages, and stores nothing.

import type { Msg, NatsConnection } from '@nats-io/transport-node'
import type { Redis } from 'ioredis'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { Auditor, type AuditState } from '../../src/audit/auditor.ts'
import { partitionOf } from '../../src/contract/partition.ts'
import { MINUTE_MS } from '../../src/lib/spans.ts'
import { systemTimers } from '../../src/lib/timers.ts'
import { sendHeartbeat } from '../../src/limits/shared/nodes.ts'
import { countsKey, fenceKey } from '../../src/limits/shared/take.ts'
import { type OpenQueue, openReadyQueue, publishTo } from '../support/jetstream.ts'
import { makeRecord } from '../support/journal.ts'
import { connectTo, TestLink, timed } from '../support/limits.ts'
import { type NatsServer, startNats } from '../support/nats.ts'
import { NO_ALERTS } from '../support/no-alerts.ts'
import { type RedisServer, startRedis } from '../support/redis.ts'

const PATIENCE = { timeout: 90_000 }
const PARTITION = partitionOf('demo', 16)

let nats: NatsServer
let redis: RedisServer
let client: Redis
let opened: OpenQueue
beforeAll(async () => {
  ;[nats, redis] = await Promise.all([startNats(), startRedis()])
  opened = await openReadyQueue(nats.url)
  client = connectTo(redis.url)
})
afterAll(async () => {
  client.disconnect()
  await opened.queue.stop()
})

/** Answers like a server whose copy of the stream gets no more, and that finds no quorum to store anything. */
class CutOff {
  hidesMessages = false
  storesNothing = false
  readonly connection: NatsConnection
  readonly #receivers = new Map<string, (error: Error | null, message: Msg) => void>()

  constructor(real: NatsConnection) {
    this.connection = new Proxy(real, {
      get: (target, name) => {
        if (name === 'subscribe')
          return (...args: Parameters<NatsConnection['subscribe']>) => this.#subscribe(target, args)
        if (name === 'publish') return (...args: Parameters<NatsConnection['publish']>) => this.#publish(target, args)
        if (name === 'request') return (...args: Parameters<NatsConnection['request']>) => this.#request(target, args)
        const member: unknown = Reflect.get(target, name)
        return typeof member === 'function' ? member.bind(target) : member
      },
    })
  }

  #subscribe(real: NatsConnection, args: Parameters<NatsConnection['subscribe']>) {
    const [subject, options] = args
    if (options?.callback !== undefined) this.#receivers.set(subject.replace('*', ''), options.callback)
    return real.subscribe(...args)
  }

  #publish(real: NatsConnection, args: Parameters<NatsConnection['publish']>): void {
    const [subject, , options] = args
    if (!this.hidesMessages || !subject.startsWith('$JS.API.CONSUMER.MSG.NEXT')) return real.publish(...args)
    const reply = options?.reply ?? ''
    const receive = this.#receivers.get(reply.slice(0, reply.lastIndexOf('.') + 1))
    setImmediate(() => receive?.(null, { subject: reply, headers: { code: 404 } } as Msg))
  }

  #request(real: NatsConnection, args: Parameters<NatsConnection['request']>): Promise<Msg> {
    if (this.storesNothing && args[0].startsWith('$KV.')) return Promise.reject(new Error('timeout'))
    return real.request(...args)
  }
}

it('closes no minute that the stream’s leader has more of, and none in Redis that NATS has not stored', async () => {
  let aheadMs = 0
  const nowMs = (): number => Date.now() + aheadMs
  const link = new TestLink(timed(client, nowMs))
  await sendHeartbeat(link, 'one')
  const cut = new CutOff(opened.queue.connection as NatsConnection)
  const states: AuditState[] = []
  const notices: string[] = []
  const auditor = new Auditor({
    ...NO_ALERTS,
    nodeId: 'one',
    partitions: 16,
    replicas: 1,
    redis: link,
    connection: () => cut.connection,
    timers: { ...systemTimers, nowMs },
    onNotice: (message) => notices.push(message),
    onRound: (state) => states.push(state),
  })
  const rounds = async (count: number): Promise<void> => {
    const enough = states.length + count
    await expect.poll(() => states.length, PATIENCE).toBeGreaterThanOrEqual(enough)
  }
  const used = async (): Promise<number> => {
    const base = await client.hget(countsKey(PARTITION, 'demo'), 'base')
    return Number(base?.split(' ')[3] ?? 0)
  }
  const closed = async (): Promise<number> => Number((await client.get(fenceKey(PARTITION)))?.split(' ')[1] ?? 0)
  const store = async (): Promise<void> => {
    const minute = Math.floor(nowMs() / MINUTE_MS)
    const record = makeRecord({ appId: 'demo', events: 5 })
    const charge = { events: 5, takenAtMs: nowMs(), minute, cycleMinute: minute - 1440 }
    expect((await publishTo(opened.queue, { ...record, charge })).ack).toBe('durable')
  }
  try {
    await rounds(2)
    await store()
    aheadMs += 3 * MINUTE_MS
    await expect.poll(used, PATIENCE).toBe(5)

    cut.hidesMessages = true
    await store()
    const before = await closed()
    aheadMs += 3 * MINUTE_MS
    await rounds(6)
    expect([await used(), await closed()]).toEqual([5, before])
    expect(notices).toContainEqual(expect.stringContaining("a NATS server is behind the stream's leader"))
    cut.hidesMessages = false
    await expect.poll(used, PATIENCE).toBe(10)
    await expect.poll(closed, PATIENCE).toBeGreaterThan(before)

    cut.storesNothing = true
    const stored = await closed()
    await store()
    aheadMs += 3 * MINUTE_MS
    await rounds(3)
    expect([await used(), await closed()]).toEqual([10, stored])
    cut.storesNothing = false
    await expect.poll(used, PATIENCE).toBe(15)
  } finally {
    await auditor.stop()
  }
})
