// SIGTERM of a node whose spool is not empty: it ends in time and well, names what is left, and the next process sends it.

import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { batch, expectAccepted, post } from '../support/client.ts'
import { type Cluster, metric, startCluster } from '../support/cluster.ts'
import { appRecord, eventually, makeFolder, type Service } from '../support/service.ts'
import { readRecords } from '../support/stream.ts'

let cluster: Cluster
let folder: string
beforeAll(async () => {
  folder = join(await makeFolder(), 'spool')
  cluster = await startCluster({ nodes: 0, apps: [appRecord('ends')] })
})
afterAll(() => cluster.stop())

const spooled = (node: Service) => metric(node, 'sluice_spool_batches')
const lines = (node: Service): string[] =>
  node
    .output()
    .split('\n')
    .filter((line) => line.includes('not sent before the end of this process'))

test('with NATS away, what is left stays, is named in the log, and comes at the next start', async () => {
  const first = await cluster.addNode({ SLUICE_SPOOL_DIR: folder })
  const ids: string[] = []
  const send = async (node: Service, count: number): Promise<void> => {
    for (let at = 0; at < count; at++) ids.push(expectAccepted(await post(node, batch('ak_ends', 2)), 2))
  }
  await send(first, 1)
  await eventually('it keeps the app records', () => existsSync(join(folder, 'apps.ndjson')))
  await cluster.nats.kill()
  await send(first, 5)
  expect(await first.stop()).toMatchObject({ code: 0 })
  expect(lines(first)).toEqual([expect.stringMatching(/5 batches \([^)]+\), the oldest from \S+Z: not sent/)])
  expect(lines(first)[0]).toContain(`kept in ${folder}; the next one`)
  expect(JSON.parse(lines(first)[0])).toMatchObject({ level: 'warn', part: 'spool' })

  // NATS is still away: what is left and what is new are one.
  const second = await cluster.startNode({ SLUICE_SPOOL_DIR: folder })
  await eventually('it takes batches', async () => (await spooled(second)) === 5)
  await send(second, 2)
  await cluster.nats.restart()
  await eventually('all is sent', async () => (await spooled(second)) === 0)
  const stored = (await readRecords(cluster.nats.url)).map(({ batch_id }) => batch_id)
  expect(stored.toSorted()).toEqual(ids.toSorted())
  expect(await second.stop()).toMatchObject({ code: 0 })
  expect(lines(second)).toEqual([])
})

test('with NATS back just then, it is sent before the end, as far as there is time, and each batch once', async () => {
  const before = (await readRecords(cluster.nats.url)).length
  const node = await cluster.addNode({ SLUICE_SPOOL_DIR: folder })
  await cluster.nats.kill()
  const ids: string[] = []
  for (let at = 0; at < 200; at++) ids.push(expectAccepted(await post(node, batch('ak_ends', 1)), 1))
  await cluster.nats.restart()
  await eventually('it sends', async () => ((await spooled(node)) ?? 0) < 200)
  expect(await node.stop()).toMatchObject({ code: 0 })
  const next = await cluster.addNode({ SLUICE_SPOOL_DIR: folder })
  await eventually('all is sent', async () => (await spooled(next)) === 0)
  const stored = (await readRecords(cluster.nats.url)).slice(before).map(({ batch_id }) => batch_id)
  expect(stored.toSorted()).toEqual(ids.toSorted())
})
