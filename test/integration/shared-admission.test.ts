// One node's requests and their calls to Redis.

import { type Redis, ReplyError } from 'ioredis'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { App } from '../../src/apps/app.ts'
import type { Charge } from '../../src/contract/charge.ts'
import { partitionOf } from '../../src/contract/partition.ts'
import { usageByDay, usageReport } from '../../src/inspect/usage-report.ts'
import { DAY_MS, MINUTE_MS } from '../../src/lib/spans.ts'
import { systemTimers } from '../../src/lib/timers.ts'
import type { Admitted } from '../../src/limits/admission.ts'
import { cycleMinutesAt } from '../../src/limits/cycle-minutes.ts'
import type { Usage } from '../../src/limits/limiter.ts'
import { NODES_KEY, sendHeartbeat } from '../../src/limits/shared/nodes.ts'
import { countsKey, idempotencyKey } from '../../src/limits/shared/take.ts'
import { readDays, readUsages } from '../../src/limits/shared/usage.ts'
import type { RedisLink } from '../../src/redis/link.ts'
import { connectTo, type LimitNode, limitNode, TestLink, timed } from '../support/limits.ts'
import { type RedisServer, startRedis } from '../support/redis.ts'
import { sleep } from '../support/service.ts'
import { usageOf } from '../support/usage.ts'
import { anApp } from '../unit/apps/apps.ts'

const MONTH_MS = Date.UTC(2026, 11, 1)
const NOON_MS = Date.UTC(2026, 10, 20, 12)

let server: RedisServer
let client: Redis
beforeAll(async () => {
  server = await startRedis()
  client = connectTo(server.url)
})
beforeEach(() => client.flushall())
afterAll(() => client.disconnect())

function chargeOf(admitted: Admitted): Charge {
  if (admitted.kind !== 'taken') throw new Error(`it was not taken: ${admitted.kind}`)
  return admitted.charge
}

it('charges a batch to the cycle that Redis took it from, even if another began on this node meanwhile', async () => {
  let nowMs = MONTH_MS - 1
  const { admission } = limitNode(client, 'one', () => nowMs)
  const app = anApp()
  const before = admission.admit(app, 1, null, null)
  // The call is under way when the next request begins a new month on this node.
  await new Promise((resolve) => setImmediate(resolve))
  nowMs = MONTH_MS + 1
  const after = admission.admit(app, 1, null, null)
  for (const charge of [chargeOf(await before), chargeOf(await after)]) {
    expect(charge.cycleMinute).toBe(cycleMinutesAt(app, charge.minute).first)
  }
  await admission.stop()
})

it('checks requests against the newest record while a batch of an older one ends', async () => {
  const { admission } = limitNode(client, 'one', () => NOON_MS)
  const older = anApp({ eventsPerMinute: 1000 })
  const newer = { ...older, eventsPerMinute: 20 }
  const charge = chargeOf(await admission.admit(older, 10, null, null))
  const asked = admission.admit(newer, 11, null, null)
  admission.end(older, charge, null, 'stored', 10)
  expect(await asked).toMatchObject({ kind: 'over limit', refusal: 'rate_limit_exceeded' })
  expect(admission.view(newer)).toMatchObject({ limit: 20, remaining: 10 })
  await admission.stop()
})

it('calls again if the record changed while the call was under way', async () => {
  const { admission } = limitNode(client, 'one', () => NOON_MS)
  const older = anApp({ eventsPerMinute: 1000 })
  const newer = { ...older, eventsPerMinute: 20 }
  const first = admission.admit(older, 500, null, null)
  await new Promise((resolve) => setImmediate(resolve))
  const second = admission.admit(newer, 1, null, null)
  expect(await first).toMatchObject({ kind: 'over limit', refusal: 'rate_limit_exceeded' })
  // By then the events taken under the older record are given back.
  await expect.poll(async () => (await usageOf(admission, newer)).minute.used).toBeLessThanOrEqual(1)
  expect(['taken', 'over limit']).toContain((await second).kind)
  await admission.stop()
})

it('tells of an app what spools of living and of gone nodes hold, and counts in its windows the living ones alone', async () => {
  const { admission } = limitNode(client, 'one', () => NOON_MS)
  const [app, other] = [anApp(), anApp({ appId: 'other' })]
  chargeOf(await admission.admit(app, 3, null, null))
  const nowMs = (await usageOf(admission, app)).atMs
  const minute = Math.floor(nowMs / MINUTE_MS)
  const [cycle, day] = [cycleMinutesAt(app, minute).first, Math.floor(minute / 1440)]
  const field = (writtenMs: number, events: number): string =>
    `${writtenMs} ${minute - 60} 0 ${cycle - 40_000}:1,${cycle}:${events - 1} ${day - 1}:1,${day}:${events - 1}`
  const counts = countsKey(partitionOf(app.appId, 16), app.appId)
  await client.hset(counts, 's', 'aa bb cc', 's:aa', field(nowMs, 100), 's:bb', field(nowMs - 120_000, 20))
  const link = new TestLink(timed(client, () => NOON_MS))
  const [found, none] = (await readUsages(link, [app, other], { partitions: 16, nowMs })) as [Usage, Usage]
  expect(found.spooled).toEqual({ events: 120, ofGoneNodes: 20 })
  expect(found.month.used).toBe(3 + 99)
  expect(none.spooled).toBeUndefined()
  await admission.stop()
})

const BATCH_ID = '6a2f41a3-c54c-5c1f-9d6b-0d4f6d2f8a13'

it('frees a key that a lost call may have claimed', async () => {
  const { admission, link } = limitNode(client, 'one', () => NOON_MS)
  const app = anApp({ eventsPerMinute: 1000 })
  // After the first heartbeat, which is a call as well.
  await expect.poll(() => client.exists(NODES_KEY)).toBe(1)
  link.isHolding = true
  expect(await admission.admit(app, 6, BATCH_ID, null)).toEqual({ kind: 'overloaded', reason: 'redis_slow' })
  const key = idempotencyKey(partitionOf(app.appId, 16), BATCH_ID)
  await expect.poll(() => client.exists(key)).toBe(0)
  await admission.stop()
})

describe('an answer of Redis that comes late', () => {
  const untilCounted = (app: App, events: number): Promise<void> => {
    const counts = countsKey(partitionOf(app.appId, 16), app.appId)
    return expect.poll(() => client.hget(counts, `m${NOON_MS / MINUTE_MS}`)).toBe(String(events))
  }

  /** A node whose two requests of 40 events wait for a late answer. `giveUp`: they have waited for too long. */
  async function waitingNode() {
    const tasks: (() => void)[] = []
    const setTimeout = (task: () => void) => ({ task: tasks.push(task), unref: () => {} })
    const { admission, link } = limitNode(client, 'one', () => NOON_MS, { timers: { setTimeout } })
    await expect.poll(() => client.exists(NODES_KEY)).toBe(1)
    const app = anApp({ eventsPerMinute: 100 })
    link.isHolding = true
    const asked = [BATCH_ID, null].map(async (key) => await admission.admit(app, 40, key, null))
    await untilCounted(app, 80)
    await link.idle()
    const giveUp = (): void => {
      for (const task of tasks) task()
    }
    return { admission, link, app, asked, giveUp }
  }

  it('is waited for, and its requests are charged once', async () => {
    const { admission, link, app, asked } = await waitingNode()
    link.answerLate()
    for (const admitted of await Promise.all(asked)) expect(chargeOf(admitted).events).toBe(40)
    await link.idle()
    expect((await usageOf(admission, app)).minute.used).toBe(80)
    expect((await admission.admit(app, 20, null, null)).kind).toBe('taken')
    await admission.stop()
  })

  it('is given back where its requests were refused meanwhile', async () => {
    const { admission, link, app, asked, giveUp } = await waitingNode()
    giveUp()
    const refused = { kind: 'overloaded', reason: 'redis_slow' }
    expect(await Promise.all(asked)).toEqual([refused, refused])
    link.answerLate()
    await link.idle()
    expect((await usageOf(admission, app)).minute.used).toBe(0)
    expect(await client.exists(idempotencyKey(partitionOf(app.appId, 16), BATCH_ID))).toBe(0)
    await admission.stop()
  })

  it('is given back where its requests went on without Redis, and what they took is counted once', async () => {
    const { admission, link, app, asked } = await waitingNode()
    link.set(false)
    for (const admitted of await Promise.all(asked)) expect(chargeOf(admitted).events).toBe(40)
    link.answerLate()
    link.set(true)
    await expect.poll(async () => (await usageOf(admission, app)).minute.used).toBe(80)
    await link.idle()
    expect((await usageOf(admission, app)).minute.used).toBe(80)
    await admission.stop()
  })

  it('adds what was taken without Redis once, where it was sent again meanwhile', async () => {
    const { admission, link, app, asked, giveUp } = await waitingNode()
    link.answerLate()
    await Promise.all(asked)
    link.set(false)
    expect((await admission.admit(app, 5, null, null)).kind).toBe('taken')
    link.isHolding = true
    link.set(true)
    await untilCounted(app, 85)
    await link.idle()
    giveUp()
    link.answerLate()
    await link.idle()
    expect((await usageOf(admission, app)).minute.used).toBe(85)
    await admission.stop()
  })
})

it('sends nothing again of a call that Redis refused', async () => {
  const { admission, link, faults } = limitNode(client, 'one', () => NOON_MS)
  const app = anApp()
  link.set(false)
  expect((await admission.admit(app, 3, null, null)).kind).toBe('taken')
  let calls = 0
  const call = link.call.bind(link)
  link.call = async (...asked) => {
    if ((await client.exists('broken')) === 0) return call(...asked)
    calls++
    throw new Error('ERR it is broken')
  }
  await client.set('broken', '1')
  link.set(true)
  // The heartbeat, and one call for everything that waited.
  await expect.poll(() => calls).toBe(2)
  await sleep(50)
  expect(calls).toBe(2)
  expect(faults.length).toBe(2)
  await client.del('broken')
  expect((await admission.admit(app, 5, null, null)).kind).toBe('taken')
  expect((await usageOf(admission, app)).minute.used).toBe(5)
  await admission.stop()
})

it('accepts keys when its memory for them is full, and detects repeats through Redis', async () => {
  const { admission } = limitNode(client, 'one', () => NOON_MS, { maxKeys: 1 })
  const app = anApp()
  const [first, second] = ['6a2f41a3-c54c-5c1f-9d6b-0d4f6d2f8a11', '6a2f41a3-c54c-5c1f-9d6b-0d4f6d2f8a12']
  const charge = chargeOf(await admission.admit(app, 1, first, null))
  const other = chargeOf(await admission.admit(app, 2, second, null))
  expect(await admission.admit(app, 2, second, null)).toEqual({ kind: 'overloaded', reason: 'keys_full' })
  admission.end(app, other, second, 'stored', 2)
  await expect.poll(() => admission.admit(app, 2, second, null)).toEqual({ kind: 'replay', events: 2 })
  admission.end(app, charge, first, 'stored', 1)
  expect(await admission.admit(app, 1, first, null)).toEqual({ kind: 'replay', events: 1 })
  await admission.stop()
})

it('reads the usage of many apps, and their days, on a cluster in one call for each partition, and on one server in one call', async () => {
  const { admission } = limitNode(client, 'one', () => NOON_MS)
  const apps = Array.from({ length: 50 }, (_, at) => anApp({ appId: `app${at}` }))
  for (const [at, app] of apps.entries()) expect((await admission.admit(app, at, null, null)).kind).toBe('taken')
  const partitions = new Set(apps.map(({ appId }) => partitionOf(appId, 16)))
  for (const [isCluster, wanted] of [
    [true, partitions.size],
    [false, 1],
  ] as const) {
    const link = new TestLink(timed(client, () => NOON_MS))
    let calls = 0
    const counting: RedisLink = {
      isUp: true,
      isCluster,
      call: (...asked) => {
        calls++
        return link.call(...asked)
      },
      onChange: () => {},
      stop: async () => {},
    }
    const usages = await readUsages(counting, apps, { partitions: 16, nowMs: NOON_MS })
    expect(usages !== 'away' && usages.map(({ day }) => day.used)).toEqual(apps.map((_, at) => at))
    const days = await readDays(counting, apps, 16)
    expect(days !== 'away' && days.map((of) => of.get(Math.floor(NOON_MS / DAY_MS)) ?? 0)).toEqual(
      apps.map((_, at) => at),
    )
    expect(calls).toBe(2 * wanted)
  }
  await admission.stop()
})

it('reads the usage of 10,000 apps in 20 commands, and their days in 50', async () => {
  const link = new TestLink(timed(client, () => NOON_MS))
  const apps = Array.from({ length: 10_000 }, (_, at) => anApp({ appId: `app${at}` }))
  // Beside these, commands that the scripts run are counted.
  const commands = async (): Promise<number[]> => {
    const info = await client.info('commandstats')
    return ['eval', 'hget'].map((name) => Number(new RegExp(`cmdstat_${name}:calls=(\\d+)`).exec(info)?.[1] ?? 0))
  }
  await client.config('RESETSTAT')
  const at = { partitions: 16, nowMs: NOON_MS }
  const report = await usageReport(apps, (some) => readUsages(link, some, at), { top: 10_000 }, systemTimers)
  expect(report !== 'away' && report.totalApps).toBe(10_000)
  expect(await commands(), 'no command of its own for each app').toEqual([20, 0])
  await client.config('RESETSTAT')
  const days = { days: 35, isOfOne: false }
  expect(await usageByDay(apps, (some) => readDays(link, some, 16), days, systemTimers)).not.toBe('away')
  expect(await commands()).toEqual([50, 0])
})

describe('a partition that a cluster does not serve', () => {
  const shop = anApp({ appId: 'shop', eventsPerMinute: 100 })
  const partition = partitionOf('shop', 16)
  const other = anApp({
    appId: Array.from({ length: 40 }, (_, at) => `app${at}`).find((id) => partitionOf(id, 16) !== partition) ?? '',
  })
  const key = idempotencyKey(partition, BATCH_ID)
  let asked: string[][]
  let isRefused: (keys: readonly string[]) => boolean

  function onCluster(): LimitNode {
    asked = []
    const evalsha = async (text: string, count: number, ...rest: string[]): Promise<unknown> => {
      const keys = rest.slice(0, count)
      asked.push(keys)
      if (isRefused(keys)) throw new (ReplyError as new (text: string) => Error)('TRYAGAIN Multiple keys request')
      return client.eval(text, count, ...rest)
    }
    const refusing = new Proxy(client, {
      get: (target, name) => {
        const member: unknown = name === 'eval' ? evalsha : Reflect.get(target, name)
        return typeof member === 'function' && name !== 'eval' ? member.bind(target) : member
      },
    })
    const node = limitNode(refusing, 'one', () => NOON_MS)
    node.link.isCluster = true
    return node
  }
  const isOf = (keys: readonly string[]): boolean => keys.some((one) => one.includes(`{p${partition}}`))

  it('goes by the share of the node, that partition alone, and what was taken is counted once it is served', async () => {
    isRefused = () => false
    const { admission, notices, faults } = onCluster()
    expect((await admission.admit(shop, 10, null, null)).kind).toBe('taken')
    isRefused = isOf
    expect((await admission.admit(shop, 60, BATCH_ID, null)).kind).toBe('taken')
    expect((await admission.admit(shop, 30, null, null)).kind).toBe('taken')
    expect((await admission.admit(shop, 1, null, null)).kind, 'no more than was left').toBe('over limit')
    expect((await admission.admit(other, 5, null, null)).kind).toBe('taken')
    expect(admission.unserved).toEqual([partition])
    expect((await usageOf(admission, other)).minute.used).toBe(5)
    asked.length = 0
    await expect.poll(() => asked.filter(isOf).length, { message: 'a probe failed' }).toBeGreaterThan(0)
    isRefused = () => false
    await expect.poll(() => admission.unserved).toEqual([])
    expect((await usageOf(admission, shop)).minute.used).toBe(100)
    expect(notices).toEqual([
      `Redis Cluster does not serve partition ${partition}: the cluster is being resharded (TRYAGAIN); requests get 202 as before: limits of its apps go by this node's share until it is served`,
      `Redis Cluster serves partition ${partition} again`,
    ])
    expect(faults).toEqual([])
    await admission.stop()
  })

  it('is asked again with the keys of the call that failed', async () => {
    isRefused = (keys) => keys.includes(key)
    const { admission } = onCluster()
    const charge = chargeOf(await admission.admit(shop, 1, BATCH_ID, null))
    const failed = asked.find((keys) => keys.includes(key))
    admission.end(shop, charge, BATCH_ID, 'refused', 1)
    asked.length = 0
    await expect.poll(() => asked.filter(isOf).length).toBeGreaterThan(1)
    for (const probe of asked.filter(isOf)) expect(probe).toEqual(expect.arrayContaining(failed ?? ['none']))
    expect(admission.unserved, 'no other call closes it').toEqual([partition])
    isRefused = () => false
    await expect.poll(() => admission.unserved).toEqual([])
    await admission.stop()
  })
})

it('tells no usage while Redis is away', async () => {
  const { admission, link } = limitNode(client, 'one', () => NOON_MS)
  link.set(false)
  expect(await admission.usages([anApp()])).toBe('away')
  link.set(true)
  expect(await admission.usages([anApp()])).toHaveLength(1)
  await admission.stop()
})

it('gives back what is left of its buckets when it stops', async () => {
  const { admission } = limitNode(client, 'one', () => NOON_MS)
  const app = anApp({ eventsPerMinute: 100_000 })
  const counts = countsKey(partitionOf(app.appId, 16), app.appId)
  const counted = async (): Promise<number> => Number(await client.hget(counts, `m${NOON_MS / MINUTE_MS}`))
  let taken = 0
  // Until the app is fast enough for a bucket, of which Redis counts all at once.
  await expect
    .poll(async () => {
      for (let request = 0; request < 10; request++) taken += chargeOf(await admission.admit(app, 1, null, null)).events
      return (await counted()) > taken
    })
    .toBe(true)
  await admission.stop()
  expect(await counted()).toBe(taken)
})

it('counts a node as dead 5 s after its last heartbeat, or where that lies ahead since the clock of Redis was set back', async () => {
  let nowMs = NOON_MS
  const link = new TestLink(timed(client, () => nowMs))
  const nodesAfter = async (nodeId: string): Promise<readonly string[]> => {
    const reply = await sendHeartbeat(link, nodeId)
    if (reply === 'away') throw new Error('Redis did not answer')
    return reply.nodes.toSorted()
  }
  expect(await nodesAfter('dead')).toEqual(['dead'])
  nowMs += 4000
  expect(await nodesAfter('one')).toEqual(['dead', 'one'])
  nowMs += 2000
  expect(await nodesAfter('one')).toEqual(['one'])
  nowMs -= 60_000
  expect(await nodesAfter('other')).toEqual(['other'])
})

it('sends what was given back no second time where the answer is lost: an app could take it twice', async () => {
  const app = anApp({ eventsPerMinute: 100 })
  const other = limitNode(client, 'other', () => NOON_MS)
  const { admission, link } = limitNode(client, 'one', () => NOON_MS)
  await expect.poll(() => client.zcard(NODES_KEY)).toBe(2)
  await other.admission.admit(app, 20, null, null)
  const admitted = await admission.admit(app, 10, null, null)
  if (admitted.kind !== 'taken') throw new Error(admitted.kind)
  link.isHolding = true
  admission.end(app, admitted.charge, null, 'refused', 0)
  await link.idle()
  expect((await usageOf(other.admission, app)).minute.used).toBe(20)
  link.set(false)
  link.isHolding = false
  link.set(true)
  // Behind whatever it sends again.
  expect((await admission.admit(app, 1, null, null)).kind).toBe('taken')
  await link.idle()
  expect((await usageOf(other.admission, app)).minute.used).toBe(21)
  await admission.stop()
  await other.admission.stop()
})
