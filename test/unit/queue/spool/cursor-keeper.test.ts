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

/** Of 100 bytes, of which a segment holds three. */
function recordOf(number: number, appId = 'demo'): SpooledRecord {
  const position = (at: number) => ({ segment: 1 + Math.floor(at / 3), offset: (at % 3) * 100 })
  const { segment, offset } = position(number)
  const end = { segment, offset: offset + 100 }
  return { head: { appId }, line: Buffer.alloc(100), start: { segment, offset }, end } as unknown as SpooledRecord
}

/** A journal with so many records. */
async function open(records: number, syncMs = SYNC_MS) {
  const uncounted = { sinceMs: Number.POSITIVE_INFINITY }
  const [directory, timers, disk] = [await makeFolder(), new ManualTimers(), new SlowDisk()]
  let end = records === 0 ? START : recordOf(records - 1).end
  const renewed = vi.fn<() => void>()
  const removed: number[] = []
  const journal = {
    position: () => end,
    removeBefore: (segment: number) => {
      removed.push(segment)
      return Promise.resolve()
    },
    renew: () => {
      renewed()
      end = { segment: end.segment + 1, offset: 0 }
      return Promise.resolve(end.segment)
    },
  }
  const cursor = { id: 'abcdef012345', released: START, sent: START, reserved: START, witness: null, sequences: [0, 0] }
  const notices: string[] = []
  const keeper = new CursorKeeper(
    {
      journal,
      directory,
      damaged: new DamagedSegments(directory, disk),
      disk,
      timers,
      cursor,
      syncMs: () => syncMs,
      uncountedSinceMs: () => uncounted.sinceMs,
      onNotice: (text) => void notices.push(text),
    },
    (error) => {
      throw error
    },
    () => {},
  )
  const acked = (number: number): void => {
    keeper.kept.add({ sequence: number + 1, messageId: `id${number}` }, recordOf(number))
    keeper.move(recordOf(number).end)
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
  const released = async (): Promise<number> => (await saved()).released.segment
  const append = (): void => void (end = { segment: end.segment, offset: end.offset + 100 })
  return { keeper, disk, acked, look, saved, released, renewed, removed, append, uncounted, timers, notices }
}

test('what is acknowledged while the cursor is written stays kept', async () => {
  const { keeper, disk, acked, look, released, removed } = await open(6)
  for (let number = 0; number < 3; number += 1) acked(number)
  disk.during = () => acked(3)
  await keeper.save()
  expect(await released()).toBe(1)
  await look()
  expect(await released()).toBe(1)
  expect(new Set(removed)).toEqual(new Set([1]))
})

test('a segment that NATS has synced is let go of while more is sent, once all of it is sent', async () => {
  const { keeper, acked, look, released } = await open(30, 1500)
  vi.spyOn(keeper.kept, 'isThere').mockResolvedValue(true)
  acked(0)
  for (let looks = 0; looks < 5; looks += 1) await look()
  expect(await released()).toBe(1)
  for (let number = 1; number < 16; number += 1) {
    acked(number)
    await look()
  }
  // The last one of the fifth was acknowledged two seconds ago.
  expect(await released()).toBe(5)
  await look()
  expect(await released()).toBe(6)
})

test('a segment is kept where its message of one second is gone, though later ones of it are there', async () => {
  const { keeper, acked, look, released } = await open(30)
  const isThere = vi.spyOn(keeper.kept, 'isThere').mockResolvedValue(true)
  acked(0)
  await look()
  for (let number = 1; number < 5; number += 1) acked(number)
  isThere.mockImplementation(({ witness }) => Promise.resolve(witness?.messageId !== 'id0'))
  await look()
  expect([keeper.hasLost, await released()]).toEqual([false, 1])
  for (let looks = 0; looks < 4; looks += 1) await look()
  expect([keeper.hasLost, await released()]).toEqual([true, 1])
})

test('what is kept when all is sent gets a segment to which nothing is added, a few times a minute at the most', async () => {
  const { keeper, acked, look, released, renewed, removed, append, timers } = await open(1)
  vi.spyOn(keeper.kept, 'isThere').mockResolvedValue(true)
  acked(0)
  await look()
  expect([renewed.mock.calls.length, await released(), keeper.isEmpty]).toEqual([1, 1, false])
  for (let looks = 0; looks < 4; looks += 1) {
    append()
    keeper.kept.add({ sequence: 9, messageId: 'more' }, recordOf(3 + looks))
    keeper.move({ segment: 2, offset: 100 * (looks + 1) })
    await look()
  }
  expect([renewed.mock.calls.length, removed.at(-1)]).toEqual([1, 2])
  timers.block(10_000)
  for (let looks = 0; looks < 4; looks += 1) await look()
  expect([renewed.mock.calls.length, removed.at(-1), keeper.isEmpty]).toEqual([2, 3, true])
})

test('what NATS has synced at once is kept until the audit counts it', async () => {
  const { keeper, acked, look, released, uncounted, timers } = await open(30, 0)
  vi.spyOn(keeper.kept, 'isThere').mockResolvedValue(true)
  for (let number = 0; number < 4; number += 1) acked(number)
  await look()
  await look()
  expect(await released()).toBe(2)
  uncounted.sinceMs = timers.monotonicMs()
  for (let number = 4; number < 8; number += 1) acked(number)
  await look()
  await look()
  expect(await released()).toBe(2)
  uncounted.sinceMs = Number.POSITIVE_INFINITY
  await look()
  await look()
  expect(await released()).toBe(3)
})

test('an audit that counts nothing is waited for an hour', async () => {
  const { keeper, timers, acked, look, released, uncounted } = await open(30, 0)
  vi.spyOn(keeper.kept, 'isThere').mockResolvedValue(true)
  uncounted.sinceMs = timers.monotonicMs()
  for (let number = 0; number < 4; number += 1) acked(number)
  await look()
  timers.block(3_500_000)
  await look()
  expect(await released()).toBe(1)
  timers.block(100_000)
  await look()
  await look()
  expect(await released()).toBe(2)
})

test('the cursor names the newest message of all that is kept, and of each partition, also where an older one was found last', async () => {
  const { keeper, acked, look, saved } = await open(30)
  vi.spyOn(keeper.kept, 'isThere').mockResolvedValue(true)
  const ofDemo = partitionOf('demo', 2)
  const other = ['shop', 'game', 'blog', 'maps'].find((appId) => partitionOf(appId, 2) !== ofDemo)
  const bySequence = (...sequences: number[]): number[] => (ofDemo === 0 ? sequences : sequences.toReversed())
  acked(99)
  await keeper.save()
  keeper.kept.add({ sequence: 7, messageId: 'found' }, recordOf(100))
  keeper.kept.add({ sequence: 9, messageId: 'other' }, recordOf(101, other))
  await keeper.save()
  expect(await saved()).toMatchObject({ witness: { sequence: 100, messageId: 'id99' }, sequences: bySequence(100, 9) })
  acked(102)
  keeper.kept.clear()
  await look()
  expect(await saved()).toMatchObject({ witness: null, sequences: [0, 0] })
})

test('what NATS has lost is seen at the next look, long before it would be let go of', async () => {
  const { keeper, acked, look } = await open(3)
  const isThere = vi.spyOn(keeper.kept, 'isThere').mockResolvedValue(true)
  acked(0)
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
  const { keeper, acked, look, released, notices, timers } = await open(1)
  const asked = vi.spyOn(keeper.kept, 'isThere').mockRejectedValue(new Error('Permissions Violation'))
  acked(0)
  for (let looks = 0; looks < 9; looks += 1) await look()
  const early = [...notices]
  for (let looks = 0; looks < 20; looks += 1) await look()
  expect(early).toEqual([])
  expect(notices).toEqual([expect.stringMatching(/^the spool keeps what it has sent, .*: Permissions Violation$/)])
  asked.mockResolvedValue(true)
  timers.block(3_600_000)
  await look()
  await look()
  expect(await released()).toBe(2)
})
