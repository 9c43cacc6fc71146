// Redis away in every way, under the same two nodes from the first fault to the last: no request is refused for it, each
// node enforces its share, no counter is too low, and in the end the counters equal what is stored.

import { randomUUID } from 'node:crypto'
import { afterEach, beforeAll, describe, expect, test } from 'vitest'
import { casesOf } from '../cases/outages.js'
import { batch, expectAccepted, expectRefused, get, post, single } from '../support/client.ts'
import {
  AUDITED_MS,
  becomesReady,
  type Cluster,
  expectCovered,
  expectExact,
  logOf,
  metric,
  partsOf,
  startCluster,
  whileRedisAnswers,
} from '../support/cluster.ts'
import type { StoredRecord } from '../support/journal-files.ts'
import { expectStoredOnce, type RunningLoad, startLoad, statusCounts } from '../support/load.ts'
import { appRecord, eventually, type Service, sleep } from '../support/service.ts'
import { readRecords } from '../support/stream.ts'

const FAULTS = casesOf('Redis').map(({ name }) => name)
/** Redis is up until some calls in a row had no answer; requests that wait for these are told 503. */
const SILENT: ReadonlySet<string> = new Set(['frozen', 'delayed'])

/** Of the app whose share is tested. */
const MONTH = 100
/** Longer than the budget of a call, and far longer than a request may wait for Redis. */
const DELAY_MS = 5000
/** After a second without requests a node gives an app's bucket back. */
const REST_MS = 2000

let cluster: Cluster
let first: Service
let second: Service
/** Ends the faults that a test has left. */
let heal: (() => unknown) | null = null
let load: RunningLoad | null = null
/** Apps whose month was shared, and the most events that may be stored of each. */
const shares: { readonly appKey: string; readonly appId: string; readonly most: number }[] = []

/** An app with a small month and large minutes. */
const small = (id: string) => appRecord(id, { plan: 'trial', events_per_minute: 100_000, events_per_month: MONTH })

beforeAll(async () => {
  cluster = await startCluster({ nodes: 2, apps: [] })
  ;[first, second] = cluster.nodes as [Service, Service]
}, 60_000)

async function mend(): Promise<void> {
  await heal?.()
  heal = null
  await load?.stop()
  load = null
}

afterEach(mend)

const make: Readonly<Record<string, { fault: () => unknown; heal: () => unknown }>> = {
  killed: { fault: () => cluster.redis.kill(), heal: () => cluster.redis.restart() },
  frozen: { fault: () => cluster.redis.freeze(), heal: () => cluster.redis.resume() },
  delayed: { fault: () => cluster.redisProxy.delay(DELAY_MS), heal: () => cluster.redisProxy.heal() },
  cut: { fault: () => cluster.redisProxy.cut(), heal: () => cluster.redisProxy.heal() },
  emptied: { fault: () => cluster.redis.kill(), heal: () => cluster.redis.restart({ empty: true }) },
}

/** Sends batches of one event to one node until one is refused; returns how many were accepted. */
async function fill(node: Service, appKey: string): Promise<number> {
  for (let accepted = 0; ; accepted++) {
    const answer = await post(node, single(appKey))
    if (answer.status === 202) continue
    expectRefused(answer, 429, 'monthly_limit_exceeded')
    return accepted
  }
}

async function everyNode(series: string, value: number): Promise<void> {
  await eventually(`${series} is ${value} on every node`, async () => {
    const values = await Promise.all([first, second].map((node) => metric(node, series)))
    return values.every((found) => found === value)
  })
}

const eventsIn = (records: readonly StoredRecord[]): number =>
  records.reduce((sum, { events }) => sum + events.length, 0)

async function storedOf(appId: string): Promise<StoredRecord[]> {
  return (await readRecords(cluster.nats.url)).filter(({ app_id }) => app_id === appId)
}

/** One log line per change, not per request: no line repeats the one before. */
function expectToldOnce(node: Service, from: number, requests: number): void {
  const lines = logOf(node, from)
  const told = lines.filter(({ part }) => part === 'redis').map(({ msg }) => msg)
  expect(told.length, told.join('\n')).toBeGreaterThanOrEqual(2)
  expect(told.length, told.join('\n')).toBeLessThan(requests / 4)
  expect(told.filter((msg, at) => msg === told[at + 1])).toEqual([])
  const errors = lines.filter(({ level }) => level === 'error' || level === 'fatal')
  expect(errors.map(({ msg }) => msg)).toEqual([])
}

/** Holds while Redis is away. The app's two earlier events are counted. */
async function holdMeanwhile(appKey: string, earlyKey: string): Promise<void> {
  await everyNode('sluice_redis_up', 0)
  await everyNode('sluice_degraded{part="limits"}', 1)
  const early = { 'Idempotency-Key': earlyKey }
  expectAccepted(await post(first, single(appKey), early), 1, true)
  // The other node has never seen the key: the stream detects the duplicate.
  expectAccepted(await post(second, single(appKey), early), 1, true)
  const during = { 'Idempotency-Key': randomUUID() }
  expectAccepted(await post(second, single(appKey), during), 1)
  expectAccepted(await post(first, single(appKey), during), 1, true)
  const filled = [await fill(first, appKey), await fill(second, appKey)]
  expect(3 + filled[0] + filled[1], 'never over').toBeLessThanOrEqual(MONTH)
  for (const share of filled) expect(share, 'about half').toBeGreaterThan(MONTH / 2 - 10)
  for (const node of [first, second]) {
    expect((await get(node.adminPort, '/livez')).status).toBe(200)
    expect((await get(node.adminPort, '/readyz')).status).toBe(200)
    expect((await partsOf(node))['limits']).toMatch(/^Redis away: /)
    expect(await metric(node, 'sluice_nats_up')).toBe(1)
  }
}

async function expectOutageHeld(fault: string, attempt: number): Promise<void> {
  const [steady, shared] = [`steady-${fault}-${attempt}`, `shared-${fault}-${attempt}`]
  const appKey = `ak_${shared}`
  const stranger = single(`ak_stranger-${fault}-${attempt}`)
  await cluster.addApps([appRecord(steady), small(shared)])
  const loudness = [first, second].map((node) => node.output().length)
  load = startLoad({ ports: () => [first.port, second.port], appKey: `ak_${steady}`, unkeyedEvery: 4 })
  const earlyKey = randomUUID()
  expectAccepted(await post(first, single(appKey), { 'Idempotency-Key': earlyKey }), 1)
  expectAccepted(await post(second, single(appKey)), 1)
  // Both give their buckets back, so that each knows what is left.
  await sleep(REST_MS)

  heal = make[fault].heal
  await make[fault].fault()
  await holdMeanwhile(appKey, earlyKey)
  expectRefused(await post(first, stranger), 401, 'invalid_app_key')

  await heal()
  heal = null
  await everyNode('sluice_redis_up', 1)
  await everyNode('sluice_degraded{part="limits"}', 0)
  const batches = await load.stop()
  const statuses = SILENT.has(fault) ? ['202', '503'] : ['202']
  expect(statuses, 'nobody was turned away').toEqual(expect.arrayContaining(Object.keys(statusCounts(batches))))
  expect(batches.filter(({ key, batchId }) => key !== null && batchId === null)).toEqual([])
  const longestMs = Math.max(...batches.flatMap(({ tries }) => tries.map(({ tookMs }) => tookMs)))
  expect(longestMs, 'nobody waited for Redis').toBeLessThan(DELAY_MS)
  expectStoredOnce(await storedOf(steady), batches)
  if (fault !== 'emptied') {
    await expectCovered(cluster, `ak_${steady}`, eventsIn(await storedOf(steady)))
    await expectCovered(cluster, appKey, (await storedOf(shared)).length)
  }
  // Either node may now take what the shares left, and not one event more.
  await fill(first, appKey)
  await fill(second, appKey)
  const most = fault === 'emptied' ? 2 * MONTH : MONTH
  expect((await storedOf(shared)).length, 'at most one limit anew').toBeLessThanOrEqual(most)
  shares.push({ appKey, appId: shared, most })
  for (const [at, node] of [first, second].entries()) expectToldOnce(node, loudness[at], batches.length)
}

describe('an outage of Redis', () => {
  test('is each one of the table', () => expect(FAULTS.toSorted()).toEqual(Object.keys(make).toSorted()))

  test.each(FAULTS)('(%s) is no outage of the service, and everything stored is counted', (fault) =>
    whileRedisAnswers(cluster, (attempt) => expectOutageHeld(fault, attempt).finally(mend), 1),
  )

  test('at a start leaves the node not ready until Redis is up, without a restart', async () => {
    await cluster.addApps([appRecord('late')])
    heal = () => cluster.redisProxy.heal()
    cluster.redisProxy.cut()
    const node = await cluster.startNode()
    expect((await get(node.adminPort, '/livez')).status).toBe(200)
    expect((await get(node.adminPort, '/readyz')).status).toBe(503)
    expect((await partsOf(node))['limits']).toMatch(/^Redis away: /)
    heal()
    await becomesReady(node)
    await eventually('it is accepted', async () => (await post(node, batch('ak_late', 2))).status === 202)
    await expectCovered(cluster, 'ak_late', 2)
    expect((await node.stop()).code).toBe(0)
  })

  test(
    'leaves counters that equal the stream, and limits used up to the last event',
    async () => {
      await expectExact(cluster)
      expect(shares.length).toBeGreaterThanOrEqual(FAULTS.length)
      for (const { appKey, appId, most } of shares) {
        await fill(first, appKey)
        await fill(second, appKey)
        const { length } = await storedOf(appId)
        expect(length).toBeGreaterThanOrEqual(MONTH)
        expect(length).toBeLessThanOrEqual(most)
      }
      await expectExact(cluster)
    },
    2 * AUDITED_MS,
  )
})
