// What sluice learns of three real NATS servers while they go and come back.

import { describe, expect, it, onTestFinished } from 'vitest'
import { DurabilityWatch } from '../../src/nats/durability-watch.ts'
import { NEW_STREAM, openQueue, publishTo } from '../support/jetstream.ts'
import { makeRecord } from '../support/journal.ts'
import { startNatsCluster } from '../support/nats.ts'
import { eventually } from '../support/service.ts'

const ELECTION_MS = 45_000

describe('three servers with a copy each', () => {
  it('are followed as they go: the line changes once with each, and without a majority there is no leader', async () => {
    const servers = await startNatsCluster(3)
    for (const server of servers) onTestFinished(() => server.stop())
    const url = servers.map((server) => server.url).join(',')
    const { queue, notices: ofQueue } = openQueue(url, { newStream: { ...NEW_STREAM, replicas: 3 } })
    onTestFinished(() => queue.stop())
    await eventually('the stream is there', () => queue.isUp, ELECTION_MS)
    const notices: string[] = []
    const onNotice = (message: string): void => void notices.push(message)
    const options = { monitorUrls: [], requireSync: false, lookIntervalMs: 100 }
    const watch = new DurabilityWatch({ nats: url, onNotice, ...options })
    onTestFinished(() => watch.stop())
    await eventually('all copies are current', () => watch.replicas?.current === 3, ELECTION_MS)
    expect(watch.replicas).toEqual({ current: 3, lagging: 0, offline: 0 })
    expect(watch.hasLeader).toBe(true)
    expect(watch.status.reason).not.toContain('is offline')

    await servers[2].kill()
    await eventually('it is seen to be gone', () => watch.replicas?.offline === 1, ELECTION_MS)
    expect(watch.status).toMatchObject({ state: 'warn', reason: expect.stringContaining('server-2 is offline') })
    // More than one where another copy lags while a leader is elected.
    const said = notices.filter((notice) => notice.includes('SLUICE_EVENTS: server-2 is offline'))
    expect(said).not.toHaveLength(0)
    expect(new Set(said).size).toBe(said.length)

    await servers[1].kill()
    await eventually('nobody leads', () => watch.hasLeader === false, ELECTION_MS)
    expect(watch.replicas).toBeNull()
    const connected = (): number => ofQueue.filter((notice) => notice === 'NATS: connected').length
    const before = connected()
    for (let sent = 0; sent < 5; sent++) {
      const { ack } = await publishTo(queue, makeRecord())
      expect(['durable', 'duplicate']).not.toContain(ack)
    }
    expect(connected()).toBe(before)
    await Promise.all([servers[1].restart(), servers[2].restart()])
    await eventually('all copies are current again', () => watch.replicas?.current === 3, ELECTION_MS)
  })
})
