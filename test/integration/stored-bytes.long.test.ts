// A stream that fills holds the apps that filled it to a quarter of their bytes, until it has room again.

import { afterAll, beforeAll, expect, test } from 'vitest'
import { event, expectAccepted, MAX_BODY_BYTES, post, single } from '../support/client.ts'
import { type Cluster, startCluster } from '../support/cluster.ts'
import { appRecord, eventually, type Service } from '../support/service.ts'
import { STREAM, withStreams } from '../support/stream.ts'

const MIB = 1024 * 1024
/** A node measures the stream each 10 s. */
const MEASURED_MS = 60_000

let cluster: Cluster

beforeAll(async () => {
  const apps = [appRecord('flood', { bytes_per_minute: 64 * MIB }), appRecord('honest')]
  cluster = await startCluster({ nodes: 1, apps })
})

afterAll(() => cluster.stop())

async function allowed(node: Service): Promise<number> {
  const response = await fetch(`http://127.0.0.1:${node.adminPort}/api/explain`, {
    method: 'POST',
    body: JSON.stringify({ app_key: 'ak_flood' }),
  })
  const { limits } = (await response.json()) as { limits: { bytes: { limit: number } } }
  return limits.bytes.limit
}

test('from 80% of its size on, and until it is below 70%', async () => {
  const [node] = cluster.nodes as [Service]
  const { url } = cluster.nats
  const bare = JSON.stringify({ app_key: 'ak_flood', events: [event()] })
  const body = bare.replace('"context"', `${' '.repeat(MAX_BODY_BYTES - bare.length)}"context"`)
  for (let sent = 0; sent < 9; sent++) expectAccepted(await post(node, body), 1)
  expect(await allowed(node)).toBe(64 * MIB)
  await withStreams(url, async ({ streams }) => {
    await streams.update(STREAM, { ...(await streams.info(STREAM)).config, max_bytes: 5.5 * MIB })
  })
  await eventually('it is held to a quarter', async () => (await allowed(node)) === 16 * MIB, MEASURED_MS)
  expect(node.output()).toMatch(
    /stream SLUICE_EVENTS is 80% full .*; most of the last hour on this node stored flood 4\.5 MiB/,
  )
  expectAccepted(await post(node, single('ak_honest')), 1)
  await withStreams(url, ({ streams }) => streams.purge(STREAM, { keep: 7 }))
  await eventually('it has its bytes again', async () => (await allowed(node)) === 64 * MIB, MEASURED_MS)
})
