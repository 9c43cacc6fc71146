// The bytes of an app's minute over several nodes: each allows its share, and all tell together what was stored.

import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { event, expectAccepted, get, MAX_BODY_BYTES, post, single } from '../support/client.ts'
import { type Cluster, metric, startCluster } from '../support/cluster.ts'
import { appRecord, eventually, makeFolder, roomInMinute, type Service } from '../support/service.ts'
import { readRecords } from '../support/stream.ts'

const MIB = 1024 * 1024
/** More than a few batches take, on a busy machine. */
const SECONDS = 20
const BYTES = 'sluice_stored_bytes_total'

let cluster: Cluster

beforeAll(async () => {
  const apps = ['shared', 'keyed', 'spooled'].map((id) => appRecord(id, { bytes_per_minute: 4 * MIB }))
  cluster = await startCluster({ nodes: 2, apps })
  // A node has heard of the other one within a heartbeat or two.
  for (const node of cluster.nodes)
    await eventually('both nodes are seen', async () => (await allowed(node)) === 2 * MIB)
})

afterAll(() => cluster.stop())

function largest(appKey: string): string {
  const body = JSON.stringify({ app_key: appKey, events: [event()] })
  return body.replace('"context"', `${' '.repeat(MAX_BODY_BYTES - body.length)}"context"`)
}

/** What a node allows in a minute. */
async function allowed(node: Service): Promise<number> {
  const response = await fetch(`http://127.0.0.1:${node.adminPort}/api/explain`, {
    method: 'POST',
    body: JSON.stringify({ app_key: 'ak_shared' }),
  })
  const { limits } = (await response.json()) as { limits: { bytes: { limit: number } } | null }
  return limits?.bytes.limit ?? 0
}

async function storedOf(node: Service, appId: string): Promise<unknown> {
  const { apps } = (await get(node.adminPort, `/api/apps?app=${appId}`)).json as { apps: { stored_bytes: unknown }[] }
  return apps[0]?.stored_bytes
}

/** Until the minute has no room. */
async function fill(node: Service, appKey: string): Promise<number> {
  for (let accepted = 0; ; accepted++) {
    const answer = await post(node, largest(appKey))
    if (answer.status !== 202) {
      expect(answer.json['reason']).toBe('bytes')
      return accepted
    }
  }
}

test('each node allows its share of a minute, and any of them tells what all have stored', async () => {
  await roomInMinute(SECONDS)
  const [one, other] = cluster.nodes as [Service, Service]
  expect(await fill(one, 'ak_shared')).toBe(3)
  expect(await fill(other, 'ak_shared')).toBe(3)
  const records = (await readRecords(cluster.nats.url)).filter(({ app_id: app }) => app === 'shared')
  const bytes = records.reduce((sum, { line }) => sum + Buffer.byteLength(line) + 1, 0)
  expect(records).toHaveLength(6)
  const told = { last_hour: bytes, today: bytes, highest_minute_today: bytes }
  for (const node of [one, other]) {
    await eventually(
      'both are told of',
      async () => JSON.stringify(await storedOf(node, 'shared')) === JSON.stringify(told),
    )
  }
  expect(((await metric(one, BYTES)) ?? 0) + ((await metric(other, BYTES)) ?? 0)).toBe(bytes)
})

test('a node without room for its bytes knows a batch that another one has accepted', async () => {
  await roomInMinute(SECONDS)
  const [one, other] = cluster.nodes as [Service, Service]
  const key = { 'Idempotency-Key': randomUUID() }
  const refused = { 'Idempotency-Key': randomUUID() }
  expectAccepted(await post(one, single('ak_keyed'), key), 1)
  await fill(other, 'ak_keyed')
  expectAccepted(await post(other, largest('ak_keyed'), key), 1, true)
  expect((await post(other, largest('ak_keyed'), refused)).json['reason']).toBe('bytes')
  // Nothing is remembered of it, anywhere.
  expectAccepted(await post(one, single('ak_keyed'), refused), 1)
})

test('a spool counts what it writes, and not again when it sends it on', async () => {
  const node = await cluster.addNode({ SLUICE_SPOOL_DIR: await makeFolder() })
  const before = (await metric(node, BYTES)) ?? 0
  cluster.natsProxy.cut()
  try {
    await eventually('a batch is spooled', async () => {
      expectAccepted(await post(node, single('ak_spooled'), { 'Idempotency-Key': randomUUID() }), 1)
      return (await metric(node, 'sluice_spool_batches')) !== 0
    })
  } finally {
    cluster.natsProxy.heal()
  }
  const stored = ((await metric(node, BYTES)) ?? 0) - before
  await eventually('it is sent on', async () => (await metric(node, 'sluice_spool_batches')) === 0, 60_000)
  const sent = (await readRecords(cluster.nats.url)).filter(({ app_id: app }) => app === 'spooled')
  expect(sent.reduce((sum, { line }) => sum + Buffer.byteLength(line) + 1, 0)).toBe(stored)
  expect(((await metric(node, BYTES)) ?? 0) - before).toBe(stored)
})
