// Nodes with a spool, as an operator runs them: NATS goes, nodes are killed while they spool and while they send, and what was
// answered 202 is in the stream once and charged once.

import { randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import { batch, expectAccepted, expectRefused, get, post, single } from '../support/client.ts'
import { type Cluster, expectExact, metric, partsOf, startCluster } from '../support/cluster.ts'
import { expectStoredOnce, startLoad, statusCounts } from '../support/load.ts'
import { appRecord, eventually, makeFolder, type Service } from '../support/service.ts'
import { readRecords } from '../support/stream.ts'

const DRAINED_MS = 60_000

let cluster: Cluster
const folder = await makeFolder()
/** By their spool, whatever process works in it. */
const nodes: [Service, Service] = [] as never

const startNode = async (at: number): Promise<void> => {
  nodes[at] = await cluster.addNode({ SLUICE_SPOOL_DIR: join(folder, String(at)) })
}
const spooled = async (node: Service): Promise<number> => (await metric(node, 'sluice_spool_batches')) ?? -1

beforeAll(async () => {
  const apps = [appRecord('spool'), appRecord('small', { events_per_day: 100 }), appRecord('beside')]
  cluster = await startCluster({ nodes: 0, apps })
  await startNode(0)
  await startNode(1)
})

async function expectDrained(): Promise<void> {
  for (const node of cluster.nodes)
    await eventually('the spool is empty', async () => (await spooled(node)) === 0, DRAINED_MS)
}

test('an outage of NATS refuses nothing, and limits hold over both nodes', async () => {
  await cluster.nats.kill()
  for (const node of nodes)
    await eventually('away', async () => (await partsOf(node))['queue'].includes('NATS does not take batches'))
  for (let at = 0; at < 20; at++) expectAccepted(await post(nodes[at % 2], batch('ak_small', 5)), 5)
  // Of 100 events a day: both nodes count what either has on its disk.
  expectRefused(await post(nodes[0], single('ak_small')), 429, 'daily_limit_exceeded')
  expectRefused(await post(nodes[1], single('ak_small')), 429, 'daily_limit_exceeded')
  expect(await spooled(nodes[0])).toBe(10)
  expect((await get(nodes[0].adminPort, '/readyz')).status).toBe(200)
  const headers = { 'Idempotency-Key': randomUUID() }
  expectAccepted(await post(nodes[0], single('ak_spool'), headers), 1)
  for (const node of nodes)
    expect((await post(node, single('ak_spool'), headers)).json).toMatchObject({ deduplicated: true })
  await cluster.nats.restart()
  await expectDrained()
  const stored = await readRecords(cluster.nats.url)
  expect(stored.filter(({ app_id }) => app_id === 'small')).toHaveLength(20)
  expect(stored.filter(({ app_id }) => app_id === 'spool')).toHaveLength(1)
  // Sent, and not read by the audit yet, or read: it counts.
  expectRefused(await post(nodes[1], single('ak_small')), 429, 'daily_limit_exceeded')
  await expectExact(cluster)
}, 300_000)

test('a node that starts without NATS goes by the app records that it read last', async () => {
  await eventually('they are kept', async () => existsSync(join(folder, '1', 'apps.ndjson')), DRAINED_MS)
  await cluster.nats.kill()
  await nodes[1].kill()
  nodes[1] = await cluster.startNode({ SLUICE_SPOOL_DIR: join(folder, '1') })
  await eventually('ready', async () => (await get(nodes[1].adminPort, '/readyz')).status === 200)
  expect((await partsOf(nodes[1]))['apps']).toMatch(/app records not read from NATS yet: read .* ago/)
  expectAccepted(await post(nodes[1], single('ak_spool')), 1)
  const fresh = await cluster.startNode({ SLUICE_SPOOL_DIR: join(folder, 'fresh') })
  expectRefused(await post(fresh, single('ak_spool')), 503, 'service_overloaded')
  expect(await metric(fresh, 'sluice_overloaded_total{reason="apps_unread"}')).toBe(1)
  await fresh.kill()
  await cluster.nats.restart()
  await expectDrained()
}, 300_000)

test('nodes that are killed while they spool and while they send store each batch once', async () => {
  const before = (await readRecords(cluster.nats.url)).length
  const load = startLoad({
    ports: () => cluster.nodes.map(({ port }) => port),
    appKey: 'ak_beside',
    unkeyedEvery: 5,
    pauseMs: 5,
  })
  await cluster.nats.kill()
  await eventually('it spools', async () => (await spooled(nodes[0])) > 50)
  await nodes[0].kill()
  await startNode(0)
  await eventually('both spool', async () => (await spooled(nodes[0])) > 200 && (await spooled(nodes[1])) > 50)
  await cluster.nats.restart()
  await eventually('it sends', async () => (await spooled(nodes[0])) < 200)
  await nodes[0].kill()
  await startNode(0)
  const batches = await load.stop()
  await expectDrained()
  expect(statusCounts(batches)[503] ?? 0).toBe(0)
  const records = await readRecords(cluster.nats.url)
  expect(records.length).toBeGreaterThan(before)
  expectStoredOnce(
    records.filter(({ app_id }) => app_id === 'beside'),
    batches,
  )
  await expectExact(cluster)
}, 300_000)
