import { execFileSync } from 'node:child_process'
import { mkdir, readdir, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { realDisk } from '../../../../src/queue/journal/disk.ts'
import { createSegment, type JournalPosition, segmentPath } from '../../../../src/queue/journal/segments.ts'
import { FailingDisk, makeRecord } from '../../../support/journal.ts'
import { openedJournal } from '../../../support/opened-journal.ts'
import { makeFolder } from '../../../support/service.ts'

describe('opening a journal', () => {
  it('truncates a torn last line and reports the bytes', async () => {
    const folder = await makeFolder()
    const whole = makeRecord()
    const torn = makeRecord({ fillBytes: 200_000 }).line.subarray(0, 150_000)
    await writeFile(segmentPath(folder, 7), Buffer.concat([whole.line, torn]))
    const { journal, send, stored, notices } = await openedJournal({ directory: folder })
    expect(journal.cutBytes).toBe(150_000)
    expect(journal.position()).toEqual({ segment: 7, offset: whole.line.length })
    await send()
    expect(await stored()).toHaveLength(2)
    // Of bytes that had stayed it would say that another program wrote them.
    expect(notices).toEqual([])
  })

  it('accepts an empty segment, gaps in the numbers, and files that are not its own', async () => {
    const folder = await makeFolder()
    await writeFile(segmentPath(folder, 3), makeRecord().line)
    await (await createSegment(folder, 9, realDisk)).close()
    await writeFile(join(folder, 'notes.txt'), 'mine')
    await writeFile(join(folder, '12.ndjson'), 'mine too')
    await mkdir(segmentPath(folder, 20))
    const { journal, send, notices } = await openedJournal({ directory: folder })
    const named = notices.filter((notice) => notice.includes('no regular file'))
    expect(named).toEqual([expect.stringMatching(/0020\.ndjson is no regular file, .*are not read$/)])
    await send()
    expect(journal.position().segment).toBe(9)
    await journal.stop()
    expect((await readdir(folder)).filter((name) => !/commits|ids/.test(name)).length).toBe(5)
    expect((await stat(segmentPath(folder, 9))).size).toBeGreaterThan(0)
  })

  async function noticesAtStart(folder: string, resumeAfter: JournalPosition | null = null): Promise<string[]> {
    const { journal, notices } = await openedJournal({ directory: folder, resumeAfter })
    await journal.stop()
    return notices
  }

  it('reports segments that are missing between others, but not before the first', async () => {
    const folder = await makeFolder()
    for (const number of [3, 5, 6, 9]) await writeFile(segmentPath(folder, number), makeRecord().line)
    const notices = await noticesAtStart(folder)
    expect(notices).toHaveLength(2)
    expect(notices[0]).toMatch(/^Segment 4 of the journal is missing between .*0003\.ndjson and .*0005\.ndjson\. /)
    expect(notices[1]).toMatch(/^Segments 7 to 8 of the journal are missing between .*0006\.ndjson and /)
  })

  it.each([2, 3])('names segment %d in one line where it is a pipe, and waits for nobody', async (pipe) => {
    const folder = await makeFolder()
    for (const number of [1, 2, 3].filter((one) => one !== pipe))
      await writeFile(segmentPath(folder, number), makeRecord().line)
    execFileSync('mkfifo', [segmentPath(folder, pipe)])
    const text = `${segmentPath(folder, pipe)} is no regular file, or cannot be looked at: the records of this segment of the journal are not read`
    expect(await noticesAtStart(folder, { segment: pipe, offset: 1 })).toContain(text)
    expect(await noticesAtStart(folder)).toEqual([text])
  })

  it('reports a segment, other than the last, that ends within a record', async () => {
    const folder = await makeFolder()
    const { line } = makeRecord()
    await writeFile(segmentPath(folder, 1), Buffer.concat([line, line.subarray(0, 7)]))
    await writeFile(segmentPath(folder, 2), Buffer.concat([line, line.subarray(0, 9)]))
    const notices = await noticesAtStart(folder)
    expect(notices).toHaveLength(1)
    expect(notices[0]).toMatch(/0001\.ndjson ends within a record: its last 7 bytes are skipped$/)
  })

  it('reports that a snapshot covers more than the journal holds', async () => {
    const folder = await makeFolder()
    const { line } = makeRecord()
    await writeFile(segmentPath(folder, 2), line)
    expect(await noticesAtStart(folder, { segment: 2, offset: line.length })).toEqual([])
    const shorter = await noticesAtStart(folder, { segment: 2, offset: line.length + 1 })
    expect(shorter[0]).toContain(`has ${line.length} bytes, but the last snapshot covers ${line.length + 1} of them`)
    await rm(segmentPath(folder, 3))
    const gone = await noticesAtStart(folder, { segment: 7, offset: 0 })
    expect(gone[0]).toMatch(/ends with segment .*0002\.ndjson, but the last snapshot covers segment 7/)
  })

  it('lists at most ten faults', async () => {
    const folder = await makeFolder()
    for (let number = 1; number < 40; number += 2) await writeFile(segmentPath(folder, number), makeRecord().line)
    const notices = await noticesAtStart(folder)
    expect(notices).toHaveLength(11)
    expect(notices[10]).toBe('9 more faults of the journal are not listed')
  })

  it('never writes before the position of a snapshot', async () => {
    const folder = await makeFolder()
    await writeFile(segmentPath(folder, 2), makeRecord().line)
    const { journal } = await openedJournal({ directory: folder, resumeAfter: { segment: 5, offset: 10 } })
    expect(journal.position()).toEqual({ segment: 6, offset: 0 })
  })

  it('names the folder and the setting where it cannot be written', async () => {
    const folder = await makeFolder()
    const path = join(folder, 'file')
    await writeFile(path, '')
    await expect(openedJournal({ directory: path })).rejects.toThrow(/file .*SLUICE_DATA_DIR/s)
    await expect(openedJournal({ directory: join(path, 'journal') })).rejects.toThrow(/ENOTDIR/)
  })

  it('reports a read-only file system', async () => {
    const disk = new FailingDisk()
    disk.open = () => Promise.reject(new Error('EROFS: read-only file system'))
    await expect(openedJournal({ disk })).rejects.toThrow(/EROFS/)
  })
})
