import { spawnSync } from 'node:child_process'
import { mkdir, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { BLOCK_BYTES } from '../../../../src/queue/journal/direct-writes.ts'
import { type DirectFile, type Disk, RealDisk, WRITES_ARE_SYNCED } from '../../../../src/queue/journal/disk.ts'
import { type Journal, openJournal } from '../../../../src/queue/journal/journal.ts'
import { readLines } from '../../../../src/queue/journal/journal-reader.ts'
import { readRecords } from '../../../../src/queue/journal/recovery.ts'
import { lastRecordTimeMs, segmentPath } from '../../../../src/queue/journal/segments.ts'
import { FailingDisk, makeRecord, publish, readNaively } from '../../../support/journal.ts'
import { makeFolder } from '../../../support/service.ts'

const MEBIBYTE = 1024 * 1024

/** A real disk that counts the writes of each kind, or whose file system has no direct writes from one of them on. */
class CountingDisk extends RealDisk {
  ordinary = 0
  direct = 0
  readonly #lastDirect: number

  constructor(lastDirect = Number.POSITIVE_INFINITY) {
    super()
    this.#lastDirect = lastDirect
  }

  override append(...[handle, lines, done]: Parameters<Disk['append']>): void {
    this.ordinary += 1
    super.append(handle, lines, done)
  }

  override openDirectly(...[path, handle]: Parameters<Disk['openDirectly']>): DirectFile | null {
    if (this.#lastDirect < 0) throw unsupported()
    const file = super.openDirectly(path, handle)
    if (file === null) return null
    return {
      append: (bytes, done) => {
        this.direct += 1
        if (this.direct > this.#lastDirect) setImmediate(() => done(unsupported(), 0))
        else file.append(bytes, done)
      },
      close: () => file.close(),
    }
  }
}

function unsupported(): Error {
  return Object.assign(new Error('EINVAL: injected'), { code: 'EINVAL' })
}

/** Asked of another program. */
function takesDirectWrites(folder: string): boolean {
  const probe = ['if=/dev/zero', `of=${join(folder, 'probe')}`, 'bs=4096', 'count=1', 'oflag=direct']
  return spawnSync('dd', probe).status === 0
}

const small = () => makeRecord()
const large = () => makeRecord({ fillBytes: 70_000 })

async function opened(directory: string, disk: Disk, notices: string[] = []): Promise<Journal> {
  return await openJournal({
    directory,
    disk,
    maxBytes: 100 * MEBIBYTE,
    keepHours: null,
    onNotice: (text) => void notices.push(text),
  })
}

/** Publishes one by one, so that each is a commit of its own. */
async function publishAll(journal: Journal, records: readonly ReturnType<typeof makeRecord>[]): Promise<void> {
  for (const record of records) expect(await publish(journal, record)).toBe('durable')
}

const idsOf = (records: readonly { batchId: string }[]) => records.map(({ batchId }) => batchId)

/** The ids that recovery finds, which must not meet a line that is no record. */
async function recoveredIds(directory: string): Promise<string[]> {
  const ids: string[] = []
  await readRecords(
    directory,
    null,
    ({ batchId }) => ids.push(batchId),
    ({ path, offset }) => expect.fail(`damaged at ${offset} of ${path}`),
  )
  return ids
}

describe.runIf(WRITES_ARE_SYNCED)('a large commit', () => {
  it('ends with its block, so that the next one can be written directly', async () => {
    const directory = await makeFolder()
    const disk = new CountingDisk()
    const notices: string[] = []
    const journal = await opened(directory, disk, notices)
    const records = [large(), large(), small(), small(), large(), large(), large()]
    await publishAll(journal, records)
    await journal.stop()
    const { size } = await stat(segmentPath(directory, 1))
    expect(size % BLOCK_BYTES).toBe(0)
    expect(journal.sizeBytes).toBe(size)
    expect(journal.position()).toEqual({ segment: 1, offset: size })
    // The first one behind the small ones begins within a block, and the second one fills its last.
    const isSupported = takesDirectWrites(directory)
    expect(disk).toMatchObject(isSupported ? { direct: 3, ordinary: 4 } : { ordinary: 7 })
    expect(notices).toHaveLength(isSupported ? 0 : 1)
    expect((await readNaively(directory)).map(({ batch_id }) => batch_id)).toEqual(idsOf(records))
    expect(await recoveredIds(directory)).toEqual(idsOf(records))
    expect(await lastRecordTimeMs(segmentPath(directory, 1))).toBe(1_800_000_000_000)
  })

  it('between small ones fills no block', async () => {
    const directory = await makeFolder()
    const disk = new CountingDisk()
    const journal = await opened(directory, disk)
    const records = [small(), large(), small(), large(), small(), large()]
    await publishAll(journal, records)
    await journal.stop()
    expect(disk).toMatchObject({ direct: 0, ordinary: 6 })
    expect(journal.sizeBytes).toBe(records.reduce((sum, { line }) => sum + line.length, 0))
  })

  it.each([-5000, 6])(
    'into a segment that another program has changed by %i bytes goes into a new one, which is said once',
    async (change) => {
      const directory = await makeFolder()
      const disk = new CountingDisk()
      const notices: string[] = []
      const journal = await opened(directory, disk, notices)
      await publishAll(journal, [large()])
      const path = segmentPath(directory, 1)
      const { size } = await stat(path)
      if (change < 0) await truncate(path, size + change)
      else await writeFile(path, 'hello\n', { flag: 'a' })
      const records = [large(), large()]
      await publishAll(journal, records)
      await journal.stop()
      expect(await readFile(segmentPath(directory, 2), 'utf8')).toContain(records[0].batchId)
      const said = notices.filter((text) => text.startsWith('another program changed'))
      expect(said).toEqual([expect.stringContaining(`${path}: it has ${size + change} bytes, and should have ${size}`)])
    },
  )

  it('never takes the journal beyond its maximum, with the blocks that it fills', async () => {
    const directory = await makeFolder()
    const maxBytes = 2_000_000
    const journal = await openJournal({ directory, maxBytes, segmentBytes: 10 * MEBIBYTE, keepHours: null })
    const acks = await Promise.all(
      Array.from({ length: 64 }, () => publish(journal, makeRecord({ fillBytes: 66_000 }))),
    )
    expect(acks.filter((each) => each === 'durable').length).toBeGreaterThan(25)
    expect(acks).toContain('journal_full')
    expect(journal.sizeBytes).toBeLessThanOrEqual(maxBytes)
    await journal.stop()
  })

  it('of many records is one write', async () => {
    const directory = await makeFolder()
    const disk = new FailingDisk()
    const journal = await opened(directory, disk)
    const records = Array.from({ length: 20 }, () => makeRecord({ fillBytes: 5000 }))
    await Promise.all(records.map((record) => publish(journal, record)))
    await journal.stop()
    expect(disk.appends).toBe(1)
    expect(await recoveredIds(directory)).toEqual(idsOf(records))
  })

  it.each([-1, 0, 1, 2])(
    'is written in the ordinary way where direct writes end with number %i, and one line says so',
    async (last) => {
      const directory = await makeFolder()
      const disk = new CountingDisk(last)
      const notices: string[] = []
      const journal = await opened(directory, disk, notices)
      const records = [large(), large(), large(), small(), large()]
      await publishAll(journal, records)
      await journal.stop()
      expect(notices).toEqual([
        expect.stringMatching(/^O_DIRECT is not supported here \(EINVAL.*\): large writes go through the page cache/),
      ])
      expect(await recoveredIds(directory)).toEqual(idsOf(records))
    },
  )
})

describe.runIf(WRITES_ARE_SYNCED)('a journal with filled blocks', () => {
  it('is recovered to the last whole record, wherever a crash has cut it, and goes on from there', async () => {
    const folder = await makeFolder()
    const whole = join(folder, 'whole')
    const journal = await opened(whole, new CountingDisk())
    const records = [small(), large(), large(), large(), small(), large()]
    const ends: number[] = []
    for (const record of records) {
      await publishAll(journal, [record])
      ends.push(journal.position().offset)
    }
    await journal.stop()
    const bytes = await readFile(segmentPath(whole, 1))
    const cuts = Array.from({ length: bytes.length / 512 + 1 }, (_, index) => index * 512)
    const around = ends.flatMap((end) => [end - 1, end, end + 1])
    const directory = join(folder, 'cut')
    for (const cut of [...cuts.filter((_, index) => index % 9 === 0), ...around].filter((at) => at <= bytes.length)) {
      const path = segmentPath(directory, 1)
      await rm(directory, { recursive: true, force: true })
      await mkdir(directory)
      await writeFile(path, bytes)
      await truncate(path, cut)
      const kept = idsOf(records).slice(0, ends.filter((end) => end <= cut).length)
      expect(await recoveredIds(directory)).toEqual(kept)
      const again = await opened(directory, new CountingDisk())
      const more = [large(), large(), small()]
      await publishAll(again, more)
      await again.stop()
      expect(await recoveredIds(directory)).toEqual([...kept, ...idsOf(more)])
    }
  })

  it('shows its readers the records as they were', async () => {
    const directory = await makeFolder()
    const journal = await opened(directory, new CountingDisk())
    const records = [large(), small(), large(), large(), small()]
    await publishAll(journal, records)
    await journal.stop()
    const lines: string[] = []
    const onDamage = ({ offset }: { offset: number }) => expect.fail(`damaged at ${offset}`)
    const options = { fromStart: true, follow: false, signal: new AbortController().signal, onDamage }
    for await (const line of readLines(directory, options)) lines.push(`${line.toString()}\n`)
    expect(lines).toEqual(records.map(({ line }) => Buffer.from(line).toString()))
  })
})

it('a new segment gets a number behind all names that are there, whatever they are', async () => {
  const directory = await makeFolder()
  const notices: string[] = []
  const journal = await openJournal({
    directory,
    maxBytes: 100 * MEBIBYTE,
    segmentBytes: 1000,
    keepHours: null,
    onNotice: (text) => void notices.push(text),
  })
  await mkdir(segmentPath(directory, 2))
  const records = Array.from({ length: 8 }, () => makeRecord({ fillBytes: 500 }))
  await publishAll(journal, records)
  await journal.stop()
  expect(notices).toEqual([])
  expect(journal.position().segment).toBeGreaterThan(2)
  expect(await recoveredIds(directory)).toEqual(idsOf(records))
})
