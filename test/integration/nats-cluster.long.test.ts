// JetStream as in production: three servers with a copy of the stream each, one of which is killed under load.

import { jetstreamManager } from '@nats-io/jetstream'
import { describe, expect, it, onTestFinished } from 'vitest'
import { type Cluster, startCluster } from '../support/cluster.ts'
import {
  countBatches,
  NEW_STREAM,
  openQueue,
  publishTo,
  readStreamPlainly,
  streamConfig,
  withConnection,
} from '../support/jetstream.ts'
import { makeRecord } from '../support/journal.ts'
import { acceptedOf, expectStoredOnce, type RunningLoad, startLoad, statusCounts } from '../support/load.ts'
import { type ClusteredNatsServer, needCurrentNats, startNats, startNatsCluster } from '../support/nats.ts'
import { appRecord, eventually, sleep } from '../support/service.ts'
import { readRecords, withStreams } from '../support/stream.ts'

/** For the servers to find each other, and to elect the leaders of JetStream and of the stream. */
const ELECTION_MS = 45_000
const RETRY_MS = 50
/** After ten records each: the leader is killed in the middle of them. */
const SEND_PAUSE_MS = 10

describe('a stream of three replicas', () => {
  async function startCluster(): Promise<readonly ClusteredNatsServer[]> {
    const servers = await startNatsCluster(3)
    for (const server of servers) onTestFinished(() => server.stop())
    return servers
  }

  it('loses nothing and stores nothing twice when its leader is killed under load, and takes records again', async () => {
    const servers = await startCluster()
    const { queue, notices } = openQueue(servers.map(({ url }) => url).join(','), {
      newStream: { ...NEW_STREAM, replicas: 3 },
    })
    onTestFinished(() => queue.stop())
    await eventually('the stream is there', () => queue.isUp, ELECTION_MS)
    expect(notices).toContain('stream SLUICE_EVENTS was created with 3 replicas')
    expect((await whileItElects(() => streamConfig(servers[0].url))).num_replicas).toBe(3)

    const ends: ('durable' | 'duplicate')[] = []
    const sent: string[] = []
    let refusals = 0
    // Like a client, it repeats a batch under its key until it is accepted.
    const sendUntilStored = async (): Promise<void> => {
      const record = makeRecord({ keyed: true })
      sent.push(record.batchId)
      for (;;) {
        const { ack } = await publishTo(queue, record)
        if (ack === 'durable' || ack === 'duplicate') {
          ends.push(ack)
          return
        }
        refusals += 1
        await sleep(RETRY_MS)
      }
    }
    const load: Promise<void>[] = []
    const send = async (count: number): Promise<void> => {
      for (let index = 0; index < count; index += 1) {
        load.push(sendUntilStored())
        if (index % 10 === 9) await sleep(SEND_PAUSE_MS)
      }
    }
    await send(300)
    const leader = await whileItElects(() => leaderOf(servers[0].url))
    const lost = servers.find(({ serverName }) => serverName === leader)
    expect(lost).toBeDefined()
    const survivor = servers.find((server) => server !== lost) as ClusteredNatsServer
    const loading = send(300)
    await lost?.kill()
    await loading
    await Promise.all(load)

    expect(refusals).toBeGreaterThan(0)
    expect(ends).toHaveLength(600)
    const counts = await whileItElects(async () => {
      const next = await leaderOf(survivor.url)
      if (next === undefined || next === leader) throw new Error('there is no other leader yet')
      return countBatches(await readStreamPlainly(survivor.url))
    })
    expect([...counts.keys()].sort()).toEqual([...sent].sort())
    expect([...counts.values()].filter((count) => count !== 1)).toEqual([])
  })

  it('is not created on a single server, and the reason is reported', async () => {
    const server = await startNats()
    onTestFinished(() => server.stop())
    const { queue, notices } = openQueue(server.url, { newStream: { ...NEW_STREAM, replicas: 3 } })
    onTestFinished(() => queue.stop())
    await eventually('the reason is told', () =>
      notices.some((notice) => /cannot be created: .*replicas > 1/.test(notice)),
    )
    expect(queue.isUp).toBe(false)
    expect(await publishTo(queue, makeRecord())).toMatchObject({ ack: 'nats_away' })
  })
})

describe('the service over three servers of the current NATS', () => {
  it('loses no 202 and stores no key twice when the leader of the stream is killed under load', async (context) => {
    const servers = await startNatsCluster(3, needCurrentNats(context))
    const urls = servers.map(({ url }) => url).join(',')
    let cluster: Cluster | null = null
    let load: RunningLoad | null = null
    try {
      await whileItElects(() => withStreams(servers[0].url, (streams) => streams.getAccountInfo()))
      cluster = await startCluster({ nodes: 0, apps: [], env: { NATS_URL: urls, SLUICE_STREAM_REPLICAS: '3' } })
      await cluster.addNode()
      await cluster.addNode()
      await cluster.addApps([appRecord('copied', { events_per_minute: 1_000_000 })])
      const { nodes } = cluster
      const running = startLoad({ ports: () => nodes.map(({ port }) => port), appKey: 'ak_copied', unkeyedEvery: 4 })
      load = running
      const accepted = () => acceptedOf(running.batches).length
      await eventually('batches are accepted', () => accepted() > 100)
      const leader = await whileItElects(() => leaderOf(servers[0].url))
      const lost = servers.find(({ serverName }) => serverName === leader)
      await lost?.kill()
      const acceptedBefore = accepted()
      await eventually('batches are accepted again', () => accepted() > acceptedBefore + 100, ELECTION_MS)
      await lost?.restart()
      const acceptedWithTwo = accepted()
      await eventually('the lost server is back', () => accepted() > acceptedWithTwo + 100, ELECTION_MS)
      const batches = await load.stop()

      expect(Object.keys(statusCounts(batches)).filter((status) => !['202', '503'].includes(status))).toEqual([])
      const survivor = servers.find((server) => server !== lost) as ClusteredNatsServer
      expectStoredOnce(await whileItElects(() => readRecords(survivor.url)), batches)
    } finally {
      await load?.stop()
      await cluster?.stop()
      await Promise.all(servers.map((server) => server.stop()))
    }
  })
})

/** JetStream's API does not answer while its leader is elected, which may have been on the killed server. */
async function whileItElects<T>(ask: () => Promise<T>): Promise<T> {
  const deadlineMs = Date.now() + ELECTION_MS
  for (;;) {
    try {
      return await ask()
    } catch (error) {
      if (Date.now() > deadlineMs) throw error
      await sleep(RETRY_MS)
    }
  }
}

async function leaderOf(url: string): Promise<string | undefined> {
  return await withConnection(url, async (connection) => {
    const manager = await jetstreamManager(connection)
    return (await manager.streams.info('SLUICE_EVENTS')).cluster?.leader
  })
}
