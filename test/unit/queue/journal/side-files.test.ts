// No content of a file beside a segment ends a reading, or loses a record.

import { execFileSync } from 'node:child_process'
import { mkdir, readdir, readFile, rename, rm, stat, truncate, writeFile } from 'node:fs/promises'
import { describe, expect, it } from 'vitest'
import { Verification } from '../../../../src/inspect/verify/verification.ts'
import { verifyJournal } from '../../../../src/inspect/verify/verify-journal.ts'
import { Crc32c } from '../../../../src/lib/crc32c.ts'
import { damageText } from '../../../../src/queue/journal/damage-text.ts'
import { type DiskFile, type OpenMode, RealDisk } from '../../../../src/queue/journal/disk.ts'
import { type Journal, openJournal } from '../../../../src/queue/journal/journal.ts'
import { readRecords } from '../../../../src/queue/journal/recovery.ts'
import { type Damage, PIECE_BYTES } from '../../../../src/queue/journal/segment-cursor.ts'
import { type OnRecord, walkSegments } from '../../../../src/queue/journal/segment-walk.ts'
import { journalDirectory, listSegments, segmentPath } from '../../../../src/queue/journal/segments.ts'
import { commitsPath, idsLine, idsPath, readCommitLine, readIdsLine } from '../../../../src/queue/journal/side-files.ts'
import { readCommits } from '../../../../src/queue/journal/side-reader.ts'
import { makeRecord, publish, timersWithoutIntervals } from '../../../support/journal.ts'
import { recovered, searched, tailed } from '../../../support/journal-readings.ts'
import { makeFolder } from '../../../support/service.ts'

const checks = new Crc32c(PIECE_BYTES)
const OPTIONS = { maxBytes: 1e9, keepHours: null, timers: timersWithoutIntervals }

async function opened(folder: string, notices: string[] = []): Promise<Journal> {
  const directory = journalDirectory(folder)
  const onNotice = (text: string): void => void notices.push(text)
  return await openJournal({ directory, maxBytes: 1e9, keepHours: null, timers: timersWithoutIntervals, onNotice })
}

/** Six commits of one record each; returns their ids. */
async function written(folder: string): Promise<string[]> {
  const journal = await opened(folder)
  const records = Array.from({ length: 6 }, (_, index) => makeRecord({ keyed: true, fillBytes: 400 + 30 * index }))
  for (const record of records) expect(await publish(journal, record)).toBe('durable')
  await journal.stop()
  return records.map(({ batchId }) => batchId)
}

async function verified(folder: string): Promise<Verification> {
  const found = new Verification()
  const { signal } = new AbortController()
  await verifyJournal(journalDirectory(folder), found, { signal, onProgress: () => {} })
  return found
}

/** With its CHECK. */
function line(text: string): string {
  const end = checks.bytes.write(text, 0, 'latin1')
  return `${text} ${checks.of(0, end).toString(16).padStart(8, '0')}\n`
}

function placed(text: string): number {
  return checks.bytes.write(text.trimEnd(), 0, 'latin1')
}

describe('a line', () => {
  it.each([
    idsLine(0, 400, [0xdeadbeef, 0, 0xabcdef01, 200], checks, 0),
    line('0 100 0xabcdef'),
    line('0 100 abcdef0'),
    line('0 100 ABCDEF01'),
    line('0 100 abcdef012'),
    line('0x10 100 abcdef01'),
    line('1e2 100 abcdef01'),
    line('-0 100 abcdef01'),
    line(' 100 abcdef01'),
    line('007 100 abcdef01'),
    line('9007199254740991 100 abcdef01'),
    line('0 0 abcdef01'),
  ])('is no commit: %s', (text) => {
    expect(readCommitLine(checks, 0, placed(text))).toBeNull()
  })

  it('whose CHECK has other than eight lower digits is none', () => {
    const good = line('0 100 abcdef01')
    expect(readCommitLine(checks, 0, placed(good))).toEqual({ offset: 0, length: 100, crc: 0xabcdef01 })
    // In capitals it is the same number.
    expect(/[a-f]/.test(good.slice(-9))).toBe(true)
    expect(readCommitLine(checks, 0, placed(good.slice(0, -9) + good.slice(-9).toUpperCase()))).toBeNull()
  })

  it.each([line('0 100 abcdef01'), line('0 1e2 '), line('0 0x10 '), line('-0 100 ')])('has no ids: %s', (text) => {
    expect(readIdsLine(checks, 0, placed(text))).toBeNull()
  })
})

it('gives no commits that lie over one another, whatever their order', async () => {
  const folder = await makeFolder()
  const path = segmentPath(folder, 1)
  for (const lines of [
    ['0 100 00000000', '50 10 00000000', '70 60 00000000', '100 50 00000000'],
    ['100 50 00000000', '0 100 00000000', '70 60 00000000'],
    ['0 20 00000000', '100 50 00000000', '0 100 00000000'],
  ]) {
    await writeFile(commitsPath(path), lines.map(line).join(''))
    expect(await readCommits(path, checks)).toEqual([
      { offset: 0, length: 100, crc: 0 },
      { offset: 100, length: 50, crc: 0 },
    ])
  }
})

class CountingDisk extends RealDisk {
  readonly lengths: number[] = []

  override async open(path: string, mode: OpenMode): Promise<DiskFile> {
    const file = await super.open(path, mode)
    const read = file.read.bind(file)
    file.read = (into, at, length, position) => {
      this.lengths.push(length)
      return read(into, at, length, position)
    }
    return file
  }
}

it('reads the commits of a large segment in pieces, between which others have their turn', async () => {
  const folder = await makeFolder()
  const [disk, path, count] = [new CountingDisk(), segmentPath(folder, 1), 10_000]
  const lines = Array.from({ length: count }, (_, at) => line(`${at * 100} 100 00000000`))
  await writeFile(commitsPath(path), lines.join(''))
  expect(await readCommits(path, checks, disk)).toHaveLength(count)
  expect(Math.max(...disk.lengths)).toBeLessThan(100_000)
})

it('is read so much at a time as its reader wants, but for a longer commit, and whole', async () => {
  const folder = await makeFolder()
  const ids = await written(folder)
  const disk = new CountingDisk()
  const path = segmentPath(journalDirectory(folder), 1)
  const read = async (turnBytes: number): Promise<string[]> => {
    const found: string[] = []
    const onRecord: OnRecord = (start, end) => {
      found.push(checks.bytes.toString('utf8', start, end))
    }
    disk.lengths.length = 0
    const segments = await listSegments(journalDirectory(folder))
    for await (const _ of walkSegments({ segments, checks, disk, onDamage: () => expect.fail(), turnBytes }, onRecord));
    return found.map((text) => (JSON.parse(text) as { batch_id: string }).batch_id)
  }
  const { length } = (await readCommits(path, checks, disk)).reduce((a, b) => (a.length > b.length ? a : b))
  expect(await read(1)).toEqual(ids)
  const bytes = disk.lengths.filter((one) => one <= length)
  expect(bytes.length).toBeGreaterThanOrEqual(ids.length)
  expect(await read(PIECE_BYTES)).toEqual(ids)
  expect(disk.lengths.filter((one) => one <= length).length).toBeLessThan(bytes.length)
})

it('finds all records where the two files beside a segment were swapped', async () => {
  const folder = await makeFolder()
  const ids = await written(folder)
  const path = segmentPath(journalDirectory(folder), 1)
  await rename(commitsPath(path), `${path}.swap`)
  await rename(idsPath(path), commitsPath(path))
  await rename(`${path}.swap`, idsPath(path))
  expect(await recovered(folder)).toEqual({ ids, damages: [] })
  expect(await verified(folder)).toMatchObject({ records: 6, problems: [] })
  const journal = await opened(folder)
  const more = makeRecord()
  expect(await publish(journal, more)).toBe('durable')
  await journal.stop()
  expect(await recovered(folder)).toEqual({ ids: [...ids, more.batchId], damages: [] })
  expect((await verified(folder)).problems).toEqual([])
})

it('finds all records where lines of commits lie over one another', async () => {
  const folder = await makeFolder()
  const ids = await written(folder)
  const path = segmentPath(journalDirectory(folder), 1)
  const lines = (await readFile(commitsPath(path), 'utf8')).trim().split('\n')
  const [first] = lines[0].split(' ').slice(1)
  const over = line(`${Number(first) - 10} 4000 00000000`)
  await writeFile(commitsPath(path), [lines[0], over.trimEnd(), ...lines.slice(1), ''].join('\n'))
  expect((await recovered(folder)).ids).toEqual(ids)
  expect((await verified(folder)).records).toBe(6)
})

describe('commits whose lines end within records, as those of another segment,', () => {
  /** Recovery, tail, find and verify miss none of them, and the first damage is named. */
  async function expectAll(folder: string, ids: readonly string[]): Promise<void> {
    const found = await recovered(folder)
    expect(found.ids).toEqual(ids)
    expect(found.damages.filter(({ kind }) => kind !== 'checksum')).toEqual([])
    expect(found.damages.length).toBeLessThanOrEqual(1)
    expect((await tailed(folder)).lines).toHaveLength(ids.length)
    for (const id of ids) expect((await searched(folder, id)).isFound).toBe(true)
    expect((await verified(folder)).records).toBe(ids.length)
  }

  it.each([[[0, 400, 900, 1700]], [[0, 10]], [[7, 300, 301]], [[650, 3000]], [[3, 3600]]])(
    'at %j, lose none',
    async (ends) => {
      const folder = await makeFolder()
      const ids = await written(folder)
      const path = segmentPath(journalDirectory(folder), 1)
      const { size } = await stat(path)
      const lines = [...ends, size].slice(1).map((end, index) => line(`${ends[index]} ${end - ends[index]} 00000000`))
      await writeFile(commitsPath(path), lines.join(''))
      await expectAll(folder, ids)
      const journal = await opened(folder)
      const more = makeRecord({ keyed: true })
      expect(await publish(journal, more)).toBe('durable')
      await journal.stop()
      await expectAll(folder, [...ids, more.batchId])
    },
  )

  it('do not merge two records between which the newline is damaged', async () => {
    const folder = await makeFolder()
    const ids = await written(folder)
    const path = segmentPath(journalDirectory(folder), 1)
    const bytes = await readFile(path)
    bytes[bytes.indexOf(10)] ^= 1
    await writeFile(path, bytes)
    expect((await recovered(folder)).ids).toEqual(ids)
  })
})

describe.each<[string, (path: string) => unknown]>([
  ['a folder', (path) => mkdir(path)],
  ['a pipe', (path) => execFileSync('mkfifo', [path])],
])('%s in place of', (_, make) => {
  it.each([
    ['the commits', commitsPath],
    ['the ids', idsPath],
  ] as const)('%s is named once, and all goes on as if there were no file', async (which, pathOf) => {
    const folder = await makeFolder()
    const ids = await written(folder)
    const directory = journalDirectory(folder)
    const path = pathOf(segmentPath(directory, 1))
    await rm(path)
    await make(path)
    const beside = { kind: 'beside', path, offset: 0, length: 0, reason: 'it is no regular file' }

    const { ids: found, damages } = await recovered(folder)
    expect([found, damages]).toEqual([ids, which === 'the ids' ? [] : [beside]])
    expect((await tailed(folder)).lines).toHaveLength(6)
    const finding = await searched(folder, ids[4])
    expect([finding.isFound, finding.damages.length > 0]).toEqual([true, true])
    expect(finding.damages.filter(({ kind }) => kind !== 'beside')).toEqual([])
    const { records, problems } = await verified(folder)
    expect([records, problems.filter(({ where }) => where === path)]).toMatchObject([
      6,
      [{ kind: 'unchecked', at: null, detail: 'it cannot be read (it is no regular file), and is taken as missing' }],
    ])

    const notices: string[] = []
    const journal = await opened(folder, notices)
    const more = [makeRecord(), makeRecord()]
    for (const record of more) expect(await publish(journal, record)).toBe('durable')
    await journal.stop()
    expect(notices.filter((text) => text.includes(`${path} is no regular file`))).toHaveLength(1)
    expect((await recovered(folder)).ids).toEqual([...ids, ...more.map(({ batchId }) => batchId)])
    expect(await readdir(directory)).toHaveLength(3)
  })
})

describe('a segment whose commits are gone, and whose ids are there,', () => {
  const noCommits = (path: string) => ({
    kind: 'unchecked',
    where: path,
    detail: expect.stringMatching(`^${commitsPath(path)} has no line, and the ids beside it have: `) as string,
  })

  it('is a problem, and a warning at a start, which gives it its checksums again', async () => {
    const folder = await makeFolder()
    const ids = await written(folder)
    const path = segmentPath(journalDirectory(folder), 1)
    await rm(commitsPath(path))
    expect((await verified(folder)).problems).toMatchObject([noCommits(path)])
    const notices: string[] = []
    const journal = await opened(folder, notices)
    await journal.stop()
    expect(notices).toEqual([expect.stringMatching(`^${commitsPath(path)} has no line, and the ids beside it have: `)])
    expect(await recovered(folder)).toEqual({ ids, damages: [] })
    expect(await verified(folder)).toMatchObject({ problems: [], uncheckedBytes: 0 })
  })

  it.each([340, 1])('and that lost %i bytes, is cut no further, and is named as shorter than it was', async (lost) => {
    const folder = await makeFolder()
    const ids = await written(folder)
    const path = segmentPath(journalDirectory(folder), 1)
    const { size } = await stat(path)
    await rm(commitsPath(path))
    await truncate(path, size - lost)
    const missing = {
      kind: 'missing',
      where: path,
      at: size - lost,
      detail: `${lost} bytes of accepted records that were written here are gone`,
    }
    expect((await verified(folder)).problems).toMatchObject([noCommits(path), missing])
    const notices: string[] = []
    const journal = await opened(folder, notices)
    expect(journal.cutBytes).toBe(0)
    expect(journal.position().segment).toBe(2)
    expect(notices).toContain(`${path} is damaged at its end, at ${size - lost}: new records go into a new segment`)
    const more = makeRecord()
    expect(await publish(journal, more)).toBe('durable')
    await journal.stop()
    expect((await stat(path)).size).toBe(size - lost)
    expect((await recovered(folder)).ids).toEqual([...ids.slice(0, 5), more.batchId])
    // Its whole lines have checksums again.
    expect((await verified(folder)).problems).toMatchObject([missing])
  })
})

it('keeps a record of which the commits have no line yet, and the ids have', async () => {
  const folder = await makeFolder()
  await written(folder)
  const path = segmentPath(journalDirectory(folder), 1)
  const lines = (await readFile(commitsPath(path), 'utf8')).trim().split('\n')
  await writeFile(commitsPath(path), `${lines.slice(0, 3).join('\n')}\n`)
  const { size } = await stat(path)
  await truncate(path, size - 5)
  const journal = await opened(folder)
  expect([journal.cutBytes, journal.position().segment]).toEqual([0, 2])
  await journal.stop()
  expect((await verified(folder)).problems).toMatchObject([{ kind: 'missing', at: size - 5 }])
})

describe.each(['EACCES', 'EIO', 'EMFILE'])('where the disk answers %s for', (code) => {
  const failing = (): Promise<never> => Promise.reject(Object.assign(new Error(`${code}: it fails`), { code }))

  /** For what lies beside the segments, in these modes. */
  class FailingDisk extends RealDisk {
    readonly modes: readonly OpenMode[]
    constructor(modes: readonly OpenMode[]) {
      super()
      this.modes = modes
    }
    override open(path: string, mode: OpenMode): Promise<DiskFile> {
      return this.modes.includes(mode) ? failing() : super.open(path, mode)
    }
  }

  it('files beside a segment, a start goes on as if there were none, and names them', async () => {
    const folder = await makeFolder()
    const ids = await written(folder)
    const directory = journalDirectory(folder)
    const path = segmentPath(directory, 1)
    const disk = new FailingDisk(['beside'])
    const damages: Damage[] = []
    const found: string[] = []
    await readRecords(
      directory,
      null,
      ({ batchId }) => found.push(batchId),
      (damage) => damages.push(damage),
      disk,
    )
    expect(found).toEqual(ids)
    const beside = { kind: 'beside', path: commitsPath(path), offset: 0, length: 0, reason: `${code}: it fails` }
    expect(damages).toEqual([beside])
    expect(damageText(damages[0])).toContain(`${commitsPath(path)} cannot be read (${code}: it fails)`)
    const journal = await openJournal({ ...OPTIONS, directory, disk })
    const more = makeRecord({ keyed: true })
    expect(await publish(journal, more)).toBe('durable')
    await journal.stop()
    expect(await recovered(folder)).toEqual({ ids: [...ids, more.batchId], damages: [] })
    expect((await verified(folder)).problems).toEqual([])
  })

  it('files that are written beside a segment, it goes on without checksums, which is said and counted', async () => {
    const folder = await makeFolder()
    const directory = journalDirectory(folder)
    const notices: unknown[] = []
    const counted: string[] = []
    const journal = await openJournal({
      ...OPTIONS,
      directory,
      disk: new FailingDisk(['note']),
      onNotice: (text, level) => void notices.push([text, level]),
      onDamage: (kind) => void counted.push(kind),
    })
    const records = [makeRecord({ keyed: true }), makeRecord()]
    for (const record of records) expect(await publish(journal, record)).toBe('durable')
    await journal.stop()
    const said = `the checksums of ${segmentPath(directory, 1)} cannot be written (${code}: it fails): `
    expect(notices).toEqual([[expect.stringContaining(said), 'error']])
    expect(counted).toEqual(['unwritten'])
    expect(await recovered(folder)).toEqual({ ids: records.map(({ batchId }) => batchId), damages: [] })
    expect(await readdir(directory)).toEqual(['000000000001.ndjson'])
  })
})
