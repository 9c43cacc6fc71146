import { mkdir, readdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { isOfEarlierVersion, markJournal, segmentsBefore } from '../../../../src/queue/journal/journal-keep.ts'
import { segmentPath } from '../../../../src/queue/journal/segments.ts'
import { makeRecord } from '../../../support/journal.ts'
import { makeFolder } from '../../../support/service.ts'

const NOW_MS = 1_800_000_000_000
const HOUR_MS = 3_600_000

/** One segment for each age. */
async function writeSegments(directory: string, ...agesHours: number[]): Promise<void> {
  await mkdir(directory, { recursive: true })
  for (const [index, ageHours] of agesHours.entries()) {
    const { line } = makeRecord({ receivedAtMs: NOW_MS - ageHours * HOUR_MS })
    await writeFile(segmentPath(directory, index + 1), line)
  }
}

describe('a journal', () => {
  it('is new until its first record, and is known from then on by a mark beside the segments, made once', async () => {
    const folder = await makeFolder()
    const directory = join(folder, 'journal')
    expect(await isOfEarlierVersion(directory)).toBe(false)
    await writeSegments(directory)
    await markJournal(directory)
    await writeSegments(directory, 1000)
    expect(await isOfEarlierVersion(directory)).toBe(false)
    expect(await readdir(directory)).toEqual(['000000000001.ndjson', 'removes-old-segments'])
  })

  it('is of an earlier version where there is a record and no mark, however young the record is', async () => {
    const folder = await makeFolder()
    await writeSegments(folder, 0)
    expect(await isOfEarlierVersion(folder)).toBe(true)
  })

  it('is new where there is no record: in a folder that was emptied, or in which nothing was ever stored', async () => {
    const folder = await makeFolder()
    await writeSegments(folder, 5)
    await rm(segmentPath(folder, 1))
    expect(await isOfEarlierVersion(folder)).toBe(false)
    await writeFile(segmentPath(folder, 1), '')
    expect(await isOfEarlierVersion(folder)).toBe(false)
  })
})

describe('the segments that a time to keep would remove', () => {
  it('are the first ones, up to one with a younger record, and never the last', async () => {
    const folder = await makeFolder()
    await writeSegments(folder, 100, 80, 10, 90, 0)
    const old = await segmentsBefore(folder, NOW_MS - 72 * HOUR_MS)
    expect(old).toEqual({ count: 2, bytes: 2 * makeRecord().line.length, oldestAtMs: NOW_MS - 100 * HOUR_MS })
    expect((await segmentsBefore(folder, NOW_MS + 1)).count).toBe(4)
    expect(await segmentsBefore(folder, 0)).toEqual({ count: 0, bytes: 0, oldestAtMs: 0 })
  })
})
