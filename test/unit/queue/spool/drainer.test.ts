// The drainer of a spool over a stream that takes everything, and a disk that can fail.

import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { NatsConnection } from '@nats-io/transport-node'
import { afterEach, expect, test, vi } from 'vitest'
import { spoolLine } from '../../../../src/contract/record/spool-line.ts'
import type { DiskFile, OpenMode } from '../../../../src/queue/journal/disk.ts'
import { RealDisk } from '../../../../src/queue/journal/disk.ts'
import type { QueueRecord } from '../../../../src/queue/queue.ts'
import { KeptBatches } from '../../../../src/queue/spool/kept-batches.ts'
import { openSpool } from '../../../../src/queue/spool/open-spool.ts'
import { Settler } from '../../../../src/queue/spool/settler.ts'
import type { Spool } from '../../../../src/queue/spool/spool.ts'
import type { StreamPublisher } from '../../../../src/queue/stream/publisher.ts'
import { makeRecord } from '../../../support/journal.ts'
import { makeFolder } from '../../../support/service.ts'
import { spoolOptions } from '../../../support/spool.ts'
import { ManualTimers } from '../../../support/timers.ts'

const POSITION = { segment: 0, offset: 0 }

/** What the stream is found to have of a batch. */
const ABSENT = { sequence: null, messageId: '', untilMs: Number.POSITIVE_INFINITY }

class UnreadableDisk extends RealDisk {
  reads = 0
  isUnreadable = false
  /** Of the files that cannot be read then. */
  ending = '.ndjson'

  override async open(path: string, mode: OpenMode): Promise<DiskFile> {
    if (mode === 'read' && path.endsWith(this.ending) && this.isUnreadable) {
      this.reads += 1
      throw Object.assign(new Error('EIO: injected'), { code: 'EIO' })
    }
    return await super.open(path, mode)
  }
}

afterEach(() => void vi.restoreAllMocks())

/** A folder with three batches, of which an earlier process has sent `sent`, and may have sent `reserved`. */
async function makeSpool(sent: number, reserved = sent, ofSegment = 3, messageId: string | null = null, more = {}) {
  const directory = await makeFolder()
  const lines = Array.from({ length: 3 }, () => {
    const { line, charge } = makeRecord()
    return Buffer.from(spoolLine(line, charge, { state: messageId === null ? 'plain' : 'doubt', messageId }))
  })
  const endOf = (count: number): { segment: number; offset: number } => {
    const first = Math.floor(Math.max(0, count - 1) / ofSegment) * ofSegment
    const offset = lines.slice(first, count).reduce((sum, line) => sum + line.length, 0)
    return { segment: 1 + first / ofSegment, offset }
  }
  await mkdir(join(directory, 'journal'), { recursive: true })
  for (let first = 0; first < lines.length; first += ofSegment) {
    const name = `00000000000${endOf(first + 1).segment}.ndjson`
    await writeFile(join(directory, 'journal', name), Buffer.concat(lines.slice(first, first + ofSegment)))
  }
  const cursor = { version: 1, id: 'abcdef012345', released: POSITION, sent: endOf(sent), reserved: endOf(reserved) }
  const witness = { sequence: sent, messageId: 'gone' }
  await writeFile(join(directory, 'cursor.json'), JSON.stringify({ ...cursor, witness, sequences: [sent], ...more }))
  return directory
}

/** `acks`: of the first messages, which go one at a time; durable from then on. */
async function openOver(directory: string, disk: RealDisk, timers: ManualTimers, acks: string[] = []) {
  let sequence = 0
  const ids: (string | undefined)[] = []
  let least = 0
  let found = 0
  const inStream: number[] = []
  let opened: Spool | null = null
  const notices: string[] = []
  const stream = {
    resend: (record: QueueRecord, _burntIds: number, onAck: (ack: string, events?: number, place?: number) => void) => {
      sequence += 1
      const at = sequence
      ids[at] = record.batchId
      setImmediate(() => onAck(acks.shift() ?? 'durable', undefined, at))
    },
    refusalNow: () => (acks.length > 0 ? 'nats_slow' : null),
    unackedRecords: 0,
    connection: {} as NatsConnection,
    status: { state: 'ok', reason: null },
    stop: () => Promise.resolve(),
  }
  const { spool } = await openSpool({
    ...spoolOptions({ directory, stream: stream as unknown as StreamPublisher, disk, timers }),
    partitions: 1,
    syncMs: () => 100,
    uncountedSinceMs: () => Number.POSITIVE_INFINITY,
    onFound: () => void (found += 1),
    onSent: (_appId, _charge, place) => {
      inStream.push(place)
      least = Math.min(least, opened?.contents.batches ?? 0)
    },
    onNotice: (message) => void notices.push(message),
  })
  opened = spool
  const until = async (isReached: () => boolean): Promise<void> => {
    for (let turns = 0; !isReached() && turns < 2000; turns += 1) {
      await timers.pass(50)
      await new Promise((resolve) => setTimeout(resolve, 1))
    }
    expect(isReached()).toBe(true)
  }
  return { spool, notices, until, sent: () => sequence, least: () => least, found: () => found, ids, inStream }
}

test('what an earlier process has sent, and NATS has lost since, is counted when it is sent again', async () => {
  vi.spyOn(Settler.prototype, 'settle').mockImplementation((records) => Promise.resolve(records.map(() => ABSENT)))
  vi.spyOn(KeptBatches.prototype, 'isThere').mockResolvedValueOnce(false).mockResolvedValue(true)
  const { spool, notices, until, sent, least } = await openOver(await makeSpool(2), new RealDisk(), new ManualTimers())
  expect(spool.contents.batches).toBe(1)
  await until(() => spool.isEmpty)
  expect(sent()).toBeGreaterThanOrEqual(3)
  expect([spool.contents.batches, spool.contents.bytes, least()]).toEqual([0, 0, 0])
  expect(notices.join()).toMatch(/NATS has lost .*: [23] batches that this node still has/)
  await spool.stop()
})

test('what was in doubt in a message with others, and is sent again by itself, is not taken for lost', async () => {
  vi.spyOn(Settler.prototype, 'settle').mockImplementation((records) => Promise.resolve(records.map(() => ABSENT)))
  const folder = await makeSpool(0, 0, 3, 'f00dbabe0001-17')
  const { spool, notices, until, ids } = await openOver(folder, new RealDisk(), new ManualTimers())
  const asked = vi.spyOn(KeptBatches.prototype, 'isThere').mockImplementation(({ witness }) => {
    return Promise.resolve(witness !== null && (ids[witness.sequence] ?? 'gone').startsWith(witness.messageId))
  })
  await until(() => spool.isEmpty)
  expect(asked).toHaveBeenCalled()
  expect([ids.filter(Boolean).length, notices.filter((notice) => notice.includes('has lost'))]).toEqual([3, []])
  await spool.stop()
})

test('what NATS has lost counts again once, where the spool can be read only at a later try', async () => {
  vi.spyOn(Settler.prototype, 'settle').mockImplementation((records) => Promise.resolve(records.map(() => ABSENT)))
  vi.spyOn(KeptBatches.prototype, 'isThere').mockResolvedValueOnce(false).mockResolvedValue(true)
  const [disk, timers] = [new UnreadableDisk(), new ManualTimers()]
  const { spool, notices, until, found } = await openOver(await makeSpool(2, 2, 1), disk, timers)
  expect(found()).toBe(3)
  Object.assign(disk, { ending: '2.ndjson', isUnreadable: true })
  await until(() => notices.some((notice) => notice.includes('cannot be read: EIO')))
  const reads = disk.reads
  for (let turns = 0; turns < 100; turns += 1) await new Promise((resolve) => setTimeout(resolve, 1))
  await timers.pass(5000)
  await until(() => disk.reads > reads + 1)
  expect(disk.reads).toBeLessThan(reads + 10)
  disk.isUnreadable = false
  await until(() => spool.isEmpty)
  const [, lost] = /NATS has lost .*: (\d) batches that this node still has/.exec(notices.join()) ?? []
  expect(found() - 3).toBe(Number(lost))
  await spool.stop()
})

test('a spool that cannot be read is tried again after a pause, and sent when it can be', async () => {
  const [disk, timers] = [new UnreadableDisk(), new ManualTimers()]
  const { spool, notices, until, sent } = await openOver(await makeSpool(0), disk, timers)
  disk.isUnreadable = true
  await timers.pass(50)
  for (let turns = 0; turns < 100; turns += 1) await new Promise((resolve) => setTimeout(resolve, 1))
  expect(disk.reads).toBe(1)
  expect(notices.filter((notice) => notice.includes('cannot be read: EIO'))).toHaveLength(1)
  await timers.pass(5000)
  expect(disk.reads).toBeLessThan(8)
  disk.isUnreadable = false
  await until(() => sent() === 3 && spool.contents.batches === 0)
  await spool.stop()
})

test('what may have been sent is asked for again where it could not be sent while the duplicate window lasts', async () => {
  const asked: string[][] = []
  const timers = new ManualTimers()
  vi.spyOn(Settler.prototype, 'settle').mockImplementation((records) => {
    asked.push(records.map(({ head }) => head.batchId))
    return Promise.resolve(records.map(() => ({ sequence: null, messageId: '', untilMs: timers.nowMs() + 290_000 })))
  })
  const { spool, until, sent } = await openOver(
    await makeSpool(0, 3),
    new RealDisk(),
    timers,
    Array(20).fill('in_doubt'),
  )
  // The first is in doubt again and again, and the others, which were settled with it, wait for minutes.
  await until(() => asked.length > 10)
  const [first] = asked
  expect([first.length, new Set(asked.slice(1).flat()).size]).toEqual([3, 1])
  expect(sent()).toBeLessThan(15)
  timers.block(300_000)
  const before = asked.length
  await until(() => spool.contents.batches === 0)
  expect(new Set(asked.slice(before).flat())).toEqual(new Set(first))
  await spool.stop()
})

test('what an earlier process has sent comes off by the newest message of its partition', async () => {
  vi.spyOn(KeptBatches.prototype, 'isThere').mockResolvedValue(true)
  const { spool, until, inStream } = await openOver(await makeSpool(2), new RealDisk(), new ManualTimers())
  expect(inStream).toEqual([2, 2])
  await until(() => spool.isEmpty)
  await spool.stop()
})

test.each([
  ['of an earlier version', { sequences: undefined }],
  ['of another number of partitions', { sequences: [2, 0] }],
])('what a cursor %s says is sent and kept is looked up, and not sent again', async (_which, more) => {
  vi.spyOn(Settler.prototype, 'settle').mockImplementation((records) =>
    Promise.resolve(records.map((_, at) => ({ sequence: 11 + at, messageId: '', untilMs: 0 }))),
  )
  vi.spyOn(KeptBatches.prototype, 'isThere').mockResolvedValue(true)
  const folder = await makeSpool(2, 2, 3, null, more)
  const { spool, until, inStream, sent } = await openOver(folder, new RealDisk(), new ManualTimers())
  expect(spool.contents.batches).toBe(3)
  await until(() => spool.isEmpty)
  expect([inStream, sent()]).toEqual([[11, 12, 1], 1])
  await spool.stop()
})
