// The audit with a real Redis and a real NATS: whatever happens to nodes and to Redis, the counters become equal to what
// the stream has stored. A minute is audited some seconds after its end, so all cases wait for it in parallel.

import { headers as newHeaders } from '@nats-io/transport-node'
import type { Redis } from 'ioredis'
import { describe, expect, it } from 'vitest'
import type { App } from '../../src/apps/app.ts'
import { Auditor, type AuditState } from '../../src/audit/auditor.ts'
import { partitionOf } from '../../src/contract/partition.ts'
import { MINUTE_MS } from '../../src/lib/spans.ts'
import { systemTimers } from '../../src/lib/timers.ts'
import type { End } from '../../src/limits/admission.ts'
import { cycleMinutesAt } from '../../src/limits/cycle-minutes.ts'
import { subjectOf } from '../../src/queue/stream/stream.ts'
import { type OpenQueue, openReadyQueue, publishTo } from '../support/jetstream.ts'
import { makeRecord } from '../support/journal.ts'
import { connectTo, type LimitNode, limitNode } from '../support/limits.ts'
import { type NatsServer, startNats } from '../support/nats.ts'
import { NO_ALERTS } from '../support/no-alerts.ts'
import { type RedisServer, startRedis } from '../support/redis.ts'
import { eventually } from '../support/service.ts'
import { STREAM, withStreams } from '../support/stream.ts'
import { usageOf } from '../support/usage.ts'
import { anApp } from '../unit/apps/apps.ts'

/** The contract's time limit. */
const EXACT_WITHIN_MS = 120_000
const BASE_WITHIN_MS = 20_000
const TEST_TIMEOUT_MS = 200_000

interface Sending {
  readonly node?: LimitNode
  readonly isStored?: boolean
  readonly end?: End
}

/** One node with its own Redis and NATS, and the audit of its stream. */
class Ground {
  readonly notices: string[] = []
  state: AuditState | null = null
  /** Events in the stream, by app. */
  readonly stored = new Map<App, number>()
  readonly redis: RedisServer
  readonly client: Redis
  readonly opened: OpenQueue
  readonly node: LimitNode
  readonly #nats: NatsServer
  readonly #auditor: Auditor

  static async open(): Promise<Ground> {
    const debugged = ['--appendonly', 'no', '--enable-debug-command', 'yes']
    const [redis, nats] = await Promise.all([startRedis(debugged), startNats()])
    return new Ground(redis, nats, await openReadyQueue(nats.url))
  }

  constructor(redis: RedisServer, nats: NatsServer, opened: OpenQueue) {
    this.redis = redis
    this.#nats = nats
    this.opened = opened
    this.client = connectTo(redis.url)
    this.node = limitNode(this.client, 'auditing', Date.now)
    this.#auditor = new Auditor({
      ...NO_ALERTS,
      nodeId: 'auditing',
      partitions: 16,
      replicas: 1,
      redis: this.node.link,
      connection: () => this.opened.queue.connection,
      timers: systemTimers,
      onNotice: (notice) => void this.notices.push(notice),
      onRound: (state) => void (this.state = state),
    })
  }

  async stop(): Promise<void> {
    await this.#auditor.stop()
    await this.node.admission.stop()
    await this.opened.queue.stop()
    this.client.disconnect()
    await Promise.all([this.redis.stop(), this.#nats.stop()])
  }

  /** Like a request. */
  async send(
    app: App,
    events: number,
    { node = this.node, isStored = true, end = 'stored' }: Sending = {},
  ): Promise<void> {
    const admitted = await node.admission.admit(app, events, null, null)
    if (admitted.kind !== 'taken') throw new Error(`not admitted: ${admitted.kind}`)
    if (isStored) await this.#store(app, { ...makeRecord({ appId: app.appId, events }), charge: admitted.charge })
    node.admission.end(app, admitted.charge, null, end, events)
  }

  /** Stores a batch of some minutes ago that Redis has not counted. */
  async storeOld(app: App, events: number, minutesAgo: number): Promise<void> {
    const minute = Math.floor(Date.now() / MINUTE_MS) - minutesAgo
    const charge = { events, takenAtMs: minute * MINUTE_MS, minute, cycleMinute: cycleMinutesAt(app, minute).first }
    await this.#store(app, { ...makeRecord({ appId: app.appId, events }), charge })
  }

  /** Returns once records are accepted again. */
  async deleteStream(): Promise<void> {
    await withStreams(this.#nats.url, (streams) => streams.streams.delete(STREAM))
    await eventually('records are taken again', async () => {
      const record = makeRecord({ appId: 'trying', events: 1 })
      return (await publishTo(this.opened.queue, record)).ack === 'durable'
    })
  }

  async #store(app: App, record: ReturnType<typeof makeRecord>): Promise<void> {
    const { ack } = await publishTo(this.opened.queue, record)
    if (ack !== 'durable') throw new Error(`not stored: ${ack}`)
    this.stored.set(app, (this.stored.get(app) ?? 0) + record.charge.events)
  }

  async used(app: App): Promise<number> {
    return (await usageOf(this.node.admission, app)).month.used
  }

  async isExact(): Promise<boolean> {
    const used = await Promise.all([...this.stored.keys()].map((app) => this.used(app)))
    return used.every((each, at) => each === [...this.stored.values()][at])
  }
}

/** Its anchor keeps a cycle from ending during a test, as a calendar month could. */
function aBusyApp(appId: string): App {
  const billingAnchorMs = Date.now() - 10 * 86_400_000
  return anApp({ appId, billingAnchorMs, eventsPerMinute: 100_000, eventsPerMonth: 1_000_000 })
}

/** A node dies with events in its bucket; batches in doubt are stored or not. */
async function crash(ground: Ground): Promise<void> {
  const dying = limitNode(ground.client, 'dying', Date.now)
  const app = aBusyApp('crashed')
  await eventually('its bucket holds something', async () => {
    for (let count = 0; count < 60; count++) await ground.send(app, 7, { node: dying })
    return (await ground.used(app)) > (ground.stored.get(app) ?? 0)
  })
  dying.link.set(false)
  await dying.admission.stop()
  const doubtful = aBusyApp('doubtful')
  await ground.send(doubtful, 3, { end: 'unknown' })
  await ground.send(doubtful, 4, { isStored: false, end: 'unknown' })
  expect(await ground.used(doubtful)).toBe(7)
  expect(await ground.used(app)).toBeGreaterThan(ground.stored.get(app) ?? 0)
}

async function emptied(ground: Ground): Promise<void> {
  const app = aBusyApp('emptied')
  await ground.storeOld(app, 100, 5)
  // It sends nothing else that would make Redis write its counters.
  await ground.storeOld(aBusyApp('quiet'), 40, 5)
  await eventually('what was stored is counted', () => ground.isExact(), BASE_WITHIN_MS)
  await ground.send(app, 30)
  await ground.client.flushall()
  // A heartbeat may have counted the open minute again by now.
  expect(await ground.used(app)).toBeLessThan(130)
  await ground.send(app, 20)
}

async function rolledBack(ground: Ground): Promise<void> {
  const app = aBusyApp('rolled-back')
  await ground.storeOld(app, 100, 6)
  await eventually('what was stored is counted', () => ground.isExact(), BASE_WITHIN_MS)
  await ground.client.save()
  await ground.storeOld(app, 50, 5)
  await ground.storeOld(aBusyApp('quiet'), 40, 5)
  await eventually('what was stored after it is counted', () => ground.isExact(), BASE_WITHIN_MS)
  await ground.send(app, 30)
  await ground.client.call('DEBUG', 'RELOAD', 'NOSAVE')
  expect(await ground.used(app)).toBeLessThan(180)
  await ground.send(app, 20)
}

/** Events lost with the stream stay charged. */
async function streamDeleted(ground: Ground): Promise<void> {
  const app = aBusyApp('stream-deleted')
  await ground.storeOld(app, 100, 5)
  await eventually('what was stored is counted', () => ground.isExact(), BASE_WITHIN_MS)
  await ground.deleteStream()
  await ground.send(app, 20)
}

/** Someone else writes to the stream. */
async function meddledWith(ground: Ground): Promise<void> {
  const app = aBusyApp('meddled-with')
  await ground.send(app, 30)
  const { connection } = ground.opened.queue
  const subject = subjectOf(partitionOf(app.appId, 16))
  const wrong = newHeaders()
  wrong.set('Sluice-Cost', 'whatever 1 2')
  connection?.publish(subject, '{}\n')
  connection?.publish(subject, '{}\n', { headers: wrong })
  await connection?.flush()
  await ground.send(app, 20)
}

describe('the audit', () => {
  it(
    'corrects the counters after a crash, doubt, an emptied or rolled back Redis, a new stream and foreign messages',
    async () => {
      const grounds = await Promise.all(Array.from({ length: 5 }, () => Ground.open()))
      try {
        const [one, two, three, four, five] = grounds
        await Promise.all([crash(one), emptied(two), rolledBack(three), meddledWith(four), streamDeleted(five)])
        const sentAtMs = Date.now()
        for (const [at, ground] of grounds.entries()) {
          const isAudited = (): boolean => (ground.state?.auditedUntilMs ?? 0) > sentAtMs
          await eventually(`the minute of ground ${at} is audited`, isAudited, EXACT_WITHIN_MS)
          await eventually(`ground ${at} is exact`, () => ground.isExact(), BASE_WITHIN_MS)
        }
        expect(four.state?.badMessages).toBe(2)
        expect(four.notices.filter((notice) => notice.includes('no valid Sluice-Cost'))).toHaveLength(1)
        for (const { notices, node } of [one, two, three]) expect([notices, node.faults]).toEqual([[], []])
      } finally {
        await Promise.all(grounds.map((ground) => ground.stop()))
      }
    },
    TEST_TIMEOUT_MS,
  )
})
