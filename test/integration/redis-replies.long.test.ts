// A Redis that answers something else than it was asked: no node ends, every app is served, and all is well once its answers are.

import { afterAll, beforeAll, expect, it } from 'vitest'
import type { BadReplies } from '../support/bad-replies.ts'
import { SPOILED, startBadReplies } from '../support/bad-replies.ts'
import { expectAccepted, post, single } from '../support/client.ts'
import { AUDITED_MS, type Cluster, metric, partsOf, startCluster } from '../support/cluster.ts'
import { expectStoredOnce, type RunningLoad, startLoad, statusCounts } from '../support/load.ts'
import { eventsIn } from '../support/outage.ts'
import { appRecord, eventually, sleep } from '../support/service.ts'
import { readRecords } from '../support/stream.ts'

const APP = 'shop'
const OTHER = 'other'
const SPOILED_MS = 1000

let cluster: Cluster
let relay: BadReplies
let load: RunningLoad

const badReplies = async (): Promise<number> => (await metric(cluster.nodes[0], 'sluice_redis_bad_replies_total')) ?? 0

beforeAll(async () => {
  cluster = await startCluster({ nodes: 0, apps: [appRecord(APP), appRecord(OTHER)] })
  relay = await startBadReplies(cluster.redis.port)
  await cluster.addNode({ REDIS_URL: `redis://127.0.0.1:${relay.port}` })
  load = startLoad({ ports: () => cluster.nodes.map(({ port }) => port), appKey: `ak_${APP}`, unkeyedEvery: 2 })
})
afterAll(() => relay.stop())

it.each(Object.keys(SPOILED))('%s is no answer', async (name) => {
  const before = await badReplies()
  const sent = load.batches.length
  relay.spoil = SPOILED[name]
  await sleep(SPOILED_MS)
  relay.spoil = null
  expect(cluster.nodes, 'the node lives').toHaveLength(1)
  const [node] = cluster.nodes
  expect(await badReplies(), 'each is counted').toBeGreaterThan(before)
  await eventually('Redis is used again', async () => (await partsOf(node))['limits'] === 'ok, in Redis')
  for (const appId of [APP, OTHER]) expectAccepted(await post(node, single(`ak_${appId}`)), 1)
  const batches = load.batches.slice(sent)
  expect(batches.length).toBeGreaterThan(10)
  expect(Object.keys(statusCounts(batches.filter(({ tries }) => tries.length > 0)))).toEqual(['202'])
  expect(node.output()).not.toContain('bug:')
})

it('leaves counters that are exact', { timeout: 2 * AUDITED_MS }, async () => {
  const batches = await load.stop()
  const stored = (await readRecords(cluster.nats.url)).filter(({ app_id }) => app_id === APP)
  const ofLoad = new Set(batches.map(({ batchId }) => batchId))
  expectStoredOnce(
    stored.filter(({ batch_id }) => ofLoad.has(batch_id)),
    batches,
  )
  const exact = async (): Promise<boolean> => (await cluster.used(`ak_${APP}`)).month === eventsIn(stored)
  await eventually('counters are exact', exact, AUDITED_MS)
})
