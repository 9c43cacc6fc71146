// What becomes of a journal that a disk, or another program, has changed.

import { appendFile, copyFile, mkdir, readdir, readFile, rename, rm, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { Verification } from '../../../../src/inspect/verify/verification.ts'
import { verifyJournal } from '../../../../src/inspect/verify/verify-journal.ts'
import { damageText } from '../../../../src/queue/journal/damage-text.ts'
import { RealDisk } from '../../../../src/queue/journal/disk.ts'
import { type Journal, type JournalOptions, openJournal } from '../../../../src/queue/journal/journal.ts'
import type { Damage } from '../../../../src/queue/journal/segment-cursor.ts'
import { journalDirectory, segmentPath } from '../../../../src/queue/journal/segments.ts'
import { commitsPath, idsPath } from '../../../../src/queue/journal/side-files.ts'
import { makeRecord, publish, timersWithoutIntervals } from '../../../support/journal.ts'
import { flip, recovered, searched, tailed } from '../../../support/journal-readings.ts'
import { makeFolder } from '../../../support/service.ts'

type Written = ReturnType<typeof makeRecord>

async function opened(
  folder: string,
  notices: string[] = [],
  kinds: string[] = [],
  changes: Partial<JournalOptions> = {},
): Promise<Journal> {
  const directory = journalDirectory(folder)
  const onNotice = (text: string): void => void notices.push(text)
  return await openJournal({
    directory,
    maxBytes: 1e9,
    keepHours: null,
    timers: timersWithoutIntervals,
    onNotice,
    onDamage: (kind) => void kinds.push(kind),
    ...changes,
  })
}

/** Three commits of one record, and then one of five. */
async function written(folder: string): Promise<Written[]> {
  const journal = await opened(folder)
  const records = Array.from({ length: 8 }, (_, index) => makeRecord({ keyed: index % 2 === 0, fillBytes: 20 * index }))
  for (const record of records.slice(0, 3)) expect(await publish(journal, record)).toBe('durable')
  const acks = await Promise.all(records.slice(3).map((record) => publish(journal, record)))
  expect(acks).toEqual(records.slice(3).map(() => 'durable'))
  await journal.stop()
  return records
}

/** Which record a byte of the segment belongs to. */
function recordAt(records: readonly Written[], at: number): Written {
  let end = 0
  const found = records.find(({ line }) => {
    end += line.length
    return at < end
  })
  if (found === undefined) throw new Error(`no record at ${at}`)
  return found
}

describe('a flipped bit', () => {
  it('anywhere is named by recovery, tail and find, costs at most its own record, and what comes later is whole', async () => {
    const folder = await makeFolder()
    const whole = join(folder, 'whole')
    const records = await written(whole)
    const names = await readdir(journalDirectory(whole))
    const segment = await readFile(segmentPath(journalDirectory(whole), 1))
    const newlines = records.map((_, index) => segment.indexOf(10, index === 0 ? 0 : undefined))
    let end = 0
    for (const [index, { line }] of records.entries()) newlines[index] = (end += line.length) - 1
    const places = Array.from({ length: 40 }, (_, index) => (index * 7919) % segment.length)
    for (const at of [...newlines, ...newlines.map((newline) => newline - 1), ...places]) {
      const hit = recordAt(records, at)
      const data = join(folder, 'hit')
      const directory = journalDirectory(data)
      await rm(data, { recursive: true, force: true })
      await mkdir(directory, { recursive: true })
      for (const name of names) await copyFile(join(journalDirectory(whole), name), join(directory, name))
      await flip(segmentPath(directory, 1), at, at % 8)
      const isNamed = ({ kind, path, offset, length }: Damage): boolean =>
        kind === 'checksum' && path === segmentPath(directory, 1) && offset <= at && at < offset + length
      const others = records.filter((record) => record !== hit).map(({ batchId }) => batchId)
      const { ids, damages } = await recovered(data)
      expect(damages.filter(isNamed), `byte ${at}`).toHaveLength(1)
      expect(ids.filter((id) => others.includes(id))).toEqual(others)
      const { lines, damages: tailDamages } = await tailed(data)
      expect(tailDamages.filter(isNamed)).toHaveLength(1)
      for (const id of others) expect(lines.filter((line) => line.includes(id))).toHaveLength(1)
      const search = await searched(data, hit.batchId)
      expect(search.damages.some(isNamed)).toBe(true)
      for (const id of others) expect((await searched(data, id)).isFound, `byte ${at}, ${id}`).toBe(true)

      const journal = await opened(data)
      expect(journal.cutBytes).toBe(0)
      const more = makeRecord({ keyed: true })
      expect(await publish(journal, more)).toBe('durable')
      await journal.stop()
      const again = await recovered(data)
      expect(again.ids.filter((id) => id === more.batchId || others.includes(id))).toEqual([...others, more.batchId])
      expect(again.damages.filter(isNamed)).toHaveLength(1)
    }
  })

  it('of the last newline cuts nothing: new records go into a new segment, which the log says', async () => {
    const folder = await makeFolder()
    const records = await written(folder)
    const path = segmentPath(journalDirectory(folder), 1)
    const { length } = await readFile(path)
    await flip(path, length - 1, 0)
    const notices: string[] = []
    const journal = await opened(folder, notices)
    expect(notices).toEqual([`${path} is damaged at its end, at ${length}: new records go into a new segment`])
    const more = makeRecord()
    await publish(journal, more)
    await journal.stop()
    expect(await readFile(path)).toHaveLength(length)
    expect((await recovered(folder)).ids).toEqual([...records, more].map(({ batchId }) => batchId))
  })

  it.each(['commits', 'ids'] as const)('in a line of the %s loses no record, and finds each', async (which) => {
    const folder = await makeFolder()
    const records = await written(folder)
    const ids = records.map(({ batchId }) => batchId)
    const segment = segmentPath(journalDirectory(folder), 1)
    const path = which === 'commits' ? commitsPath(segment) : idsPath(segment)
    const { length } = await readFile(path)
    for (let at = 0; at < length; at += 7) {
      await flip(path, at, at % 7)
      expect((await recovered(folder)).ids).toEqual(ids)
      for (const id of [ids[0], ids[7]]) expect((await searched(folder, id)).isFound).toBe(true)
      await flip(path, at, at % 7)
    }
    expect((await recovered(folder)).damages).toEqual([])
  })
})

describe('another program that', () => {
  /** Publishes, meddles, publishes again, and says what is stored then. */
  async function meddled(folder: string, meddle: (path: string) => Promise<unknown>, fillBytes = 0) {
    const notices: string[] = []
    const kinds: string[] = []
    const journal = await opened(folder, notices, kinds)
    const [before, after] = [makeRecord({ fillBytes: 500 }), makeRecord({ fillBytes })]
    await publish(journal, before)
    const path = segmentPath(journalDirectory(folder), 1)
    const { length } = await readFile(path)
    await meddle(path)
    expect(await publish(journal, after)).toBe('durable')
    expect(journal.position().segment).toBe(2)
    await journal.stop()
    expect(kinds).toEqual(['changed'])
    const { ids, damages } = await recovered(folder)
    expect(await readFile(segmentPath(journalDirectory(folder), 2), 'utf8')).toBe(after.line.toString())
    return { notices, before, after, ids, damages, path, length }
  }

  it.each<[string, (path: string) => Promise<unknown>, number]>([
    ['appends one byte', (path) => appendFile(path, 'x'), 1],
    ['appends a line', (path) => appendFile(path, 'hello\n'), 6],
    ['makes the segment longer', async (path) => truncate(path, (await readFile(path)).length + 4096), 4096],
  ])('%s to the open segment does no harm', async (_, meddle, bytes) => {
    const folder = await makeFolder()
    const { notices, before, after, ids, damages, path, length } = await meddled(folder, meddle)
    expect(ids).toEqual([before.batchId, after.batchId])
    expect(damages).toEqual([])
    const grown = length + bytes + after.line.length
    expect(notices).toEqual([
      expect.stringMatching(
        `${path}: it has ${grown} bytes, and should have ${length + after.line.length}; new records`,
      ),
    ])
  })

  // The commit after it may make the segment as long as it was, or longer.
  it.each([0, 500, 900].flatMap((fillBytes) => [0, 1, 300].map((kept) => [kept, fillBytes])))(
    'cuts the open segment to %i bytes, as copytruncate does, takes what was there, and no more (%i)',
    async (kept, fillBytes) => {
      const folder = await makeFolder()
      const cut = (file: string) => truncate(file, kept)
      const { notices, after, ids, damages, path, length } = await meddled(folder, cut, fillBytes)
      expect(ids).toEqual([after.batchId])
      expect(await readFile(path)).toHaveLength(kept)
      expect(notices).toEqual([
        expect.stringMatching(`: ${length - kept} bytes of accepted records are lost; new records`),
      ])
      expect(damages).toEqual([{ kind: 'missing', path, offset: kept, length: length - kept }])
    },
  )

  it('cuts the open segment after a commit, before its answer, does not take a record of an earlier one', async () => {
    const folder = await makeFolder()
    const journal = await opened(folder)
    const [before, after] = [makeRecord(), makeRecord({ fillBytes: 700 })]
    await publish(journal, before)
    const path = segmentPath(journalDirectory(folder), 1)
    const published = publish(journal, after)
    while ((await readFile(path)).length === before.line.length);
    await truncate(path, before.line.length + 10)
    expect(await published).toBe('durable')
    await journal.stop()
    const { ids } = await recovered(folder)
    expect(ids.slice(0, 1)).toEqual([before.batchId])
    // Where the answer was quicker, the record is one that was accepted, and is lost.
    if (ids.length > 1) expect(ids).toEqual([before.batchId, after.batchId])
  })

  it('removes a segment, or puts another in its place, harms no later one: no number is used twice', async () => {
    const folder = await makeFolder()
    await written(folder)
    const directory = journalDirectory(folder)
    await rename(segmentPath(directory, 1), join(folder, 'elsewhere'))
    const journal = await opened(folder)
    const record = makeRecord()
    await publish(journal, record)
    expect(journal.position().segment).toBe(2)
    await journal.stop()
    expect(await recovered(folder)).toEqual({ ids: [record.batchId], damages: [] })
  })
})

describe('a segment that ends early', () => {
  // A line has the checksum of the one before it too: one that is damaged alone is known by the next.
  it.each([{ damaged: [1] }, { damaged: [2] }, { damaged: [1, 2] }])(
    'has all behind its end named, with lines of commits damaged: $damaged',
    async ({ damaged }) => {
      const folder = await makeFolder()
      const records = await written(folder)
      const path = segmentPath(journalDirectory(folder), 1)
      const { length } = await readFile(path)
      const kept = records[0].line.length + 10
      const lines = (await readFile(commitsPath(path), 'utf8')).split('\n')
      for (const line of damaged) await flip(commitsPath(path), lines.slice(0, line).join('\n').length + 1, 1)
      await truncate(path, kept)
      const missing = { kind: 'missing', path, offset: kept, length: length - kept }
      expect(await recovered(folder)).toMatchObject({ ids: [records[0].batchId], damages: [missing] })
      expect((await tailed(folder)).damages).toEqual([missing])
      // A search begins at the commit that has the record.
      const { damages } = await searched(folder, records[7].batchId)
      expect(damages).toMatchObject([{ kind: 'missing', path }])
      expect(damages[0].offset + damages[0].length).toBe(length)
    },
  )
})

describe('a segment without checksums', () => {
  it('of an earlier version is read, goes on, and has them from the next start on', async () => {
    const folder = await makeFolder()
    const records = await written(folder)
    const directory = journalDirectory(folder)
    const path = segmentPath(directory, 1)
    await rm(commitsPath(path))
    await rm(idsPath(path))
    expect((await recovered(folder)).ids).toHaveLength(8)
    for (const { batchId } of records) expect((await searched(folder, batchId)).isFound).toBe(true)
    const journal = await opened(folder)
    const more = makeRecord()
    await publish(journal, more)
    expect(journal.position().segment).toBe(1)
    await journal.stop()
    await flip(path, 100, 3)
    const { ids, damages } = await recovered(folder)
    expect(ids.slice(1)).toEqual([...records.slice(1), more].map(({ batchId }) => batchId))
    expect(damages.map(({ kind }) => kind)).toContain('checksum')
  })

  it('at its end, after a crash, keeps its whole lines, and a torn one is cut', async () => {
    const folder = await makeFolder()
    const records = await written(folder)
    const path = segmentPath(journalDirectory(folder), 1)
    const late = makeRecord()
    await appendFile(path, late.line)
    await appendFile(path, makeRecord().line.subarray(0, 50))
    await writeFile(commitsPath(path), '123 45', { flag: 'a' })
    const journal = await opened(folder)
    expect(journal.cutBytes).toBe(50)
    await publish(journal, makeRecord())
    expect(journal.position().segment).toBe(1)
    await journal.stop()
    const { ids, damages } = await recovered(folder)
    expect(ids.slice(0, 9)).toEqual([...records, late].map(({ batchId }) => batchId))
    expect([ids.length, damages]).toEqual([10, []])
    await flip(path, (await readFile(path)).indexOf(late.batchId), 0)
    expect((await recovered(folder)).damages).toHaveLength(1)
  })

  it('may have newlines behind its last record: room that was written ahead', async () => {
    const folder = await makeFolder()
    const records = await written(folder)
    const path = segmentPath(journalDirectory(folder), 1)
    await appendFile(path, '\n'.repeat(10_000))
    expect(await recovered(folder)).toEqual({ ids: records.map(({ batchId }) => batchId), damages: [] })
    expect((await tailed(folder)).lines).toHaveLength(8)
  })
})

describe('a segment that was removed', () => {
  const SMALL = { segmentBytes: 200 }

  /** A segment each. */
  async function segments(folder: string, count: number): Promise<string[]> {
    const journal = await opened(folder, [], [], SMALL)
    for (let record = 0; record < count; record += 1) expect(await publish(journal, makeRecord())).toBe('durable')
    await journal.stop()
    return Array.from({ length: count }, (_, index) => segmentPath(journalDirectory(folder), index + 1))
  }

  async function verified(folder: string): Promise<string[]> {
    const found = new Verification()
    await verifyJournal(journalDirectory(folder), found, { signal: AbortSignal.any([]), onProgress: () => {} })
    return found.problems.map(({ detail }) => detail)
  }

  async function started(folder: string, changes: Partial<JournalOptions> = {}) {
    const [notices, kinds]: string[][] = [[], []]
    const journal = await opened(folder, notices, kinds, changes)
    await journal.stop()
    return { notices, kinds }
  }

  it.each([
    { of: 1, removed: 1, covered: null },
    { of: 1, removed: 1, covered: { segment: 1, offset: 100 } },
    { of: 2, removed: 1, covered: { segment: 2, offset: 0 } },
    { of: 2, removed: 2, covered: null },
    { of: 2, removed: 2, covered: { segment: 2, offset: 100 } },
    { of: 3, removed: 2, covered: null },
  ])('by another program is named once by verify and each start: $removed of $of, covered: $covered', async (each) => {
    const folder = await makeFolder()
    const path = (await segments(folder, each.of))[each.removed - 1]
    await rm(path)
    const isMissing = expect.stringContaining(path.slice(-'1.ndjson'.length))
    const name = each.of === 3 ? expect.stringMatching(/^Segment 2 of the journal is missing/) : isMissing
    expect(await verified(folder)).toEqual([name])
    const { damages } = await searched(folder, makeRecord().batchId)
    expect(damages.map(damageText)).toEqual(each.of === 3 ? [] : [isMissing])
    for (const start of [1, 2]) {
      const { notices, kinds } = await started(folder, { resumeAfter: each.covered })
      expect(kinds, `start ${start}`).toEqual(['missing'])
      expect(notices).toHaveLength(1)
    }
  })

  it('with all that lay beside it is named where the last snapshot covers bytes of it', async () => {
    const folder = await makeFolder()
    await segments(folder, 1)
    await rm(journalDirectory(folder), { recursive: true })
    const { notices, kinds } = await started(folder, { resumeAfter: { segment: 1, offset: 100 } })
    expect(kinds).toEqual(['missing'])
    expect(notices[0]).toMatch(/^The journal has no segment, but the last snapshot covers segment 1\. /)
    await rm(journalDirectory(folder), { recursive: true })
    expect((await started(folder, { resumeAfter: { segment: 1, offset: 0 } })).kinds).toEqual([])
  })

  it('for its age is not missed, wherever the process died that removed it', async () => {
    const folder = await makeFolder()
    const [path] = await segments(folder, 2)
    const disk = new RealDisk()
    const steps: string[] = []
    disk.unlink = async (one) => {
      await rm(one)
      steps.push(one)
      expect(await verified(folder)).not.toContainEqual(expect.stringMatching(/missing|removed/))
      throw new Error('the process died')
    }
    const removes = { keepHours: 1, isKeepNamed: true, clock: () => Date.now() + 1e11, disk }
    for (let death = 0; death < 3; death += 1) expect((await started(folder, removes)).kinds).toEqual([])
    expect(steps).toEqual([commitsPath(path), idsPath(path), path])
    expect(await started(folder)).toEqual({ notices: [], kinds: [] })
    expect(await verified(folder)).toEqual([])
  })

  it('is not missed where nothing was durable in it', async () => {
    const folder = await makeFolder()
    const [path] = await segments(folder, 1)
    await rename(path, join(folder, 'elsewhere'))
    for (const beside of [commitsPath(path), idsPath(path)]) await writeFile(beside, '\n')
    expect(await started(folder)).toEqual({ notices: [], kinds: [] })
    expect(await verified(folder)).toEqual([])
  })
})
