import { rm } from 'node:fs/promises'
import { describe, expect, it, vi } from 'vitest'
import { journalDirectory, segmentPath } from '../../../../src/queue/journal/segments.ts'
import { makeRecord, publish, readNaively } from '../../../support/journal.ts'
import { recovered } from '../../../support/journal-readings.ts'
import { openedJournal } from '../../../support/opened-journal.ts'
import { makeFolder } from '../../../support/service.ts'

const HOUR_MS = 3_600_000

describe('a disk that fails', () => {
  const isFull = { state: 'disk_full', reason: 'ENOSPC' }
  const STATES = { short: isFull, torn: isFull, unsynced: { state: 'disk_error', reason: 'EIO' }, none: isFull }
  // Of a small write, and of one that would go past the page cache.
  const WRITES = (['short', 'torn', 'unsynced', 'none'] as const).flatMap((how) => [
    [how, 0] as const,
    [how, 70_000] as const,
  ])
  it.each(WRITES)(
    'leaves nothing of the failed write (%s, %i bytes), and is tried again after a second',
    async (failure, fillBytes) => {
      const data = await makeFolder()
      const folder = journalDirectory(data)
      const { journal, time, disk, send, storedIds } = await openedJournal({ directory: folder })
      const first = makeRecord({ fillBytes })
      expect(await publish(journal, first)).toBe('durable')
      disk.nextAppend = failure
      const failed = await Promise.all([send({ fillBytes }), send()])
      const reason = failure === 'unsynced' ? 'journal_error' : 'journal_full'
      expect(failed).toEqual([reason, reason])
      expect(journal.status).toEqual(STATES[failure])
      expect((await readNaively(folder)).map((each) => each.batch_id)).toEqual([first.batchId])
      const appends = disk.appends
      expect(journal.refusalNow(1)).toBe(reason)
      expect(await send()).toBe(reason)
      expect(disk.appends).toBe(appends)
      time.nowMs += 1000
      const last = makeRecord()
      expect(await publish(journal, last)).toBe('durable')
      expect(journal.status.state).toBe('ok')
      expect(journal.refusalNow(1)).toBe(null)
      // After a failed sync nothing more goes into the segment.
      expect(journal.position().segment).toBe(failure === 'unsynced' ? 2 : 1)
      const ids = [first.batchId, last.batchId]
      expect(await storedIds()).toEqual(ids)
      // Nor is there a checksum of it.
      expect(await recovered(data)).toEqual({ ids, damages: [] })
    },
  )

  it('leaves a torn line, which the next start cuts, where a short write cannot be truncated', async () => {
    const { journal, directory, disk, send } = await openedJournal()
    disk.nextAppend = 'short'
    disk.failsTruncate = true
    expect(await send()).toBe('journal_full')
    await journal.stop()
    const next = await openedJournal({ directory })
    expect(next.journal.cutBytes).toBeGreaterThan(0)
    expect(await next.stored()).toEqual([])
  })

  for (const [code, refusal, said] of [
    [
      'EFBIG',
      'journal_error',
      'the journal cannot be written (EFBIG: injected): answering 503 until the limit on the size of files (ulimit -f) is raised',
    ],
    ['EDQUOT', 'journal_full', 'the disk is full (EDQUOT: injected): answering 503 until there is room'],
  ] as const) {
    it(`that writes less than it was given is asked why (${code})`, async () => {
      let refused = 0
      const onNoRoom = () => void (refused += 1)
      const { journal, directory: folder, time, disk, notices, send } = await openedJournal({ onNoRoom })
      disk.nextAppend = 'short'
      disk.limitCode = code
      expect(await send()).toBe(refusal)
      expect(journal.status.reason).toBe(code)
      expect([notices, refused]).toEqual([[said], 0])
      disk.limitCode = null
      time.nowMs += 1000
      const record = makeRecord()
      expect(await publish(journal, record)).toBe('durable')
      expect((await readNaively(folder)).map((each) => each.batch_id)).toEqual([record.batchId])
    })
  }

  it('that answers no more is said to be stuck, once no further record may wait for it', async () => {
    const { journal, disk } = await openedJournal()
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
  })

  it('is not written to before the failed write is truncated', async () => {
    const { journal, time, disk, notices, send, storedIds } = await openedJournal()
    disk.nextAppend = 'torn'
    disk.failsTruncate = true
    expect(await send()).toBe('journal_full')
    for (let second = 0; second < 3; second += 1) {
      time.nowMs += 1000
      expect(await send()).toBe('journal_error')
    }
    expect(disk.appends).toBe(1)
    disk.failsTruncate = false
    time.nowMs += 1000
    const record = makeRecord()
    expect(await publish(journal, record)).toBe('durable')
    expect(await storedIds()).toEqual([record.batchId])
    expect(notices.at(0)).toContain('EIO')
    expect(notices.at(-1)).toBe('the journal takes records again: requests get 202 as before')
  })

  it('is tested with one record a second, and the others are refused meanwhile', async () => {
    const { time, disk, send, stored } = await openedJournal()
    disk.isFull = true
    await send()
    time.nowMs += 1000
    await Promise.all(Array.from({ length: 50 }, () => send()))
    expect(disk.appends).toBe(2)
    expect(await stored()).toEqual([])
  })

  it('takes no room for the records that it refused', async () => {
    const { time, disk, send } = await openedJournal({ maxBytes: 10_000 })
    disk.nextAppend = 'unsynced'
    expect(await send({ fillBytes: 6000 })).toBe('journal_error')
    time.nowMs += 1000
    expect(await send({ fillBytes: 6000 })).toBe('durable')
  })

  it('that cannot create a segment continues in the open one, reports it once, and creates one when it can', async () => {
    const { journal, disk, notices, send, stored } = await openedJournal({ segmentBytes: 300 })
    disk.failsCreate = true
    for (let index = 0; index < 20; index += 1) expect(await send()).toBe('durable')
    expect([journal.status.state, journal.position().segment]).toEqual(['ok', 1])
    disk.failsCreate = false
    for (let index = 0; index < 3; index += 1) expect(await send()).toBe('durable')
    expect(journal.position().segment).toBeGreaterThan(1)
    expect(await stored()).toHaveLength(23)
    expect(notices).toEqual([
      'the next segment of the journal cannot be created (ENOSPC: injected): records go on into the open one, no request is refused for it',
      'the journal creates new segments again',
    ])
  })

  it('that cannot create a segment after the open one was removed refuses, and continues when it can', async () => {
    const { journal, directory: folder, time, disk, send, stored } = await openedJournal()
    await send()
    await rm(segmentPath(folder, 1))
    disk.failsCreate = true
    expect(await send()).toBe('journal_full')
    expect(journal.status).toEqual({ state: 'disk_full', reason: 'ENOSPC' })
    disk.failsCreate = false
    time.nowMs += 1000
    expect(await send()).toBe('durable')
    expect(await stored()).toHaveLength(1)
  })

  it('is tried again even when the clock was set back', async () => {
    const { time, disk, send } = await openedJournal()
    disk.nextAppend = 'none'
    await send()
    time.nowMs -= HOUR_MS
    expect(await send()).toBe('durable')
  })
})
