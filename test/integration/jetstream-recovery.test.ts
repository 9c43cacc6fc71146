// What a single node brings back from its stream, through a stream that was made anew.

import { isDeepStrictEqual } from 'node:util'
import { jetstreamManager } from '@nats-io/jetstream'
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import type { JetStreamQueue } from '../../src/queue/jetstream.ts'
import type { Recovery } from '../../src/queue/recovery.ts'
import { writeSnapshot } from '../../src/queue/snapshot.ts'
import { recoverFromStream, StreamPositions } from '../../src/queue/stream-recovery.ts'
import { addStream, openReadyQueue, publishTo, withConnection } from '../support/jetstream.ts'
import { makeRecord, withFolder } from '../support/journal.ts'
import { type NatsServer, startNats } from '../support/nats.ts'
import { eventually } from '../support/service.ts'

let nats: NatsServer
beforeAll(async () => {
  nats = await startNats()
})
beforeEach(() => nats.restart({ empty: true }))
afterAll(() => nats.stop())

const nowMs = Date.now()

async function recovered(dataDirectory: string): Promise<{ costs: number[]; recovery: Recovery }> {
  const costs: number[] = []
  const recovery = await recoverFromStream(nats.url, {
    dataDirectory,
    nowMs,
    onSnapshot: () => null,
    onUsage: (_appId, cost) => void costs.push(cost),
    onKey: () => {},
    onCorrupt: () => {},
  })
  return { costs, recovery }
}

async function store(queue: JetStreamQueue, costs: readonly number[]): Promise<void> {
  for (const events of costs) {
    const outcome = await publishTo(queue, makeRecord({ keyed: true, events, receivedAtMs: nowMs }))
    expect(outcome).toMatchObject({ settlement: 'durable' })
  }
}

/** As the service does it: what the snapshot covers is not counted again. */
async function takeSnapshot(dataDirectory: string, positions: StreamPositions): Promise<void> {
  const position = positions.position()
  await writeSnapshot(
    dataDirectory,
    { writtenAtMs: nowMs, position, keysFrom: positions.keysFrom(nowMs), usage: {} },
    'stream',
  )
}

it('counts what came after the snapshot, and nothing that it covers', async () => {
  await withFolder(async (folder) => {
    const { queue } = await openReadyQueue(nats.url)
    const positions = new StreamPositions(queue, (await recovered(folder)).recovery, () => nowMs)
    await store(queue, [1, 2, 3])
    await takeSnapshot(folder, positions)
    await store(queue, [4, 5])
    positions.stop()
    await queue.stop()
    const { costs, recovery } = await recovered(folder)
    expect(costs).toEqual([4, 5])
    // A process that stores nothing more says the same of the stream's end.
    const idle = new StreamPositions(queue, recovery, () => nowMs)
    idle.stop()
    expect(idle.position()).toEqual({ segment: recovery.end?.segment, offset: 6 })
  })
})

it('counts all of a stream that was made anew while no process ran', async () => {
  await withFolder(async (folder) => {
    const { queue } = await openReadyQueue(nats.url)
    const positions = new StreamPositions(queue, (await recovered(folder)).recovery, () => nowMs)
    await store(queue, [1, 2, 3])
    await takeSnapshot(folder, positions)
    positions.stop()
    await queue.stop()
    await nats.restart({ empty: true })
    const { queue: next } = await openReadyQueue(nats.url)
    await store(next, [4, 5])
    await next.stop()
    expect((await recovered(folder)).costs).toEqual([4, 5])
  })
})

it('places a snapshot in the stream that was made anew under a running process', async () => {
  await withFolder(async (folder) => {
    const { queue } = await openReadyQueue(nats.url)
    const positions = new StreamPositions(queue, (await recovered(folder)).recovery, () => nowMs)
    await store(queue, [1, 2, 3])
    await withConnection(nats.url, async (connection) => {
      await (await jetstreamManager(connection)).streams.delete('SLUICE_EVENTS')
    })
    await addStream(nats.url)
    await store(queue, [4])
    const { end } = (await recovered(folder)).recovery
    await eventually('it has looked at the new stream', () => isDeepStrictEqual(positions.position(), end))
    await nats.restart({ empty: true })
    await eventually('nothing of the next one is marked', () => queue.place.settled === 0)
    expect(queue.place.mark).toBe(0)
    await eventually('the queue is up', () => queue.isUp)
    await takeSnapshot(folder, positions)
    await store(queue, [5, 6])
    positions.stop()
    await queue.stop()
    expect((await recovered(folder)).costs).toEqual([5, 6])
  })
})
