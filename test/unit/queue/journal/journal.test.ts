import { readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { systemTimers } from '../../../../src/lib/timers.ts'
import { listSegments, segmentPath } from '../../../../src/queue/journal/segments.ts'
import { makeRecord, publish, readNaively, recordText } from '../../../support/journal.ts'
import { openedJournal } from '../../../support/opened-journal.ts'
import { makeFolder } from '../../../support/service.ts'
import { ManualTimers } from '../../../support/timers.ts'

describe('the journal', () => {
  it('stores records in order, one per line, and settles each once', async () => {
    const { journal, directory } = await openedJournal()
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
    const stored = await readFile(segmentPath(directory, 1), 'utf8')
    expect(journal.position()).toEqual({ segment: 1, offset: stored.length })
    expect(journal.sizeBytes).toBe(stored.length)
    const lines = stored.split('\n').map(recordText)
    expect(lines.join('\n')).toBe(Buffer.concat(records.map(({ line }) => line)).toString())
  })

  it('writes all records of one turn together, up to 1,023', async () => {
    const commits: number[] = []
    const { send } = await openedJournal({ onCommit: (count) => commits.push(count) })
    await Promise.all(Array.from({ length: 2500 }, () => send()))
    expect(commits).toEqual([1023, 1023, 454])
  })

  it('writes all records that arrive during a write with the next one', async () => {
    const commits: number[] = []
    const { disk, send } = await openedJournal({ onCommit: (count) => commits.push(count) })
    disk.held = []
    const all = [send()]
    for (let turn = 0; turn < 5; turn += 1) {
      await new Promise((resolve) => setImmediate(resolve))
      all.push(send(), send())
    }
    const held = disk.held
    disk.held = null
    for (const release of held) release()
    await Promise.all(all)
    expect(commits).toEqual([1, 10])
  })

  describe('under load', () => {
    /** A journal whose timers the test moves; `send` gives it a record, `durable` waits for all records. */
    async function paced() {
      // Only time is moved by hand.
      const timers = Object.assign(new ManualTimers(), {
        setImmediate: (task: () => void) => systemTimers.setImmediate(task),
      })
      const commits: number[] = []
      const written: Promise<string>[] = []
      const { journal, disk } = await openedJournal({ timers, onCommit: (count) => commits.push(count) })
      const send = (record = makeRecord()) => void written.push(publish(journal, record))
      return { journal, timers, disk, commits, send, durable: () => Promise.all(written) }
    }
    const turn = () => new Promise((resolve) => setImmediate(resolve))

    it('begins small commits a millisecond apart, each with all that came meanwhile, and a large one at once', async () => {
      const { timers, commits, send, durable } = await paced()
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
    })

    it('puts off no commit of all clients that wait for their answers', async () => {
      const { timers, commits, send, durable } = await paced()
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
    })

    it('lets what came during a write wait for its time', async () => {
      const { timers, disk, commits, send, durable } = await paced()
      send()
      await turn()
      for (let sent = 0; sent < 2; sent += 1) send()
      while (commits.length === 0) await turn()
      expect(disk.appends).toBe(1)
      await timers.pass(1)
      await durable()
      expect(commits).toEqual([1, 2])
    })

    it('writes what waits before it stops', async () => {
      const { journal, timers, commits, send, durable } = await paced()
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
    })
  })

  it('takes records that lie in shared memory', async () => {
    const { journal, stored } = await openedJournal()
    const record = makeRecord()
    const line = Buffer.from(new SharedArrayBuffer(record.line.length))
    line.set(record.line)
    expect(await publish(journal, { ...record, line })).toBe('durable')
    expect((await stored())[0].batch_id).toBe(record.batchId)
  })

  it('settles its records before it stops, and refuses later ones', async () => {
    const { journal, directory: folder, send } = await openedJournal()
    const inHand = Array.from({ length: 100 }, () => send())
    const stopped = journal.stop()
    expect(await send()).toBe('stopping')
    await stopped
    expect(new Set(await Promise.all(inHand))).toEqual(new Set(['durable']))
    expect(await readNaively(folder)).toHaveLength(100)
  })

  it('creates a new segment before one exceeds its size', async () => {
    const { journal, directory: folder, send, stored } = await openedJournal({ segmentBytes: 2000 })
    for (let index = 0; index < 50; index += 1) await send()
    expect(journal.position().segment).toBeGreaterThan(3)
    const segments = await listSegments(folder)
    for (const { bytes } of segments) expect(bytes).toBeLessThanOrEqual(2000)
    expect(await stored()).toHaveLength(50)
  })

  it('refuses at once a record that would exceed its size, and says why', async () => {
    const { journal, send, stored } = await openedJournal({ maxBytes: 10_000 })
    const settlements = await Promise.all(Array.from({ length: 100 }, () => send()))
    const durable = settlements.filter((ack) => ack === 'durable').length
    expect(durable).toBeGreaterThan(10)
    expect(durable).toBeLessThan(100)
    expect(journal.status).toEqual({ state: 'full', reason: 'SLUICE_JOURNAL_MAX_MB reached' })
    expect(journal.refusalNow(300)).toBe('journal_full')
    await journal.sweep()
    expect(journal.status, 'nothing was removed').toMatchObject({ state: 'full' })
    expect(journal.sizeBytes).toBeLessThanOrEqual(10_000)
    expect(await stored()).toHaveLength(durable)
  })

  it('is full until the record that it refused last would fit, whatever smaller ones do', async () => {
    const { journal, send } = await openedJournal({ maxBytes: 10_000 })
    expect(journal.status.state).toBe('ok')
    expect(await send({ fillBytes: 20_000 })).toBe('journal_full')
    expect(await send()).toBe('durable')
    expect(journal.status.state).toBe('full')
  })

  it('tells of each record that found no room, by its size or on the disk, and of commits once they count', async () => {
    const told: unknown[] = []
    const { journal, time, disk, notices } = await openedJournal({
      maxBytes: 10_000,
      onCommit: () => told.push(journal.sizeBytes),
      onNoRoom: () => void told.push('no room'),
    })
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
  })

  it('has room again once old segments are removed by hand', async () => {
    const { journal, directory: folder, send } = await openedJournal({ maxBytes: 10_000 })
    while ((await send()) === 'durable');
    await rm(segmentPath(folder, 1))
    await rm(segmentPath(folder, 2))
    await journal.sweep()
    expect(journal.status.state).toBe('ok')
    expect(await send()).toBe('durable')
  })

  it('accepts no record into a removed file: the same records are written to a new one', async () => {
    const { journal, directory: folder, notices, storedIds } = await openedJournal()
    const lost = makeRecord()
    await publish(journal, lost)
    await rm(segmentPath(folder, 1))
    const records = [makeRecord(), makeRecord(), makeRecord()]
    for (const record of records) expect(await publish(journal, record)).toBe('durable')
    expect(journal.sizeBytes).toBeGreaterThan(0)
    await journal.sweep()
    expect(await storedIds()).toEqual(records.map(({ batchId }) => batchId))
    expect(notices).toHaveLength(1)
    expect(notices[0]).toContain(`${segmentPath(folder, 1)} was removed, or moved with its folder`)
    expect(notices[0]).toContain(`its ${lost.line.length} bytes of accepted records are lost`)
  })

  it('continues in its own folder after that was moved away, and reports it', async () => {
    const folder = await makeFolder()
    const directory = join(folder, 'journal')
    const { journal, notices, send, stored } = await openedJournal({ directory })
    await send()
    await rename(directory, join(folder, 'elsewhere'))
    await send()
    await journal.sweep()
    await send()
    expect(await readNaively(join(folder, 'elsewhere'))).toHaveLength(2)
    expect(await stored()).toHaveLength(1)
    expect(notices).toHaveLength(1)
    expect(notices[0]).toContain('was removed, or moved with its folder')
  })

  it('reports once that another program removed a segment', async () => {
    const { journal, directory: folder, notices, send } = await openedJournal({ segmentBytes: 300 })
    for (let index = 0; index < 8; index += 1) await send()
    await rm(segmentPath(folder, 2))
    await journal.sweep()
    await journal.sweep()
    await journal.stop()
    expect(notices).toHaveLength(1)
    expect(notices[0]).toMatch(/000000000002\.ndjson was removed by another program, with its [1-9]\d* bytes/)
  })

  it('continues in a new file when its folder was removed', async () => {
    const folder = await makeFolder()
    const directory = join(folder, 'journal')
    const { journal, send, storedIds } = await openedJournal({ directory })
    await send()
    await rm(directory, { recursive: true })
    await journal.sweep()
    const record = makeRecord()
    expect(await publish(journal, record)).toBe('durable')
    expect(await storedIds()).toEqual([record.batchId])
  })
})

describe('the position from which keys are remembered', () => {
  it('is at least 300 s behind', async () => {
    const { journal, time, send } = await openedJournal({ segmentBytes: 3000 })
    const written: { atMs: number; segment: number; offset: number }[] = []
    for (let index = 0; index < 250; index += 1) {
      const { segment, offset } = journal.position()
      await send({ receivedAtMs: time.nowMs })
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
  })
})
