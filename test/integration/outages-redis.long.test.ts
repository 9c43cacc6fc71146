// Redis away in every way, under the same two nodes from the first fault to the last: no request is refused for it, each
// node enforces its share, no counter is too low, and in the end the counters equal what is stored.

import { randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { casesOf } from '../cases/outages.js'
import { expectAccepted, expectRefused, post, single } from '../support/client.ts'
import { AUDITED_MS, expectCovered, expectExact, metric, partsOf, whileRedisAnswers } from '../support/cluster.ts'
import { expectStoredOnce, startLoad, statusCounts } from '../support/load.ts'
import { eventsIn, expectLateStart, expectServing, expectToldOnce, type Fault, Outage } from '../support/outage.ts'
import { appRecord, eventually, type Service, sleep } from '../support/service.ts'

const FAULTS = casesOf('Redis').map(({ name }) => name)
/** Redis is up until some calls in a row had no answer; requests that wait for these are told 503. */
const SILENT: ReadonlySet<string> = new Set(['frozen', 'delayed'])

/** Of the app whose share is tested. */
const MONTH = 100
/** Longer than the budget of a call, and far longer than a request may wait for Redis. */
const DELAY_MS = 5000
/** After a second without requests a node gives an app's bucket back. */
const REST_MS = 2000

const outage = new Outage()
/** Apps whose month was shared, and the most events that may be stored of each. */
const shares: { readonly appKey: string; readonly appId: string; readonly most: number }[] = []

/** An app with a small month and large minutes. */
const small = (id: string) => appRecord(id, { plan: 'trial', events_per_minute: 100_000, events_per_month: MONTH })

const make: Readonly<Record<string, Fault>> = {
  killed: { fault: () => outage.cluster.redis.kill(), heal: () => outage.cluster.redis.restart() },
  frozen: { fault: () => outage.cluster.redis.freeze(), heal: () => outage.cluster.redis.resume() },
  delayed: { fault: () => outage.cluster.redisProxy.delay(DELAY_MS), heal: () => outage.cluster.redisProxy.heal() },
  cut: { fault: () => outage.cluster.redisProxy.cut(), heal: () => outage.cluster.redisProxy.heal() },
  emptied: { fault: () => outage.cluster.redis.kill(), heal: () => outage.cluster.redis.restart({ empty: true }) },
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
    const values = await Promise.all(outage.nodes.map((node) => metric(node, series)))
    return values.every((found) => found === value)
  })
}

/** Holds while Redis is away. The app's two earlier events are counted. */
async function holdMeanwhile(appKey: string, earlyKey: string): Promise<void> {
  await everyNode('sluice_redis_up', 0)
  await everyNode('sluice_degraded{part="limits"}', 1)
  const early = { 'Idempotency-Key': earlyKey }
  expectAccepted(await post(outage.first, single(appKey), early), 1, true)
  // The other node has never seen the key: the stream detects the duplicate.
  expectAccepted(await post(outage.second, single(appKey), early), 1, true)
  const during = { 'Idempotency-Key': randomUUID() }
  expectAccepted(await post(outage.second, single(appKey), during), 1)
  expectAccepted(await post(outage.first, single(appKey), during), 1, true)
  const filled = [await fill(outage.first, appKey), await fill(outage.second, appKey)]
  expect(3 + filled[0] + filled[1], 'never over').toBeLessThanOrEqual(MONTH)
  for (const share of filled) expect(share, 'about half').toBeGreaterThan(MONTH / 2 - 10)
  for (const node of outage.nodes) {
    await expectServing(node)
    expect((await partsOf(node))['limits']).toMatch(/^Redis away: /)
    expect(await metric(node, 'sluice_nats_up')).toBe(1)
  }
}

async function expectOutageHeld(fault: string, attempt: number): Promise<void> {
  const [steady, shared] = [`steady-${fault}-${attempt}`, `shared-${fault}-${attempt}`]
  const appKey = `ak_${shared}`
  const stranger = single(`ak_stranger-${fault}-${attempt}`)
  await outage.cluster.addApps([appRecord(steady), small(shared)])
  const loudness = outage.nodes.map((node) => node.output().length)
  outage.load = startLoad({
    ports: () => outage.nodes.map(({ port }) => port),
    appKey: `ak_${steady}`,
    unkeyedEvery: 4,
  })
  const earlyKey = randomUUID()
  expectAccepted(await post(outage.first, single(appKey), { 'Idempotency-Key': earlyKey }), 1)
  expectAccepted(await post(outage.second, single(appKey)), 1)
  // Both give their buckets back, so that each knows what is left.
  await sleep(REST_MS)

  await outage.begin(make[fault])
  await holdMeanwhile(appKey, earlyKey)
  expectRefused(await post(outage.first, stranger), 401, 'invalid_app_key')

  await outage.heal()
  await everyNode('sluice_redis_up', 1)
  await everyNode('sluice_degraded{part="limits"}', 0)
  const batches = await outage.load.stop()
  const statuses = SILENT.has(fault) ? ['202', '503'] : ['202']
  expect(statuses, 'nobody was turned away').toEqual(expect.arrayContaining(Object.keys(statusCounts(batches))))
  expect(batches.filter(({ key, batchId }) => key !== null && batchId === null)).toEqual([])
  const longestMs = Math.max(...batches.flatMap(({ tries }) => tries.map(({ tookMs }) => tookMs)))
  expect(longestMs, 'nobody waited for Redis').toBeLessThan(DELAY_MS)
  expectStoredOnce(await outage.storedOf(steady), batches)
  if (fault !== 'emptied') {
    await expectCovered(outage.cluster, `ak_${steady}`, eventsIn(await outage.storedOf(steady)))
    await expectCovered(outage.cluster, appKey, (await outage.storedOf(shared)).length)
  }
  // Either node may now take what the shares left, and not one event more.
  await fill(outage.first, appKey)
  await fill(outage.second, appKey)
  const most = fault === 'emptied' ? 2 * MONTH : MONTH
  expect((await outage.storedOf(shared)).length, 'at most one limit anew').toBeLessThanOrEqual(most)
  shares.push({ appKey, appId: shared, most })
  await expectToldOnce(outage, 'redis', loudness, batches.length / 4)
}

describe('an outage of Redis', () => {
  test('is each one of the table', () => expect(FAULTS.toSorted()).toEqual(Object.keys(make).toSorted()))

  test.each(FAULTS)('(%s) is no outage of the service, and everything stored is counted', (fault) =>
    whileRedisAnswers(outage.cluster, (attempt) => expectOutageHeld(fault, attempt).finally(() => outage.mend()), 1),
  )

  test('at a start leaves the node not ready until Redis is up, without a restart', () =>
    expectLateStart(outage, make['cut'], async (node) => {
      expect((await partsOf(node))['limits']).toMatch(/^Redis away: /)
    }))

  test(
    'leaves counters that equal the stream, and limits used up to the last event',
    async () => {
      await expectExact(outage.cluster)
      expect(shares.length).toBeGreaterThanOrEqual(FAULTS.length)
      for (const { appKey, appId, most } of shares) {
        await fill(outage.first, appKey)
        await fill(outage.second, appKey)
        const { length } = await outage.storedOf(appId)
        expect(length).toBeGreaterThanOrEqual(MONTH)
        expect(length).toBeLessThanOrEqual(most)
      }
      await expectExact(outage.cluster)
    },
    2 * AUDITED_MS,
  )
})
