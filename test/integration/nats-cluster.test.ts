// JetStream as production has it: three servers with a copy of the stream on each, of which one is lost under load.

import { jetstreamManager } from '@nats-io/jetstream'
import { afterEach, describe, expect, it } from 'vitest'
import { makeRecord } from '../support/journal.ts'
import {
  countBatches,
  openQueue,
  publishTo,
  readStreamPlainly,
  streamConfig,
  withConnection,
  NEW_STREAM,
} from '../support/jetstream.ts'
import { type ClusteredNatsServer, startNats, startNatsCluster } from '../support/nats.ts'
import { eventually, sleep } from '../support/service.ts'

/** Servers that find each other, and then choose a leader for JetStream and for the stream. */
const ELECTION_MS = 45_000
const RETRY_MS = 50

describe('a stream of three replicas', () => {
  const started: (() => Promise<unknown>)[] = []
  afterEach(async () => {
    for (const stop of started.splice(0).reverse()) await stop()
  })

  async function startCluster(): Promise<readonly ClusteredNatsServer[]> {
    const servers = await startNatsCluster(3)
    for (const server of servers) started.push(() => server.stop())
    return servers
  }

  it('loses nothing and stores nothing twice when its leader is killed under load, and takes records again', async () => {
    const servers = await startCluster()
    const { queue, notices } = openQueue(servers.map(({ url }) => url).join(','), {
      newStream: { ...NEW_STREAM, replicas: 3 },
    })
    started.push(() => queue.stop())
    await eventually('the stream is there', () => queue.isUp, ELECTION_MS)
    expect(notices).toContain('stream SLUICE_EVENTS was created with 3 replicas')
    expect((await whileItElects(() => streamConfig(servers[0].url))).num_replicas).toBe(3)

    const ends: ('durable' | 'duplicate')[] = []
    const sent: string[] = []
    let refusals = 0
    // As a client does: sends again under its key until it is told that the batch is stored.
    const sendUntilStored = async (): Promise<void> => {
      const record = makeRecord({ keyed: true })
      sent.push(record.batchId)
      for (;;) {
        const { settlement } = await publishTo(queue, record)
        if (settlement === 'durable' || settlement === 'duplicate') {
          ends.push(settlement)
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
        if (index % 10 === 9) await sleep(10)
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

  it('is not made on a server that is alone, and the reason is told', async () => {
    const server = await startNats()
    started.push(() => server.stop())
    const { queue, notices } = openQueue(server.url, { newStream: { ...NEW_STREAM, replicas: 3 } })
    started.push(() => queue.stop())
    await eventually('the reason is told', () =>
      notices.some((notice) => /cannot be created: .*replicas > 1/.test(notice)),
    )
    expect(queue.isUp).toBe(false)
    expect(await publishTo(queue, makeRecord())).toMatchObject({ settlement: 'unavailable' })
  })
})

/** JetStream's API gives no answer while its own leader, which may be on the server that was lost, is being chosen. */
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
