import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it, vi } from 'vitest'
import { systemTimers } from '../../../../src/lib/timers.ts'
import { realDisk } from '../../../../src/queue/journal/disk.ts'
import { type Journal, type JournalOptions, openJournal } from '../../../../src/queue/journal/journal.ts'
import {
  createSegment,
  type JournalPosition,
  listSegments,
  segmentPath,
} from '../../../../src/queue/journal/segments.ts'
import {
  FailingDisk,
  makeRecord,
  publish,
  readNaively,
  recordText,
  timersWithoutIntervals,
  withFolder,
} from '../../../support/journal.ts'
import { ManualTimers } from '../../../support/timers.ts'

const START_MS = 1_800_000_000_000
const HOUR_MS = 3_600_000

class Time {
  nowMs = START_MS
  /** How far the clock jumped, which is no time that passed. */
  jumpedMs = 0
  readonly clock = () => this.nowMs + this.jumpedMs
  readonly timers = { ...timersWithoutIntervals, monotonicMs: () => this.nowMs }
}

function options(directory: string, { clock }: Time, changes: Partial<JournalOptions> = {}): JournalOptions {
  return { directory, maxBytes: 64_000_000, keepHours: null, clock, timers: timersWithoutIntervals, ...changes }
}

describe('the journal', () => {
  it('stores records in order, one per line, and settles each once', () =>
    withFolder(async (folder) => {
      const journal = await openJournal(options(folder, new Time()))
      const records = Array.from({ length: 3000 }, (_, index) => makeRecord({ appId: `app-${index}` }))
      const onAck: string[] = []
      await new Promise<void>((resolve) => {
        for (const [index, record] of records.entries()) {
          journal.publish(record, (ack) => {
            onAck.push(`${index} ${ack}`)
            if (onAck.length === records.length) resolve()
          })
        }
        expect(onAck).toEqual([])
      })
      expect(onAck.join()).toBe(records.map((_, index) => `${index} durable`).join())
      const stored = await readFile(segmentPath(folder, 1), 'utf8')
      expect(journal.position()).toEqual({ segment: 1, offset: stored.length })
      expect(journal.sizeBytes).toBe(stored.length)
      await journal.stop()
      const lines = stored.split('\n').map(recordText)
      expect(lines.join('\n')).toBe(Buffer.concat(records.map(({ line }) => line)).toString())
    }))

  it('writes all records of one turn together, up to 1,023', () =>
    withFolder(async (folder) => {
      const commits: number[] = []
      const journal = await openJournal(options(folder, new Time(), { onCommit: (count) => commits.push(count) }))
      await Promise.all(Array.from({ length: 2500 }, () => publish(journal, makeRecord())))
      expect(commits).toEqual([1023, 1023, 454])
      await journal.stop()
    }))

  it('writes all records that arrive during a write with the next one', () =>
    withFolder(async (folder) => {
      const disk = new FailingDisk()
      const commits: number[] = []
      const journal = await openJournal(options(folder, new Time(), { disk, onCommit: (count) => commits.push(count) }))
      disk.held = []
      const all = [publish(journal, makeRecord())]
      for (let turn = 0; turn < 5; turn += 1) {
        await new Promise((resolve) => setImmediate(resolve))
        all.push(publish(journal, makeRecord()), publish(journal, makeRecord()))
      }
      const held = disk.held
      disk.held = null
      for (const release of held) release()
      await Promise.all(all)
      expect(commits).toEqual([1, 10])
      await journal.stop()
    }))

  describe('under load', () => {
    /** A journal whose timers the test moves; `send` gives it a record, `durable` waits for all records. */
    async function paced(folder: string) {
      // Only time is moved by hand.
      const timers = Object.assign(new ManualTimers(), {
        setImmediate: (task: () => void) => systemTimers.setImmediate(task),
      })
      const disk = new FailingDisk()
      const commits: number[] = []
      const written: Promise<string>[] = []
      const journal = await openJournal(
        options(folder, new Time(), { timers, disk, onCommit: (count) => commits.push(count) }),
      )
      const send = (record = makeRecord()) => void written.push(publish(journal, record))
      return { journal, timers, disk, commits, send, durable: () => Promise.all(written) }
    }
    const turn = () => new Promise((resolve) => setImmediate(resolve))

    it('begins small commits a millisecond apart, each with all that came meanwhile, and a large one at once', () =>
      withFolder(async (folder) => {
        const { journal, timers, commits, send, durable } = await paced(folder)
        for (let sent = 0; sent < 4; sent += 1) send()
        await durable()
        for (let sent = 0; sent < 3; sent += 1) {
          send()
          await turn()
        }
        expect(commits).toEqual([4])
        await timers.pass(1)
        await durable()
        expect(commits).toEqual([4, 3])
        send(makeRecord({ fillBytes: 300_000 }))
        await durable()
        expect(commits).toEqual([4, 3, 1])
        await journal.stop()
      }))

    it('puts off no commit of all clients that wait for their answers', () =>
      withFolder(async (folder) => {
        const { journal, timers, commits, send, durable } = await paced(folder)
        for (let round = 0; round < 3; round += 1) {
          for (let sent = 0; sent < 4; sent += 1) {
            send()
            if (round > 0) await turn()
          }
          await durable()
        }
        expect(commits).toEqual([4, 4, 4])
        await timers.pass(2)
        expect(commits).toEqual([4, 4, 4])
        await journal.stop()
      }))

    it('lets what came during a write wait for its time', () =>
      withFolder(async (folder) => {
        const { journal, timers, disk, commits, send, durable } = await paced(folder)
        send()
        await turn()
        for (let sent = 0; sent < 2; sent += 1) send()
        while (commits.length === 0) await turn()
        expect(disk.appends).toBe(1)
        await timers.pass(1)
        await durable()
        expect(commits).toEqual([1, 2])
        await journal.stop()
      }))

    it('writes what waits before it stops', () =>
      withFolder(async (folder) => {
        const { journal, timers, commits, send, durable } = await paced(folder)
        for (let sent = 0; sent < 3; sent += 1) send()
        await durable()
        for (let sent = 0; sent < 2; sent += 1) send()
        const stopping = journal.stop()
        await turn()
        expect(commits).toEqual([3])
        await timers.pass(1)
        await stopping
        expect(new Set(await durable())).toEqual(new Set(['durable']))
        expect(commits).toEqual([3, 2])
      }))
  })

  it('takes records that lie in shared memory', () =>
    withFolder(async (folder) => {
      const journal = await openJournal(options(folder, new Time()))
      const record = makeRecord()
      const line = Buffer.from(new SharedArrayBuffer(record.line.length))
      line.set(record.line)
      expect(await publish(journal, { ...record, line })).toBe('durable')
      await journal.stop()
      expect((await readNaively(folder))[0].batch_id).toBe(record.batchId)
    }))

  it('settles its records before it stops, and refuses later ones', () =>
    withFolder(async (folder) => {
      const journal = await openJournal(options(folder, new Time()))
      const inHand = Array.from({ length: 100 }, () => publish(journal, makeRecord()))
      const stopped = journal.stop()
      expect(await publish(journal, makeRecord())).toBe('stopping')
      await stopped
      expect(new Set(await Promise.all(inHand))).toEqual(new Set(['durable']))
      expect(await readNaively(folder)).toHaveLength(100)
    }))

  it('creates a new segment before one exceeds its size', () =>
    withFolder(async (folder) => {
      const journal = await openJournal(options(folder, new Time(), { segmentBytes: 2000 }))
      for (let index = 0; index < 50; index += 1) await publish(journal, makeRecord())
      expect(journal.position().segment).toBeGreaterThan(3)
      await journal.stop()
      const segments = await listSegments(folder)
      for (const { bytes } of segments) expect(bytes).toBeLessThanOrEqual(2000)
      expect(await readNaively(folder)).toHaveLength(50)
    }))

  it('refuses at once a record that would exceed its size, and says why', () =>
    withFolder(async (folder) => {
      const journal = await openJournal(options(folder, new Time(), { maxBytes: 10_000 }))
      const settlements = await Promise.all(Array.from({ length: 100 }, () => publish(journal, makeRecord())))
      const durable = settlements.filter((ack) => ack === 'durable').length
      expect(durable).toBeGreaterThan(10)
      expect(durable).toBeLessThan(100)
      expect(journal.status).toEqual({ state: 'full', reason: 'SLUICE_JOURNAL_MAX_MB reached' })
      expect(journal.refusalNow(300)).toBe('journal_full')
      await journal.sweep()
      expect(journal.status, 'nothing was removed').toMatchObject({ state: 'full' })
      expect(journal.sizeBytes).toBeLessThanOrEqual(10_000)
      await journal.stop()
      expect(await readNaively(folder)).toHaveLength(durable)
    }))

  it('is full until the record that it refused last would fit, whatever smaller ones do', () =>
    withFolder(async (folder) => {
      const journal = await openJournal(options(folder, new Time(), { maxBytes: 10_000 }))
      expect(journal.status.state).toBe('ok')
      expect(await publish(journal, makeRecord({ fillBytes: 20_000 }))).toBe('journal_full')
      expect(await publish(journal, makeRecord())).toBe('durable')
      expect(journal.status.state).toBe('full')
      await journal.stop()
    }))

  it('tells of each record that found no room, by its size or on the disk, and of commits once they count', () =>
    withFolder(async (folder) => {
      const told: unknown[] = []
      const notices: string[] = []
      const time = new Time()
      const disk = new FailingDisk()
      const journal: Journal = await openJournal(
        options(folder, time, {
          disk,
          maxBytes: 10_000,
          onCommit: () => told.push(journal.sizeBytes),
          onNoRoom: () => void told.push('no room'),
          onNotice: (message) => void notices.push(message),
        }),
      )
      const small = makeRecord()
      await publish(journal, small)
      for (let record = 0; record < 2; record += 1) await publish(journal, makeRecord({ fillBytes: 20_000 }))
      for (const failure of ['short', 'torn'] as const) {
        disk.nextAppend = failure
        time.nowMs += 1000
        expect(await publish(journal, small)).toBe('journal_full')
      }
      time.nowMs += 1000
      expect(await publish(journal, small)).toBe('durable')
      const { length } = small.line
      expect(told).toEqual([length, 'no room', 'no room', 'no room', 'no room', 2 * length])
      expect(notices).toEqual([])
      await journal.stop()
    }))

  it('has room again once old segments are removed by hand', () =>
    withFolder(async (folder) => {
      const journal = await openJournal(options(folder, new Time(), { maxBytes: 10_000 }))
      while ((await publish(journal, makeRecord())) === 'durable');
      await rm(segmentPath(folder, 1))
      await rm(segmentPath(folder, 2))
      await journal.sweep()
      expect(journal.status.state).toBe('ok')
      expect(await publish(journal, makeRecord())).toBe('durable')
      await journal.stop()
    }))

  it('accepts no record into a removed file: the same records are written to a new one', () =>
    withFolder(async (folder) => {
      const notices: string[] = []
      const onNotice = (message: string) => void notices.push(message)
      const journal = await openJournal(options(folder, new Time(), { onNotice }))
      const lost = makeRecord()
      await publish(journal, lost)
      await rm(segmentPath(folder, 1))
      const records = [makeRecord(), makeRecord(), makeRecord()]
      for (const record of records) expect(await publish(journal, record)).toBe('durable')
      expect(journal.sizeBytes).toBeGreaterThan(0)
      await journal.sweep()
      await journal.stop()
      expect((await readNaively(folder)).map((each) => each.batch_id)).toEqual(records.map(({ batchId }) => batchId))
      expect(notices).toHaveLength(1)
      expect(notices[0]).toContain(`${segmentPath(folder, 1)} was removed, or moved with its folder`)
      expect(notices[0]).toContain(`its ${lost.line.length} bytes of accepted records are lost`)
    }))

  it('continues in its own folder after that was moved away, and reports it', () =>
    withFolder(async (folder) => {
      const directory = join(folder, 'journal')
      const notices: string[] = []
      const onNotice = (message: string) => void notices.push(message)
      const journal = await openJournal(options(directory, new Time(), { onNotice }))
      await publish(journal, makeRecord())
      await rename(directory, join(folder, 'elsewhere'))
      await publish(journal, makeRecord())
      await journal.sweep()
      await publish(journal, makeRecord())
      await journal.stop()
      expect(await readNaively(join(folder, 'elsewhere'))).toHaveLength(2)
      expect(await readNaively(directory)).toHaveLength(1)
      expect(notices).toHaveLength(1)
      expect(notices[0]).toContain('was removed, or moved with its folder')
    }))

  it('reports once that another program removed a segment', () =>
    withFolder(async (folder) => {
      const notices: string[] = []
      const onNotice = (message: string) => void notices.push(message)
      const journal = await openJournal(options(folder, new Time(), { onNotice, segmentBytes: 300 }))
      for (let index = 0; index < 8; index += 1) await publish(journal, makeRecord())
      await rm(segmentPath(folder, 2))
      await journal.sweep()
      await journal.sweep()
      await journal.stop()
      expect(notices).toHaveLength(1)
      expect(notices[0]).toMatch(/000000000002\.ndjson was removed by another program, with its [1-9]\d* bytes/)
    }))

  it('continues in a new file when its folder was removed', () =>
    withFolder(async (folder) => {
      const directory = join(folder, 'journal')
      const journal = await openJournal(options(directory, new Time()))
      await publish(journal, makeRecord())
      await rm(directory, { recursive: true })
      await journal.sweep()
      const record = makeRecord()
      expect(await publish(journal, record)).toBe('durable')
      await journal.stop()
      expect((await readNaively(directory)).map((each) => each.batch_id)).toEqual([record.batchId])
    }))
})

describe('old segments', () => {
  const notices: string[] = []
  const onNotice = (message: string, level = 'warning') => void notices.push(`${level}: ${message}`)
  const taken = () => notices.splice(0)

  /** Each record has a segment of its own. */
  function open(directory: string, time: Time, isKeepNamed = false) {
    const { timers } = time
    return openJournal(options(directory, time, { segmentBytes: 200, keepHours: 2, isKeepNamed, timers, onNotice }))
  }

  async function storedIn(directory: string): Promise<string[]> {
    return (await readNaively(directory)).map((each) => each.received_at)
  }

  async function storedAfterSweep(directory: string, journal: Journal): Promise<string[]> {
    await journal.sweep()
    return await storedIn(directory)
  }

  const isoOf = (timeMs: number) => new Date(timeMs).toISOString()

  async function store(journal: Journal, time: Time): Promise<string> {
    const receivedAtMs = time.clock()
    // The pace of commits goes by the same clock.
    time.nowMs += 1000
    expect(await publish(journal, makeRecord({ receivedAtMs }))).toBe('durable')
    return isoOf(receivedAtMs)
  }

  it('are named in one line of the log when they are removed', () =>
    withFolder(async (folder) => {
      const time = new Time()
      const journal = await open(folder, time)
      const stored: string[] = []
      for (let hour = 0; hour < 5; hour += 1) {
        stored.push(await store(journal, time))
        time.nowMs += HOUR_MS
      }
      const before = journal.sizeBytes
      expect(await storedAfterSweep(folder, journal)).toEqual(stored.slice(4))
      const bytes = before - journal.sizeBytes
      expect(taken()).toEqual([
        `info: removed 4 old segments of the journal (${bytes} B), whose last records were received from ${stored[0]} to ${stored[3]}`,
      ])
      await journal.sweep()
      expect(taken()).toEqual([])
      await journal.stop()
    }))

  it('go at a start where a record is younger, or the hours are named', () =>
    withFolder(async (folder) => {
      const time = new Time()
      const first = await open(folder, time)
      const stored = [await store(first, time), await store(first, time)]
      time.nowMs += 3 * HOUR_MS
      stored.push(await store(first, time), await store(first, time))
      await first.stop()
      await (await open(folder, time)).stop()
      expect(await storedIn(folder)).toEqual(stored.slice(2))
      time.nowMs += 1000 * HOUR_MS
      await (await open(folder, time, true)).stop()
      expect(await storedIn(folder)).toEqual(stored.slice(3))
      expect(taken()).toEqual([
        expect.stringMatching(/^info: removed 2 old segments of the journal/),
        expect.stringMatching(/^info: removed 1 old segment of the journal/),
      ])
    }))

  it('stay for an hour after a start that finds all of them too old', () =>
    withFolder(async (folder) => {
      const time = new Time()
      const first = await open(folder, time)
      const stored = [await store(first, time), await store(first, time)]
      await first.stop()
      time.nowMs += 1000 * HOUR_MS
      const journal = await open(folder, time)
      time.nowMs += HOUR_MS - 1
      expect(await storedAfterSweep(folder, journal)).toEqual(stored)
      time.nowMs += 1
      expect(await storedAfterSweep(folder, journal)).toEqual(stored.slice(1))
      expect(taken()).toEqual([expect.stringMatching(/^info: removed 1 old segment of the journal/)])
      await journal.stop()
    }))

  it('stay where the clock jumps ahead, until what was stored before is as old as it says', () =>
    withFolder(async (folder) => {
      const time = new Time()
      const journal = await open(folder, time)
      time.nowMs += HOUR_MS
      const old = [await store(journal, time), await store(journal, time)]
      time.jumpedMs += 1000 * HOUR_MS
      expect(await storedAfterSweep(folder, journal)).toEqual(old)
      expect(taken()).toEqual([
        `warning: the clock jumped ahead by 41.7 days: by it no segment of the journal is removed until ${isoOf(time.clock() + 2 * HOUR_MS)}, ` +
          'since none is so old: set it right if it is wrong',
      ])
      const young = [await store(journal, time), await store(journal, time)]
      time.nowMs += HOUR_MS
      expect(await storedAfterSweep(folder, journal)).toEqual([...old, ...young])
      time.nowMs += HOUR_MS - 2001
      expect(await storedAfterSweep(folder, journal)).not.toContain(old[0])
      time.nowMs += 1
      expect(await storedAfterSweep(folder, journal)).toEqual(young)
      taken()
      time.nowMs += HOUR_MS
      expect(await storedAfterSweep(folder, journal)).toEqual([young[1]])
      await journal.stop()
    }))

  it('stay where the clock jumps ahead and back', () =>
    withFolder(async (folder) => {
      const time = new Time()
      const journal = await open(folder, time)
      time.nowMs += HOUR_MS
      const stored = [await store(journal, time), await store(journal, time)]
      for (const jumpMs of [1000 * HOUR_MS, -1000 * HOUR_MS, -HOUR_MS]) {
        time.jumpedMs += jumpMs
        stored.push(await store(journal, time))
        expect(await storedAfterSweep(folder, journal)).toEqual(stored)
      }
      // Received at what the clock says: only by that time it grows old.
      time.nowMs += 2 * HOUR_MS
      expect((await storedAfterSweep(folder, journal)).slice(-2)).toEqual(stored.slice(-2))
      taken()
      await journal.stop()
    }))

  async function fill(directory: string, time: Time) {
    const { timers } = time
    const journal = await openJournal(options(directory, time, { segmentBytes: 500, keepHours: 2, timers }))
    for (let hour = 0; hour < 6; hour += 1) {
      for (let index = 0; index < 4; index += 1) {
        await store(journal, time)
      }
      time.nowMs += HOUR_MS - 4000
    }
    return journal
  }

  it('are removed when their last record is older than the configured hours', () =>
    withFolder(async (folder) => {
      const time = new Time()
      const journal = await fill(folder, time)
      const before = journal.sizeBytes
      await journal.sweep()
      expect(journal.sizeBytes).toBeLessThan(before)
      const oldest = Date.parse((await readNaively(folder))[0].received_at)
      expect(oldest).toBeGreaterThanOrEqual(time.nowMs - 3 * HOUR_MS)
      const kept = (await readNaively(folder)).filter(
        (each) => Date.parse(each.received_at) >= time.nowMs - 2 * HOUR_MS,
      )
      expect(kept).toHaveLength(8)
      await journal.stop()
    }))

  it('stay where no hours are configured', () =>
    withFolder(async (folder) => {
      const time = new Time()
      await (await fill(folder, time)).stop()
      time.nowMs += 1000 * HOUR_MS
      const journal = await openJournal(options(folder, time))
      await journal.stop()
      expect(await readNaively(folder)).toHaveLength(24)
    }))

  it('stay while one of their keys may be remembered, however few hours are configured', () =>
    withFolder(async (folder) => {
      const time = new Time()
      const changes = { segmentBytes: 500, keepHours: 0.001, timers: time.timers }
      const journal = await openJournal(options(folder, time, changes))
      for (let index = 0; index < 20; index += 1) await publish(journal, makeRecord({ receivedAtMs: time.nowMs }))
      time.nowMs += 300_000
      await journal.sweep()
      expect(await readNaively(folder)).toHaveLength(20)
      await journal.stop()
    }))

  it('never include the one being written', () =>
    withFolder(async (folder) => {
      const time = new Time()
      const journal = await openJournal(options(folder, time, { keepHours: 1, timers: time.timers }))
      await publish(journal, makeRecord({ receivedAtMs: time.nowMs }))
      time.nowMs += 100 * HOUR_MS
      await journal.sweep()
      expect(await readNaively(folder)).toHaveLength(1)
      await journal.stop()
    }))
})

describe('a disk that fails', () => {
  const isFull = { state: 'disk_full', reason: 'ENOSPC' }
  const STATES = { short: isFull, torn: isFull, unsynced: { state: 'disk_error', reason: 'EIO' }, none: isFull }
  for (const failure of ['short', 'torn', 'unsynced', 'none'] as const) {
    it(`leaves nothing of the failed write (${failure}), and is tried again after a second`, () =>
      withFolder(async (folder) => {
        const time = new Time()
        const disk = new FailingDisk()
        const journal = await openJournal(options(folder, time, { disk }))
        const first = makeRecord()
        expect(await publish(journal, first)).toBe('durable')
        disk.nextAppend = failure
        const failed = await Promise.all([publish(journal, makeRecord()), publish(journal, makeRecord())])
        const reason = failure === 'unsynced' ? 'journal_error' : 'journal_full'
        expect(failed).toEqual([reason, reason])
        expect(journal.status).toEqual(STATES[failure])
        expect((await readNaively(folder)).map((each) => each.batch_id)).toEqual([first.batchId])
        const appends = disk.appends
        expect(journal.refusalNow(1)).toBe(reason)
        expect(await publish(journal, makeRecord())).toBe(reason)
        expect(disk.appends).toBe(appends)
        time.nowMs += 1000
        const last = makeRecord()
        expect(await publish(journal, last)).toBe('durable')
        expect(journal.status.state).toBe('ok')
        expect(journal.refusalNow(1)).toBe(null)
        await journal.stop()
        expect((await readNaively(folder)).map((each) => each.batch_id)).toEqual([first.batchId, last.batchId])
      }))
  }

  for (const [code, refusal, said] of [
    [
      'EFBIG',
      'journal_error',
      'the journal cannot be written (EFBIG: injected): answering 503 until the limit on the size of files (ulimit -f) is raised',
    ],
    ['EDQUOT', 'journal_full', 'the disk is full (EDQUOT: injected): answering 503 until there is room'],
  ] as const) {
    it(`that writes less than it was given is asked why (${code})`, () =>
      withFolder(async (folder) => {
        const time = new Time()
        const disk = new FailingDisk()
        const notices: string[] = []
        const onNotice = (message: string) => void notices.push(message)
        let refused = 0
        const onNoRoom = () => void (refused += 1)
        const journal = await openJournal(options(folder, time, { disk, onNotice, onNoRoom }))
        disk.nextAppend = 'short'
        disk.limitCode = code
        expect(await publish(journal, makeRecord())).toBe(refusal)
        expect(journal.status.reason).toBe(code)
        expect([notices, refused]).toEqual([[said], 0])
        disk.limitCode = null
        time.nowMs += 1000
        const record = makeRecord()
        expect(await publish(journal, record)).toBe('durable')
        expect((await readNaively(folder)).map((each) => each.batch_id)).toEqual([record.batchId])
        await journal.stop()
      }))
  }

  it('that answers no more is said to be stuck, once no further record may wait for it', () =>
    withFolder(async (folder) => {
      const disk = new FailingDisk()
      const journal = await openJournal(options(folder, new Time(), { disk }))
      const held: (() => void)[] = []
      disk.held = held
      const record = makeRecord()
      const all = Array.from({ length: 262_143 }, () => publish(journal, record))
      expect(journal.status.state).toBe('ok')
      all.push(publish(journal, record))
      expect(journal.status).toEqual({ state: 'stuck', reason: '262,144 records wait' })
      expect(await publish(journal, record)).toBe('journal_stuck')
      await vi.waitFor(() => expect(held).toHaveLength(1))
      disk.held = null
      held[0]?.()
      expect(new Set(await Promise.all(all))).toEqual(new Set(['durable']))
      expect(journal.status.state).toBe('ok')
      await journal.stop()
    }))

  it('is not written to before the failed write is truncated', () =>
    withFolder(async (folder) => {
      const time = new Time()
      const disk = new FailingDisk()
      const notices: string[] = []
      const journal = await openJournal(
        options(folder, time, { disk, onNotice: (message) => void notices.push(message) }),
      )
      disk.nextAppend = 'torn'
      disk.failsTruncate = true
      expect(await publish(journal, makeRecord())).toBe('journal_full')
      for (let second = 0; second < 3; second += 1) {
        time.nowMs += 1000
        expect(await publish(journal, makeRecord())).toBe('journal_error')
      }
      expect(disk.appends).toBe(1)
      disk.failsTruncate = false
      time.nowMs += 1000
      const record = makeRecord()
      expect(await publish(journal, record)).toBe('durable')
      await journal.stop()
      expect((await readNaively(folder)).map((each) => each.batch_id)).toEqual([record.batchId])
      expect(notices.at(0)).toContain('EIO')
      expect(notices.at(-1)).toBe('the journal takes records again: requests get 202 as before')
    }))

  it('is tested with one record a second, and the others are refused meanwhile', () =>
    withFolder(async (folder) => {
      const time = new Time()
      const disk = new FailingDisk()
      const journal = await openJournal(options(folder, time, { disk }))
      disk.isFull = true
      await publish(journal, makeRecord())
      time.nowMs += 1000
      await Promise.all(Array.from({ length: 50 }, () => publish(journal, makeRecord())))
      expect(disk.appends).toBe(2)
      await journal.stop()
      expect(await readNaively(folder)).toEqual([])
    }))

  it('takes no room for the records that it refused', () =>
    withFolder(async (folder) => {
      const time = new Time()
      const disk = new FailingDisk()
      const journal = await openJournal(options(folder, time, { disk, maxBytes: 10_000 }))
      disk.nextAppend = 'unsynced'
      expect(await publish(journal, makeRecord({ fillBytes: 6000 }))).toBe('journal_error')
      time.nowMs += 1000
      expect(await publish(journal, makeRecord({ fillBytes: 6000 }))).toBe('durable')
      await journal.stop()
    }))

  it('that cannot create a segment continues in the open one, reports it once, and creates one when it can', () =>
    withFolder(async (folder) => {
      const disk = new FailingDisk()
      const notices: string[] = []
      const onNotice = (message: string) => void notices.push(message)
      const journal = await openJournal(options(folder, new Time(), { disk, segmentBytes: 300, onNotice }))
      disk.failsCreate = true
      for (let index = 0; index < 20; index += 1) expect(await publish(journal, makeRecord())).toBe('durable')
      expect([journal.status.state, journal.position().segment]).toEqual(['ok', 1])
      disk.failsCreate = false
      for (let index = 0; index < 3; index += 1) expect(await publish(journal, makeRecord())).toBe('durable')
      expect(journal.position().segment).toBeGreaterThan(1)
      await journal.stop()
      expect(await readNaively(folder)).toHaveLength(23)
      expect(notices).toEqual([
        'the next segment of the journal cannot be created (ENOSPC: injected): records go on into the open one, no request is refused for it',
        'the journal creates new segments again',
      ])
    }))

  it('that cannot create a segment after the open one was removed refuses, and continues when it can', () =>
    withFolder(async (folder) => {
      const time = new Time()
      const disk = new FailingDisk()
      const journal = await openJournal(options(folder, time, { disk }))
      await publish(journal, makeRecord())
      await rm(segmentPath(folder, 1))
      disk.failsCreate = true
      expect(await publish(journal, makeRecord())).toBe('journal_full')
      expect(journal.status).toEqual({ state: 'disk_full', reason: 'ENOSPC' })
      disk.failsCreate = false
      time.nowMs += 1000
      expect(await publish(journal, makeRecord())).toBe('durable')
      await journal.stop()
      expect(await readNaively(folder)).toHaveLength(1)
    }))

  it('is tried again even when the clock was set back', () =>
    withFolder(async (folder) => {
      const time = new Time()
      const disk = new FailingDisk()
      const journal = await openJournal(options(folder, time, { disk }))
      disk.nextAppend = 'none'
      await publish(journal, makeRecord())
      time.nowMs -= HOUR_MS
      expect(await publish(journal, makeRecord())).toBe('durable')
      await journal.stop()
    }))
})

describe('opening a journal', () => {
  it('truncates a torn last line and reports the bytes', () =>
    withFolder(async (folder) => {
      const whole = makeRecord()
      const torn = makeRecord({ fillBytes: 200_000 }).line.subarray(0, 150_000)
      await writeFile(segmentPath(folder, 7), Buffer.concat([whole.line, torn]))
      const journal = await openJournal(options(folder, new Time()))
      expect(journal.cutBytes).toBe(150_000)
      expect(journal.position()).toEqual({ segment: 7, offset: whole.line.length })
      await publish(journal, makeRecord())
      await journal.stop()
      expect(await readNaively(folder)).toHaveLength(2)
    }))

  it('keeps a last line that ends in a newline', () =>
    withFolder(async (folder) => {
      await writeFile(segmentPath(folder, 1), makeRecord().line)
      const journal = await openJournal(options(folder, new Time()))
      expect(journal.cutBytes).toBe(0)
      await journal.stop()
      expect(await readNaively(folder)).toHaveLength(1)
    }))

  it('accepts an empty segment, gaps in the numbers, and files that are not its own', () =>
    withFolder(async (folder) => {
      await writeFile(segmentPath(folder, 3), makeRecord().line)
      await (await createSegment(folder, 9, realDisk)).close()
      await writeFile(join(folder, 'notes.txt'), 'mine')
      await writeFile(join(folder, '12.ndjson'), 'mine too')
      await mkdir(segmentPath(folder, 20))
      const journal = await openJournal(options(folder, new Time()))
      await publish(journal, makeRecord())
      expect(journal.position().segment).toBe(9)
      await journal.stop()
      expect((await readdir(folder)).filter((name) => !/commits|ids/.test(name)).length).toBe(5)
      expect((await stat(segmentPath(folder, 9))).size).toBeGreaterThan(0)
    }))

  async function noticesAtStart(folder: string, resumeAfter: JournalPosition | null = null): Promise<string[]> {
    const notices: string[] = []
    const onNotice = (message: string) => void notices.push(message)
    await (await openJournal(options(folder, new Time(), { onNotice, resumeAfter }))).stop()
    return notices
  }

  it('reports segments that are missing between others, but not before the first', () =>
    withFolder(async (folder) => {
      for (const number of [3, 5, 6, 9]) await writeFile(segmentPath(folder, number), makeRecord().line)
      const notices = await noticesAtStart(folder)
      expect(notices).toHaveLength(2)
      expect(notices[0]).toMatch(/^Segment 4 of the journal is missing between .*0003\.ndjson and .*0005\.ndjson\. /)
      expect(notices[1]).toMatch(/^Segments 7 to 8 of the journal are missing between .*0006\.ndjson and /)
    }))

  it('reports a segment, other than the last, that ends within a record', () =>
    withFolder(async (folder) => {
      const { line } = makeRecord()
      await writeFile(segmentPath(folder, 1), Buffer.concat([line, line.subarray(0, 7)]))
      await writeFile(segmentPath(folder, 2), Buffer.concat([line, line.subarray(0, 9)]))
      const notices = await noticesAtStart(folder)
      expect(notices).toHaveLength(1)
      expect(notices[0]).toMatch(/0001\.ndjson ends within a record: its last 7 bytes are skipped$/)
    }))

  it('reports that a snapshot covers more than the journal holds', () =>
    withFolder(async (folder) => {
      const { line } = makeRecord()
      await writeFile(segmentPath(folder, 2), line)
      expect(await noticesAtStart(folder, { segment: 2, offset: line.length })).toEqual([])
      const shorter = await noticesAtStart(folder, { segment: 2, offset: line.length + 1 })
      expect(shorter[0]).toContain(`has ${line.length} bytes, but the last snapshot covers ${line.length + 1} of them`)
      await rm(segmentPath(folder, 3))
      const gone = await noticesAtStart(folder, { segment: 7, offset: 0 })
      expect(gone[0]).toMatch(/ends with segment .*0002\.ndjson, but the last snapshot covers segment 7/)
    }))

  it('lists at most ten faults', () =>
    withFolder(async (folder) => {
      for (let number = 1; number < 40; number += 2) await writeFile(segmentPath(folder, number), makeRecord().line)
      const notices = await noticesAtStart(folder)
      expect(notices).toHaveLength(11)
      expect(notices[10]).toBe('9 more faults of the journal are not listed')
    }))

  it('never writes before the position of a snapshot', () =>
    withFolder(async (folder) => {
      await writeFile(segmentPath(folder, 2), makeRecord().line)
      const journal = await openJournal(options(folder, new Time(), { resumeAfter: { segment: 5, offset: 10 } }))
      expect(journal.position()).toEqual({ segment: 6, offset: 0 })
      await journal.stop()
    }))

  it('names the folder and the setting where it cannot be written', () =>
    withFolder(async (folder) => {
      const path = join(folder, 'file')
      await writeFile(path, '')
      await expect(openJournal(options(path, new Time()))).rejects.toThrow(/file .*SLUICE_DATA_DIR/s)
      await expect(openJournal(options(join(path, 'journal'), new Time()))).rejects.toThrow(/ENOTDIR/)
    }))

  it('reports a read-only file system', () =>
    withFolder(async (folder) => {
      const disk = new FailingDisk()
      disk.open = () => Promise.reject(new Error('EROFS: read-only file system'))
      await expect(openJournal(options(folder, new Time(), { disk }))).rejects.toThrow(/EROFS/)
    }))
})

describe('the position from which keys are remembered', () => {
  it('is at least 300 s behind', () =>
    withFolder(async (folder) => {
      const time = new Time()
      const journal = await openJournal(options(folder, time, { segmentBytes: 3000 }))
      const written: { atMs: number; segment: number; offset: number }[] = []
      for (let index = 0; index < 250; index += 1) {
        const { segment, offset } = journal.position()
        await publish(journal, makeRecord({ receivedAtMs: time.nowMs }))
        const isTurned = journal.position().segment !== segment
        written.push({ atMs: time.nowMs, segment: journal.position().segment, offset: isTurned ? 0 : offset })
        const from = journal.keysFrom(time.nowMs)
        const left = written.filter(
          (each) => each.segment < from.segment || (each.segment === from.segment && each.offset < from.offset),
        )
        expect(Math.max(0, ...left.map((each) => each.atMs))).toBeLessThanOrEqual(time.nowMs - 300_000)
        const kept = written.length - left.length
        expect(kept).toBeLessThanOrEqual(103)
        time.nowMs += 3000
      }
      await journal.stop()
    }))
})
