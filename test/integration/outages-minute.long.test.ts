// Redis or NATS away for more than a minute, so that limits turn and connections are long given up: what goes on, goes
// on by shares of the new minute, and all is back by itself. Both outages run side by side, each under its own nodes.

import { randomUUID } from 'node:crypto'
import { beforeAll, describe, expect, test } from 'vitest'
import { expectAccepted, expectRefused, figures, post, single } from '../support/client.ts'
import { AUDITED_MS, type Cluster, expectCovered, expectExact, metric, startCluster } from '../support/cluster.ts'
import { acceptedOf, eventsOf, expectStoredOnce, startLoad, statusCounts } from '../support/load.ts'
import { appRecord, eventually, type Service, sleep } from '../support/service.ts'
import { readRecords } from '../support/stream.ts'

const AWAY_MS = 65_000
const MINUTE_MS = 60_000
const PAST_THE_TURN_MS = 500
/** Events a minute of the trial, and each of two nodes' share of them. */
const TRIAL = 200
const SHARE = 100
/** NATS: two seconds, and what a busy machine adds. */
const BACK_MS = 6000
const TEST_TIMEOUT_MS = 60_000 + AWAY_MS + AUDITED_MS

let withoutRedis: Cluster
let withoutNats: Cluster

beforeAll(async () => {
  withoutRedis = await startCluster({ nodes: 2, apps: [appRecord('steady'), appRecord('trial', { plan: 'trial' })] })
  withoutNats = await startCluster({ nodes: 2, apps: [appRecord('steady')] })
})

const ports = (cluster: Cluster): number[] => cluster.nodes.map(({ port }) => port)

async function acceptedUntilRefused(node: Service): Promise<number> {
  for (let accepted = 0; ; accepted++) {
    const answer = await post(node, single('ak_trial'))
    if (answer.status === 202) continue
    expectRefused(answer, 429, 'rate_limit_exceeded')
    expect(figures(answer).limit).toBe(TRIAL)
    return accepted
  }
}

describe.concurrent('away for more than a minute', () => {
  test(
    'Redis: each node accepts its share of each minute, and both are counted when it is back',
    async () => {
      const cluster = withoutRedis
      for (const node of cluster.nodes) expectAccepted(await post(node, single('ak_trial')), 1)
      const load = startLoad({ ports: () => ports(cluster), appKey: 'ak_steady', unkeyedEvery: 4, pauseMs: 100 })
      await cluster.redis.kill()
      const backAtMs = Date.now() + AWAY_MS
      // Into the next minute, of which Redis has never heard.
      await sleep(MINUTE_MS - (Date.now() % MINUTE_MS) + PAST_THE_TURN_MS)
      const accepted = await Promise.all(cluster.nodes.map(acceptedUntilRefused))
      expect(accepted).toEqual([SHARE, SHARE])
      await sleep(backAtMs - Date.now())
      for (const node of cluster.nodes) expect(await metric(node, 'sluice_redis_up')).toBe(0)
      await cluster.redis.restart()
      for (const node of cluster.nodes) {
        await eventually('Redis is up', async () => (await metric(node, 'sluice_redis_up')) === 1)
      }
      const batches = await load.stop()
      expect(Object.keys(statusCounts(batches)), 'nobody was turned away').toEqual(['202'])
      const records = await readRecords(cluster.nats.url)
      expectStoredOnce(
        records.filter(({ app_id }) => app_id === 'steady'),
        batches,
      )
      await expectCovered(cluster, 'ak_steady', eventsOf(batches))
      await expectCovered(cluster, 'ak_trial', 2 + TRIAL)
      await expectExact(cluster)
    },
    TEST_TIMEOUT_MS,
  )

  test(
    'NATS: every batch is refused until it is back, and then each is stored once',
    async () => {
      const cluster = withoutNats
      const load = startLoad({ ports: () => ports(cluster), appKey: 'ak_steady', unkeyedEvery: 4, pauseMs: 100 })
      await eventually('the load runs', () => acceptedOf(load.batches).length > 0)
      await cluster.nats.kill()
      await sleep(AWAY_MS)
      for (const node of cluster.nodes) {
        expect(await metric(node, 'sluice_nats_up')).toBe(0)
        expectRefused(
          await post(node, single('ak_steady'), { 'Idempotency-Key': randomUUID() }),
          503,
          'service_overloaded',
        )
      }
      await cluster.nats.restart()
      for (const node of cluster.nodes) {
        await eventually('it is back', async () => (await metric(node, 'sluice_nats_up')) === 1, BACK_MS)
      }
      const batches = await load.stop()
      expect(batches.filter(({ key, batchId }) => key !== null && batchId === null)).toEqual([])
      const records = await readRecords(cluster.nats.url)
      expectStoredOnce(records, batches)
      await expectCovered(cluster, 'ak_steady', eventsOf(records.map(({ events }) => ({ events: events.length }))))
      await expectExact(cluster)
    },
    TEST_TIMEOUT_MS,
  )
})
