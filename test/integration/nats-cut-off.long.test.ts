// A NATS server that is cut off from the two others of its cluster, and goes on answering the node that is connected to
// it: the node closes no minute that it cannot see, and leaves for another server.

import { beforeAll, expect, it } from 'vitest'
import { batch, post } from '../support/client.ts'
import { type Cluster, expectUsed, logOf, partsOf, startCluster } from '../support/cluster.ts'
import { withConnection } from '../support/jetstream.ts'
import { type NatsServer, startNats } from '../support/nats.ts'
import { freePort } from '../support/programs.ts'
import { type Proxy, startProxy } from '../support/proxy.ts'
import { appRecord, eventually, type Service } from '../support/service.ts'
import { STREAM, withStreams } from '../support/stream.ts'

const ELECTION_MS = 60_000
const MINUTE_MS = 60_000
const DAY_LIMIT = 1000
const BATCH = 100
/** One minute for the cut, one until the next minute is closed everywhere. */
const TEST_MS = 400_000
const STEP_DOWN = `$JS.API.STREAM.LEADER.STEPDOWN.${STREAM}`
const APPS = Array.from({ length: 3 }, (_, at) =>
  appRecord(`cut${at}`, { events_per_minute: 100_000, events_per_day: DAY_LIMIT }),
)

const WITH_ROOM = appRecord('room')

let servers: NatsServer[] = []
/** Between two servers each. Servers tell each other no address of their own. */
let routes: { readonly between: readonly number[]; readonly proxy: Proxy }[] = []
/** From each node to the server that it may go to from its own. */
let otherWays: Proxy[] = []
let cluster: Cluster

beforeAll(async () => {
  const ports = [await freePort(), await freePort(), await freePort()]
  for (const between of [
    [1, 0],
    [2, 0],
    [2, 1],
  ])
    routes.push({ between, proxy: await startProxy(ports[between[1]]) })
  servers = await Promise.all(
    ports.map((port, at) => {
      const names = ['--server_name', nameOf(at), '--cluster_name', 'sluice', '--cluster_advertise', '127.0.0.1:1']
      const own = routes.filter(({ between }) => between[0] === at).map(({ proxy }) => proxy.port)
      // The first server is told its own address, which makes no route.
      const to = (own.length > 0 ? own : [port]).map((route) => `nats://127.0.0.1:${route}`).join(',')
      return startNats([...names, '--cluster', `nats://127.0.0.1:${port}`, '--routes', to])
    }),
  )
  await eventually('the servers have a leader', allAnswer, ELECTION_MS)
  otherWays = await Promise.all(servers.map((_, at) => startProxy(servers[(at + 1) % servers.length].port)))
  for (const way of otherWays) way.cut()
  const env = { NATS_URL: servers[0].url, SLUICE_STREAM_REPLICAS: '3', SLUICE_PARTITIONS: '1' }
  cluster = await startCluster({ nodes: 0, apps: [], env })
  for (const [at, { url }] of servers.entries())
    await cluster.addNode({ NATS_URL: `${url},nats://127.0.0.1:${otherWays[at].port}` })
  for (const way of otherWays) way.heal()
  await cluster.addApps([...APPS, WITH_ROOM])
}, 3 * ELECTION_MS)

const nameOf = (server: number) => `server-${server}`
const untilSecond = (second: number) =>
  eventually(`second ${second}`, () => Math.floor((Date.now() % MINUTE_MS) / 1000) === second, 2 * MINUTE_MS)

async function allAnswer(): Promise<boolean> {
  const asked = servers.map(({ url }) =>
    withStreams(url, (streams) => streams.getAccountInfo()).then(Boolean, () => false),
  )
  return (await Promise.all(asked)).every(Boolean)
}

/** The node that audits, where only its server holds what it reads the stream through, and another leads the stream. */
async function auditorThatCanBeCut(): Promise<number | null> {
  const parts = await Promise.all(cluster.nodes.map((node) => partsOf(node)))
  const auditor = parts.findIndex(({ audit }) => /partitions 0/.test(audit))
  return await withStreams(servers[0].url, async (streams) => {
    const stream = await streams.streams.info(STREAM)
    const readers = await streams.consumers.list(STREAM).next()
    if (auditor === -1 || readers.length === 0) return null
    // Both are where NATS wants them, so they are moved until they are where the test does.
    for (const { name, cluster: place } of readers)
      if (place?.leader !== nameOf(auditor)) await streams.consumers.delete(STREAM, name)
    if (stream.cluster?.leader === nameOf(auditor))
      await withConnection(servers[0].url, (connection) => connection.request(STEP_DOWN))
    const isThere = readers.every(({ cluster: place }) => place?.leader === nameOf(auditor))
    return isThere && stream.cluster?.leader !== nameOf(auditor) ? auditor : null
  })
}

/** Returns how many events were accepted, at most, of one app. */
async function sendToEach(node: Service, accepted: Map<string, number>, batches: number): Promise<number> {
  for (let sent = 0; sent < batches; sent++) {
    const answers = await Promise.all(APPS.map(({ app_key }) => post(node, batch(app_key, BATCH))))
    for (const [at, { status }] of answers.entries()) {
      const { app_key } = APPS[at]
      if (status === 202) accepted.set(app_key, (accepted.get(app_key) ?? 0) + BATCH)
    }
  }
  return Math.max(...accepted.values())
}

it(
  'lets its node close no minute that it cannot see, and go to another server',
  async () => {
    let auditor: number | null = null
    await eventually(
      'the server of the auditor can be cut off',
      async () => (auditor = await auditorThatCanBeCut()) !== null,
      2 * MINUTE_MS,
    )
    const at = Number(auditor)
    const cut = cluster.nodes[at]
    const other = cluster.nodes[(at + 1) % servers.length]
    const accepted = new Map<string, number>()
    await untilSecond(57)
    for (const { between, proxy } of routes) if (between.includes(at)) proxy.cut()
    expect(await sendToEach(other, accepted, 8)).toBe(800)
    // The minute is closed at second 5 wherever it can be.
    await untilSecond(12)
    await sendToEach(other, accepted, 8)
    expect([...accepted.values()].filter((events) => events > DAY_LIMIT)).toEqual([])
    expect(logOf(cut).filter(({ msg }) => msg.includes('audit of the limits failed'))).not.toEqual([])
    const takesAgain = async () => (await post(cut, batch(WITH_ROOM.app_key))).status === 202
    await eventually('the node has left the server', takesAgain, ELECTION_MS)
    for (const { proxy } of routes) proxy.heal()
    await eventually('the three servers are one cluster again', allAnswer, ELECTION_MS)
    for (const [appKey, events] of accepted) await expectUsed(cluster, appKey, events, 3 * MINUTE_MS)
  },
  TEST_MS,
)
