// Redis dies under load and comes back, with or without its data: the service goes on, at most one limit is accepted
// again, and afterwards the counters equal what the stream has stored.

import { Redis } from 'ioredis'
import { afterAll, afterEach, describe, expect, it } from 'vitest'
import { get } from '../support/client.ts'
import { AUDITED_MS, type Cluster, expectExact, metric, partsOf, startCluster } from '../support/cluster.ts'
import type { StoredRecord } from '../support/journal-files.ts'
import { acceptedOf, eventsOf, expectStoredOnce, type RunningLoad, startLoad, statusCounts } from '../support/load.ts'
import { startProxy } from '../support/proxy.ts'
import { startRedis, startRedisCluster } from '../support/redis.ts'
import { appRecord, eventually } from '../support/service.ts'
import { readRecords } from '../support/stream.ts'

/** Of the app that reaches its limit. */
const MONTH = 300
/** Longer than a failover of the cluster, and than a start of Redis. */
const BACK_MS = 30_000
const SMALL = 'ak_small'
const STEADY = 'ak_steady'

const APPS = [
  appRecord('steady', { events_per_minute: 1_000_000 }),
  appRecord('small', { plan: 'trial', events_per_minute: 1_000_000, events_per_month: MONTH }),
]

const loadsToStop: (() => unknown)[] = []
const toStop: (() => unknown)[] = []
/** They run until their counters equal the stream again; one test waits for all of them. */
const clusters: Cluster[] = []
afterEach(async () => {
  for (const stop of loadsToStop.splice(0)) await stop()
})
afterAll(async () => {
  for (const stop of toStop.splice(0).reverse()) await stop()
})

async function startNodes({
  nodes = 2,
  ...options
}: {
  nodes?: number
  env?: Record<string, string>
  redisArgs?: string[]
}): Promise<Cluster> {
  const cluster = await startCluster({ nodes, apps: APPS, ...options })
  toStop.push(() => cluster.stop())
  clusters.push(cluster)
  return cluster
}

function startLoads({ nodes }: Cluster): { steady: RunningLoad; small: RunningLoad } {
  const ports = () => nodes.map(({ port }) => port)
  const steady = startLoad({ ports, appKey: STEADY, unkeyedEvery: 4 })
  const small = startLoad({ ports, appKey: SMALL, workers: 2 })
  loadsToStop.push(() => Promise.all([steady.stop(), small.stop()]))
  return { steady, small }
}

const accepted = ({ batches }: RunningLoad) => acceptedOf(batches).length

const acceptsMore = (load: RunningLoad, more: number) => {
  const before = accepted(load)
  return eventually('it accepts more', () => accepted(load) > before + more, BACK_MS)
}

const isUsed = async ({ nodes }: Cluster) =>
  eventually(
    'Redis is used again',
    async () => {
      const parts = await Promise.all(nodes.map((node) => partsOf(node)))
      return parts.every(({ limits }) => limits === 'ok, in Redis')
    },
    BACK_MS,
  )

async function expectStored(cluster: Cluster, { steady, small }: ReturnType<typeof startLoads>, most = 2 * MONTH) {
  const [steadyBatches, smallBatches] = await Promise.all([steady.stop(), small.stop()])
  expect(Object.keys(statusCounts(steadyBatches)), 'nobody is turned away').toEqual(['202'])
  expect(Object.keys(statusCounts(smallBatches)), 'but by the limit').toEqual(['202', '429'])
  const records = await readRecords(cluster.nats.url)
  const of = (id: string): StoredRecord[] => records.filter(({ app_id }) => app_id === id)
  const storedEvents = (id: string) => of(id).reduce((sum, { events }) => sum + events.length, 0)
  expectStoredOnce(of('steady'), steadyBatches)
  expectStoredOnce(of('small'), smallBatches)
  // Events counted while Redis was away, or lost with it, may be accepted once more.
  expect(storedEvents('small')).toBeLessThanOrEqual(most)
}

it('what Redis has forgotten is named in /readyz and sluice_degraded, until the audit has written it again', async () => {
  const cluster = await startCluster({ nodes: 1, apps: APPS })
  toStop.push(() => cluster.stop())
  const [node] = cluster.nodes
  const isDegraded = () => metric(node, 'sluice_degraded{part="limits"}')
  await eventually('it audits', async () => /partitions 0, 1/.test((await partsOf(node))['audit']))
  await isUsed(cluster)
  expect(await isDegraded()).toBe(0)
  // Nobody can write the counts again.
  await cluster.nats.kill()
  const client = new Redis(cluster.redis.url)
  await client.flushall()
  client.disconnect()
  await eventually('it says so', async () =>
    (await partsOf(node))['limits'].startsWith('Redis has lost counts: this node'),
  )
  expect(await isDegraded()).toBe(1)
  expect((await get(node.adminPort, '/readyz')).status).toBe(200)
  await cluster.nats.restart()
  await isUsed(cluster)
  expect(await isDegraded()).toBe(0)
})

describe('a Redis that is killed under load and restarted', () => {
  it.each([
    { keeps: 'an append-only file', redisArgs: [] },
    { keeps: 'snapshots alone', redisArgs: ['--appendonly', 'no', '--save', '1', '1'] },
    { keeps: 'nothing', redisArgs: ['--appendonly', 'no'] },
  ])('and keeps $keeps is no outage', async ({ redisArgs }) => {
    const cluster = await startNodes({ redisArgs })
    const loads = startLoads(cluster)
    await eventually('half of the limit is used', () => eventsOf(acceptedOf(loads.small.batches)) > MONTH / 2, BACK_MS)
    await cluster.redis.kill()
    await acceptsMore(loads.steady, 100)
    await cluster.redis.restart()
    await isUsed(cluster)
    await acceptsMore(loads.steady, 100)
    await eventually('the limit is reached', () => 429 in statusCounts(loads.small.batches), BACK_MS)
    await expectStored(cluster, loads)
  })
})

describe('a Redis that fails over to a replica that lags', () => {
  it('gives out nothing again of what the nodes took meanwhile', async () => {
    const cluster = await startNodes({ nodes: 3 })
    const [replica, copying] = await Promise.all([startRedis(['--appendonly', 'no']), startProxy(cluster.redis.port)])
    toStop.push(() => Promise.all([replica.stop(), copying.stop()]))
    const client = new Redis(replica.port)
    toStop.push(() => client.disconnect())
    await client.replicaof('127.0.0.1', copying.port)
    const copies = async () => (await client.info('replication')).includes('master_link_status:up')
    await eventually('it is copied', copies, BACK_MS)
    const loads = startLoads(cluster)
    await eventually('half of the limit is used', () => eventsOf(acceptedOf(loads.small.batches)) > MONTH / 2, BACK_MS)
    copying.hold()
    // By then each node has been told that nothing is left.
    await eventually('the limit is reached', () => statusCounts(loads.small.batches)[429] > 60, BACK_MS)
    const before = eventsOf(acceptedOf(loads.small.batches))
    await cluster.redis.kill()
    await client.replicaof('NO', 'ONE')
    cluster.redisProxy.lead(replica.port)
    // Commands go past the relay.
    Object.assign(cluster.commandEnv, { REDIS_URL: replica.url })
    await isUsed(cluster)
    await acceptsMore(loads.steady, 300)
    expect(eventsOf(acceptedOf(loads.small.batches)), 'accepted by then').toBe(before)
    for (const node of cluster.nodes) expect(node.output()).toContain('Redis has lost counts')
    await expectStored(cluster, loads, MONTH)
  })
})

describe('a Redis Cluster with a replica of each master', () => {
  it('goes on with the replica of a master that is killed under load', async () => {
    const redis = await startRedisCluster({ replicas: true })
    toStop.push(() => redis.stop())
    const cluster = await startNodes({ env: { REDIS_URL: redis.nodes[1].url } })
    const loads = startLoads(cluster)
    await eventually('half of the limit is used', () => eventsOf(acceptedOf(loads.small.batches)) > MONTH / 2, BACK_MS)
    await redis.nodes[0].kill()
    await acceptsMore(loads.steady, 100)
    const other = new Redis(redis.nodes[1].port)
    toStop.push(() => other.disconnect())
    await eventually(
      'a replica has taken its place',
      async () => String(await other.call('CLUSTER', 'INFO')).includes('cluster_state:ok'),
      BACK_MS,
    )
    await isUsed(cluster)
    await acceptsMore(loads.steady, 100)
    await eventually('the limit is reached', () => 429 in statusCounts(loads.small.batches), BACK_MS)
    await expectStored(cluster, loads)
  })
})

describe('the counters', () => {
  it(
    'equal the stream in the end, however Redis was lost',
    async () => {
      expect(clusters.length).toBe(5)
      for (const cluster of clusters) await expectExact(cluster)
    },
    AUDITED_MS + 10_000,
  )
})
