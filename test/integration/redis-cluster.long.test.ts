// A Redis Cluster that moves slots and fails over under load: no node ends, and requests are answered as before.

import { Redis } from 'ioredis'
import { expect, it, onTestFinished } from 'vitest'
import { partitionOf } from '../../src/contract/partition.ts'
import { AUDITED_MS, type Cluster, metric, partsOf, startCluster } from '../support/cluster.ts'
import { expectStoredOnce, type RunningLoad, startLoad, statusCounts } from '../support/load.ts'
import { eventsIn } from '../support/outage.ts'
import { runToEnd } from '../support/processes.js'
import { type RedisCluster, type RedisServer, startRedisCluster } from '../support/redis.ts'
import { appRecord, eventually } from '../support/service.ts'
import { readRecords } from '../support/stream.ts'

const HASH_SLOTS = 16_384
const MASTERS = 3
/** Of each master. */
const SLOTS = Math.ceil(HASH_SLOTS / MASTERS)
const KEYS_IN_SLOT = 60_000
/** Sent in each state of a slot. */
const BATCHES = 150
const LEAST_ACCEPTED = 0.99
const TIMEOUT_MS = 3 * AUDITED_MS

interface Stage {
  readonly redis: RedisCluster
  readonly cluster: Cluster
  readonly load: RunningLoad
  readonly appId: string
  readonly slot: number
  /** Of the masters, the slot's first. */
  readonly clients: readonly Redis[]
  readonly servers: readonly RedisServer[]
  readonly names: readonly string[]
}

const clientOf = ({ port }: RedisServer): Redis => {
  const client = new Redis(port, '127.0.0.1')
  client.on('error', () => {})
  onTestFinished(() => client.disconnect())
  return client
}

/** Two nodes under load, for an app whose slot is one of the first of its master. */
async function aStage(options: { replicas?: boolean } = {}): Promise<Stage> {
  const redis = await startRedisCluster(options)
  const all = redis.nodes.map(clientOf)
  const found = await Promise.all(
    Array.from({ length: 40 }, async (_, at) => {
      const appId = `shop${at}`
      const slot = Number(await all[0].call('CLUSTER', 'KEYSLOT', `{p${partitionOf(appId, 16)}}`))
      return { appId, slot }
    }),
  )
  const [{ appId, slot }] = found.toSorted((one, other) => (one.slot % SLOTS) - (other.slot % SLOTS))
  const turned = <T>(list: readonly T[]): T[] => {
    const first = Math.floor(slot / SLOTS)
    return [...list.slice(first), ...list.slice(0, first)]
  }
  const clients = turned(all)
  const cluster = await startCluster({ nodes: 2, apps: [appRecord(appId)], env: { REDIS_URL: redis.url } })
  const load = startLoad({
    ports: () => cluster.nodes.map(({ port }) => port),
    appKey: `ak_${appId}`,
    unkeyedEvery: 4,
  })
  const names = await Promise.all(clients.map(async (client) => String(await client.call('CLUSTER', 'MYID'))))
  const stage = { redis, cluster, load, appId, slot, clients, names, servers: turned(redis.nodes) }
  await sent(stage)
  return stage
}

async function setSlot({ clients, slot }: Stage, at: number, ...words: readonly string[]): Promise<void> {
  expect(await clients[at].call('CLUSTER', 'SETSLOT', String(slot), ...words)).toBe('OK')
}

const keysInSlot = async ({ clients: [first], slot }: Stage): Promise<number> =>
  Number(await first.call('CLUSTER', 'COUNTKEYSINSLOT', String(slot)))

/** To the second master. */
async function moveKeys({ clients: [first], servers, slot }: Stage, count: number): Promise<void> {
  const keys = (await first.call('CLUSTER', 'GETKEYSINSLOT', String(slot), String(count))) as string[]
  await first.call('MIGRATE', '127.0.0.1', String(servers[1].port), '', '0', '5000', 'KEYS', ...keys)
}

/** Some more batches were sent to both nodes. */
async function sent({ load, cluster }: Stage): Promise<void> {
  const before = load.batches.length
  await eventually('batches are sent', () => load.batches.length >= before + BATCHES || cluster.nodes.length < 2)
}

async function expectHeld(stage: Stage): Promise<void> {
  const { load, cluster, appId } = stage
  const batches = await load.stop()
  const counts = statusCounts(batches)
  const tries = Object.values(counts).reduce((sum, count) => sum + count, 0)
  expect(cluster.nodes, 'no node has ended').toHaveLength(2)
  expect((counts[202] ?? 0) / tries, JSON.stringify(counts)).toBeGreaterThanOrEqual(LEAST_ACCEPTED)
  const stored = await readRecords(cluster.nats.url)
  expectStoredOnce(stored, batches)
  for (const node of cluster.nodes) {
    await eventually('limits are in Redis', async () => (await partsOf(node))['limits'] === 'ok, in Redis')
    await eventually('no part is degraded', async () => (await metric(node, 'sluice_degraded{part="limits"}')) === 0)
  }
  const exact = async (): Promise<boolean> => (await cluster.used(`ak_${appId}`)).month === eventsIn(stored)
  await eventually('counters are exact', exact, AUDITED_MS)
}

it('a slot that is moved by hand costs no request, in any of its states', { timeout: TIMEOUT_MS }, async () => {
  const stage = await aStage()
  const { names, cluster, appId } = stage
  const partition = partitionOf(appId, 16)
  await setSlot(stage, 1, 'IMPORTING', names[0])
  await setSlot(stage, 0, 'MIGRATING', names[1])
  await sent(stage)
  await moveKeys(stage, Math.floor((await keysInSlot(stage)) / 2))
  await sent(stage)
  for (const node of cluster.nodes) {
    expect(await metric(node, 'sluice_degraded{part="limits"}')).toBe(1)
    expect(await metric(node, 'sluice_redis_up'), 'the other partitions are as before').toBe(1)
    expect((await partsOf(node))['limits']).toContain(`those of partitions ${partition}`)
    expect(node.output()).toContain(`Redis Cluster does not serve partition ${partition}: `)
  }
  await moveKeys(stage, KEYS_IN_SLOT)
  await sent(stage)
  for (const at of [1, 0, 2]) await setSlot(stage, at, 'NODE', names[1])
  await sent(stage)
  await expectHeld(stage)
  for (const node of cluster.nodes) expect(node.output()).toContain(`Redis Cluster serves partition ${partition} again`)
})

it('a slot with 60,000 keys that redis-cli moves costs no request', { timeout: TIMEOUT_MS }, async () => {
  const stage = await aStage()
  const { clients, names, redis, slot, appId } = stage
  const fill = `for at = 1, ${KEYS_IN_SLOT} do redis.call('SET', KEYS[1] .. at, 'x', 'EX', 300) end`
  await clients[0].eval(fill, 1, `{p${partitionOf(appId, 16)}}:filler:`)
  const place = `127.0.0.1:${redis.nodes[0].port}`
  const check = `redis-cli --cluster check ${place}`.split(' ')
  await eventually('all nodes of Redis agree', async () => (await runToEnd({ command: check })).code === 0)
  const reshard = `redis-cli --cluster reshard ${place} --cluster-yes --cluster-timeout 300000 --cluster-pipeline 500`
  const which = `--cluster-from ${names[0]} --cluster-to ${names[1]} --cluster-slots ${(slot % SLOTS) + 1}`
  const { code, output } = await runToEnd({ command: `${reshard} ${which}`.split(' ') }, AUDITED_MS)
  expect(code, output).toBe(0)
  expect(Number(await clients[1].call('CLUSTER', 'COUNTKEYSINSLOT', String(slot)))).toBeGreaterThan(KEYS_IN_SLOT)
  await sent(stage)
  await expectHeld(stage)
})

it('a failover costs no request, by hand and after a kill', { timeout: TIMEOUT_MS }, async () => {
  const stage = await aStage({ replicas: true })
  const { redis, servers, names } = stage
  const replica = redis.replicas[redis.nodes.indexOf(servers[0])]
  const client = clientOf(replica)
  expect(await client.call('CLUSTER', 'FAILOVER')).toBe('OK')
  await eventually('the replica is the master', async () => (await client.info('replication')).includes('role:master'))
  await sent(stage)
  await replica.kill()
  const [first] = stage.clients
  await eventually('the first master is one again', async () => {
    return (await first.info('replication')).includes('role:master')
  })
  expect(String(await first.call('CLUSTER', 'MYID'))).toBe(names[0])
  await sent(stage)
  await expectHeld(stage)
})
