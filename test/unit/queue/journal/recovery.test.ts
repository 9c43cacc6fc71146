import { appendFile, mkdir, readdir, rm, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { readRecords, recover } from '../../../../src/queue/journal/recovery.ts'
import { type JournalPosition, journalDirectory, segmentPath } from '../../../../src/queue/journal/segments.ts'
import { readSnapshot, writeSnapshot } from '../../../../src/queue/journal/snapshot.ts'
import { makeRecord } from '../../../support/journal.ts'
import { makeFolder } from '../../../support/service.ts'

const NOW_MS = 1_800_000_000_000

async function recovered(dataDirectory: string, isUsable = true) {
  const calls: string[] = []
  const usage: string[] = []
  const keys: string[] = []
  const corrupt: number[] = []
  const result = await recover({
    dataDirectory,
    nowMs: NOW_MS,
    onSnapshot: (dump) => {
      calls.push(`snapshot ${JSON.stringify(dump)}`)
      return isUsable ? null : 'not a dump of ours'
    },
    onUsage: (appId, cost) => {
      calls.push('usage')
      usage.push(`${appId} ${cost}`)
    },
    onKey: (batchId) => void keys.push(batchId),
    onDamage: ({ offset }) => void corrupt.push(offset),
  })
  return { calls, usage, keys, corrupt, result }
}

/** Writes each list of lines as one segment, and returns where each line begins. */
async function writeSegments(dataDirectory: string, segments: Uint8Array[][]): Promise<JournalPosition[]> {
  const directory = journalDirectory(dataDirectory)
  await mkdir(directory, { recursive: true })
  const positions: JournalPosition[] = []
  for (const [index, lines] of segments.entries()) {
    let offset = 0
    for (const line of lines) {
      positions.push({ segment: index + 1, offset })
      offset += line.length
    }
    await writeFile(segmentPath(directory, index + 1), Buffer.concat(lines))
  }
  return positions
}

const old = { receivedAtMs: NOW_MS - 300_001 }
const young = { receivedAtMs: NOW_MS - 300_000 }

describe('recovery', () => {
  it('of a folder that does not exist finds nothing', async () => {
    const folder = await makeFolder()
    const { calls, result } = await recovered(join(folder, 'none'))
    expect(calls).toEqual([])
    expect(result).toMatchObject({ records: 0, keysFrom: null, resumeAfter: null, snapshotProblem: null })
  })

  it('without a snapshot counts every record, and an empty batch as 1', async () => {
    const folder = await makeFolder()
    const records = [makeRecord({ events: 3, appId: 'a' }), makeRecord({ events: 0, appId: 'b' })]
    await writeSegments(folder, [[records[0].line], [], [records[1].line]])
    expect((await recovered(folder)).usage).toEqual(['a 3', 'b 1'])
  })

  it('remembers the keys of the last 300 s, and only where there was one', async () => {
    const folder = await makeFolder()
    const records = [
      makeRecord({ ...old, keyed: true }),
      makeRecord({ ...young, keyed: false }),
      makeRecord({ ...young, keyed: true }),
    ]
    const positions = await writeSegments(folder, [records.map(({ line }) => line)])
    const { keys, result } = await recovered(folder)
    expect(keys).toEqual([records[2].batchId])
    expect(result.keysFrom).toEqual(positions[1])
  })

  it('counts for usage only what the snapshot does not cover, and reads keys from before it', async () => {
    const folder = await makeFolder()
    const records = [1, 2, 3, 4].map((events) => makeRecord({ ...young, events, keyed: true }))
    const lines = records.map(({ line }) => line)
    const positions = await writeSegments(folder, [lines.slice(0, 2), lines.slice(2)])
    await writeSnapshot(folder, { writtenAtMs: 1, position: positions[3], keysFrom: positions[1], usage: { a: 1 } })
    const { calls, usage, keys } = await recovered(folder)
    expect(calls).toEqual(['snapshot {"a":1}', 'usage'])
    expect(usage).toEqual(['demo 4'])
    expect(keys).toEqual(records.slice(1).map(({ batchId }) => batchId))
  })

  it('reads from the snapshot even where the keys begin after it', async () => {
    const folder = await makeFolder()
    const positions = await writeSegments(folder, [[makeRecord().line, makeRecord().line]])
    const end = { segment: 1, offset: 10_000 }
    await writeSnapshot(folder, { writtenAtMs: 1, position: positions[1], keysFrom: end, usage: 0 })
    expect((await recovered(folder)).usage).toHaveLength(1)
  })

  it('keeps the usage of a snapshot whose journal is gone', async () => {
    const folder = await makeFolder()
    const position = { segment: 4, offset: 99 }
    await writeSnapshot(folder, { writtenAtMs: 1, position, keysFrom: position, usage: [7] })
    const { calls, result } = await recovered(folder)
    expect(calls).toEqual(['snapshot [7]'])
    expect(result.resumeAfter).toEqual(position)
    await writeSegments(folder, [[makeRecord().line]])
    expect((await recovered(folder)).calls).toEqual(['snapshot [7]'])
  })

  it('reads the whole journal where the snapshot is damaged, and reports it', async () => {
    const folder = await makeFolder()
    await writeSegments(folder, [[makeRecord().line]])
    const position = '{"segment":1,"offset":0}'
    const beyondNames = '{"segment":999999999999,"offset":0}'
    const texts = [
      `{"version":1,"writtenAtMs":1,"position":${position},"keysFrom":${position},"usage":null}`,
      `{"version":1,"writtenAtMs":1,"position":${beyondNames},"keysFrom":${position},"usage":1}`,
    ]
    for (const text of ['', '{"version":1', '{"version":2,"usage":{}}', '[]', 'null', ...texts]) {
      await writeFile(join(folder, 'snapshot.json'), text)
      const { calls, result } = await recovered(folder)
      expect(calls).toEqual(['usage'])
      expect(result.snapshotProblem).toContain('snapshot.json')
    }
  })

  it('reads the whole journal where the limits cannot use the snapshot', async () => {
    const folder = await makeFolder()
    const [start, end] = await writeSegments(folder, [[makeRecord().line, makeRecord().line]])
    await writeSnapshot(folder, { writtenAtMs: 1, position: end, keysFrom: start, usage: 7 })
    const { usage, result } = await recovered(folder, false)
    expect(usage).toHaveLength(2)
    expect(result).toMatchObject({ snapshotProblem: 'not a dump of ours', resumeAfter: null })
  })

  it('skips lines that are not records, and reports their positions', async () => {
    const folder = await makeFolder()
    const first = makeRecord().line
    const long = Buffer.alloc(5_000_000, 'x')
    long[long.length - 1] = 10
    const lines = [first, Buffer.from('edited\n'), makeRecord().line, Buffer.from('\n'), long, makeRecord().line]
    const positions = await writeSegments(folder, [lines])
    const { usage, corrupt } = await recovered(folder)
    expect(usage).toHaveLength(3)
    expect(corrupt).toEqual([1, 4].map((index) => positions[index].offset))
  })

  it('ignores a last line that is still being written', async () => {
    const folder = await makeFolder()
    const [whole, torn] = [makeRecord().line, makeRecord().line]
    await writeSegments(folder, [[whole, torn.subarray(0, torn.length - 1)]])
    const { usage, corrupt, result } = await recovered(folder)
    expect([usage.length, corrupt.length]).toEqual([1, 0])
    expect(result.bytes).toBe(whole.length)
  })

  it('finds records wherever a chunk boundary is', async () => {
    const folder = await makeFolder()
    const records = Array.from({ length: 40 }, (_, index) =>
      makeRecord({ events: index % 7, fillBytes: (index * 79_193) % 150_000 }),
    )
    const positions = await writeSegments(folder, [records.map(({ line }) => line)])
    const seen: (JournalPosition & { batchId: string })[] = []
    const directory = journalDirectory(folder)
    await readRecords(directory, null, ({ batchId }, segment, offset) => void seen.push({ batchId, segment, offset }))
    expect(seen).toEqual(records.map(({ batchId }, index) => ({ batchId, ...positions[index] })))
    const tail: string[] = []
    await readRecords(directory, positions[33], ({ batchId }) => void tail.push(batchId))
    expect(tail).toEqual(records.slice(33).map(({ batchId }) => batchId))
  })
})

describe('the snapshot', () => {
  const position = { segment: 2, offset: 5 }

  it('is read as it was written, the last one wins, and no other file is left', async () => {
    const folder = await makeFolder()
    expect(await readSnapshot(folder)).toBeNull()
    const last = { writtenAtMs: 2, position, keysFrom: { segment: 1, offset: 0 }, usage: { ä: [1, null] } }
    await writeSnapshot(folder, { ...last, writtenAtMs: 1 })
    await writeSnapshot(folder, last)
    expect(await readSnapshot(folder)).toEqual({ kind: 'read', snapshot: last })
    expect(await readdir(folder)).toEqual(['snapshot.json'])
  })

  it('that was being written during a power failure does not harm the previous one', async () => {
    const folder = await makeFolder()
    const good = { writtenAtMs: 1, position, keysFrom: position, usage: 1 }
    await writeSnapshot(folder, good)
    await writeFile(join(folder, 'snapshot.json.new'), '{"versi')
    expect(await readSnapshot(folder)).toEqual({ kind: 'read', snapshot: good })
    await writeSnapshot(folder, { ...good, usage: 2 })
    expect(await readSnapshot(folder)).toMatchObject({ snapshot: { usage: 2 } })
  })

  it('that is truncated anywhere is a problem, never a wrong result', async () => {
    const folder = await makeFolder()
    const path = join(folder, 'snapshot.json')
    await writeSnapshot(folder, { writtenAtMs: 1, position, keysFrom: position, usage: { a: 1 } })
    const whole = await readSnapshot(folder)
    // First the newline, then more and more bytes.
    for (let size = 100; size >= 0; size -= 1) {
      await truncate(path, size).catch(() => {})
      const reading = await readSnapshot(folder)
      expect([whole, 'problem']).toContainEqual(reading?.kind === 'read' ? reading : reading?.kind)
    }
    expect(await readSnapshot(folder)).toMatchObject({ kind: 'problem' })
    await rm(path)
    await appendFile(path, '{"version":1,"writtenAtMs":1,"position":{"segment":-1,"offset":0},"keysFrom":{},"usage":1}')
    expect(await readSnapshot(folder)).toMatchObject({ kind: 'problem' })
  })
})
