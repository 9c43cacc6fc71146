// What NATS may not have synced stays kept, and what it has goes, also in a long drain.

import type { NatsConnection } from '@nats-io/transport-node'
import { expect, test, vi } from 'vitest'
import { partitionOf } from '../../../../src/contract/partition.ts'
import { RealDisk } from '../../../../src/queue/journal/disk.ts'
import { CursorKeeper } from '../../../../src/queue/spool/cursor-keeper.ts'
import { DamagedSegments } from '../../../../src/queue/spool/damaged-segments.ts'
import { readCursor, type SpoolCursor } from '../../../../src/queue/spool/spool-cursor.ts'
import type { SpooledRecord } from '../../../../src/queue/spool/spool-records.ts'
import { makeFolder } from '../../../support/service.ts'
import { ManualTimers } from '../../../support/timers.ts'

const SYNC_MS = 1000
const START = { segment: 1, offset: 0 }
const connection = {} as NatsConnection

class SlowDisk extends RealDisk {
  during: (() => void) | null = null

  override async rename(from: string, to: string): Promise<void> {
    this.during?.()
    this.during = null
    await super.rename(from, to)
  }
}

function recordOf(offset: number, bytes: number, appId = 'demo'): SpooledRecord {
  return { head: { appId }, line: Buffer.alloc(bytes), end: { segment: 1, offset } } as unknown as SpooledRecord
}

async function open(end: number, syncMs = SYNC_MS) {
  const uncounted = { sinceMs: Number.POSITIVE_INFINITY }
  const [directory, timers, disk, renewed] = [
    await makeFolder(),
    new ManualTimers(),
    new SlowDisk(),
    vi.fn<() => void>(),
  ]
  const journal = {
    position: () => ({ segment: 1, offset: end }),
    removeBefore: () => Promise.resolve(),
    renew: () => {
      renewed()
      return Promise.resolve(null)
    },
  }
  const cursor = { id: 'abcdef012345', released: START, sent: START, reserved: START, witness: null, sequences: [0, 0] }
  const keptBefore = { batches: 0, bytes: 0 }
  const notices: string[] = []
  const keeper = new CursorKeeper(
    {
      journal,
      directory,
      damaged: new DamagedSegments(directory, disk),
      disk,
      timers,
      cursor,
      keptBefore,
      syncMs: () => syncMs,
      uncountedSinceMs: () => uncounted.sinceMs,
      onNotice: (text) => void notices.push(text),
    },
    (error) => {
      throw error
    },
    () => {},
  )
  const acked = (offset: number): void => {
    keeper.kept.add({ sequence: offset, messageId: `id${offset}` }, recordOf(offset, 100))
    keeper.move({ segment: 1, offset })
  }
  const look = async (): Promise<void> => {
    timers.block(1000)
    keeper.look(connection)
    await vi.waitFor(() => expect(keeper.isBusy).toBe(false))
  }
  const saved = async (): Promise<SpoolCursor> => {
    const read = await readCursor(directory, disk)
    if (read === null || read === 'damaged') throw new Error('there is no whole cursor')
    return read
  }
  const released = async (): Promise<unknown> => (await saved()).released
  return { keeper, disk, acked, look, saved, released, renewed, uncounted, timers, notices }
}

test('what is acknowledged while the cursor is written stays kept', async () => {
  const { keeper, disk, acked, look, released, renewed } = await open(100)
  keeper.hasRead({ segment: 1, offset: 100 })
  disk.during = () => acked(100)
  await keeper.save()
  expect(renewed).not.toHaveBeenCalled()
  expect(keeper.kept.isEmpty).toBe(false)
  await look()
  expect(await released()).toEqual(START)
  expect(keeper.kept.takeAll()).toEqual({ batches: 1, bytes: 100 })
})

test('a group holds what is before its end, and nothing that was acknowledged behind it', async () => {
  const { keeper, acked } = await open(300)
  acked(100)
  keeper.kept.add({ sequence: 7, messageId: 'late' }, recordOf(300, 50))
  await keeper.save()
  keeper.kept.releaseUpTo({ segment: 1, offset: 100 })
  expect(keeper.kept.takeAll()).toEqual({ batches: 1, bytes: 50 })
})

test('what NATS has synced is let go of while more is sent', async () => {
  const { keeper, acked, look, released } = await open(10_000)
  vi.spyOn(keeper.kept, 'isThere').mockResolvedValue(true)
  for (let end = 100; end <= 1000; end += 100) {
    acked(end)
    await look()
  }
  expect(await released()).toMatchObject({ offset: expect.toSatisfy((offset: number) => offset >= 400) as number })
})

test('what NATS has synced at once is kept until the audit counts it', async () => {
  const { keeper, acked, look, released, uncounted } = await open(10_000, 0)
  vi.spyOn(keeper.kept, 'isThere').mockResolvedValue(true)
  acked(100)
  await look()
  uncounted.sinceMs = 1500
  acked(200)
  await look()
  await look()
  expect(await released()).toMatchObject({ offset: 100 })
  uncounted.sinceMs = Number.POSITIVE_INFINITY
  await look()
  expect(await released()).toMatchObject({ offset: 200 })
})

test('an audit that counts nothing is waited for an hour', async () => {
  const { keeper, timers, acked, look, released, uncounted } = await open(10_000, 0)
  vi.spyOn(keeper.kept, 'isThere').mockResolvedValue(true)
  uncounted.sinceMs = timers.monotonicMs()
  acked(100)
  await look()
  timers.block(3_500_000)
  await look()
  expect(await released()).toEqual(START)
  timers.block(100_000)
  await look()
  expect(await released()).toMatchObject({ offset: 100 })
})

test('the cursor names the newest message of all that is kept, and of each partition, also where an older one was found last', async () => {
  const { keeper, acked, saved } = await open(300)
  const ofDemo = partitionOf('demo', 2)
  const other = ['shop', 'game', 'blog', 'maps'].find((appId) => partitionOf(appId, 2) !== ofDemo)
  const bySequence = (...sequences: number[]): number[] => (ofDemo === 0 ? sequences : sequences.toReversed())
  acked(100)
  await keeper.save()
  keeper.kept.add({ sequence: 7, messageId: 'found' }, recordOf(200, 50))
  keeper.kept.add({ sequence: 9, messageId: 'other' }, recordOf(300, 50, other))
  keeper.move({ segment: 1, offset: 300 })
  await keeper.save()
  expect(await saved()).toMatchObject({ witness: { sequence: 100, messageId: 'id100' }, sequences: bySequence(100, 9) })
  keeper.kept.releaseUpTo({ segment: 1, offset: 300 })
  await keeper.save()
  expect(await saved()).toMatchObject({ witness: null, sequences: [0, 0] })
})

test('what NATS has lost is seen at the next look, long before it would be let go of', async () => {
  const { keeper, acked, look } = await open(300)
  const isThere = vi.spyOn(keeper.kept, 'isThere').mockResolvedValue(true)
  acked(100)
  await look()
  await look()
  expect(keeper.hasLost).toBe(false)
  isThere.mockRejectedValueOnce(new Error('timeout'))
  await look()
  expect(keeper.hasLost).toBe(false)
  isThere.mockResolvedValueOnce(false)
  await look()
  expect(keeper.hasLost).toBe(true)
})

test('a NATS that does not say for long whether it still has what was sent is told, once, and asked on', async () => {
  const { keeper, acked, look, released, notices, timers } = await open(100)
  const asked = vi.spyOn(keeper.kept, 'isThere').mockRejectedValue(new Error('Permissions Violation'))
  acked(100)
  for (let looks = 0; looks < 9; looks += 1) await look()
  const early = [...notices]
  for (let looks = 0; looks < 20; looks += 1) await look()
  expect(early).toEqual([])
  expect(notices).toEqual([expect.stringMatching(/^the spool keeps what it has sent, .*: Permissions Violation$/)])
  asked.mockResolvedValue(true)
  timers.block(3_600_000)
  await look()
  await look()
  expect(await released()).not.toEqual(START)
})
