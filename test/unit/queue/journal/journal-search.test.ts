// Finding one batch in the journal's files.

import { appendFile, mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { type Finding, findingJson, type Progress, type SearchOptions } from '../../../../src/queue/find/finding.ts'
import { type Asked, readQuestion } from '../../../../src/queue/find/question.ts'
import { findInJournal } from '../../../../src/queue/journal/journal-search.ts'
import { segmentPath } from '../../../../src/queue/journal/segments.ts'
import { type Batch, type BatchWish, makeBatch } from '../../../support/batches.ts'
import { makeFolder, removeFolder } from '../../../support/service.ts'

const NOW = Date.parse('2026-11-20T12:00:00.000Z')
const SECOND = 1000
const HOUR = 3600 * SECOND
const KEY = '0b9e3a52-6f0c-4d7e-9a55-2f8c1d3e4b6a'
/** Larger than what is read at once. */
const LARGE = `[{"fill":"${'x'.repeat(300_000)}"}]`

let folder: string
let directory: string
beforeEach(async () => {
  folder = await makeFolder()
  directory = join(folder, 'journal')
  await mkdir(directory)
  onTestFinished(() => removeFolder(folder))
})

async function write(segment: number, batches: readonly Pick<Batch, 'line'>[]): Promise<void> {
  await writeFile(segmentPath(directory, segment), batches.map(({ line }) => line).join(''))
}

async function find(asked: Asked, options: SearchOptions = {}): Promise<Finding> {
  const reading = readQuestion(asked, NOW)
  if (reading.kind === 'mistake') throw new Error(reading.mistake)
  return await findInJournal(folder, reading.question, options)
}

/** One record a second, the last one now; the events of some are large. */
function aDay(records: number, wish: Partial<BatchWish> = {}): Batch[] {
  return Array.from({ length: records }, (_, at) =>
    makeBatch({
      receivedAtMs: NOW - (records - 1 - at) * SECOND,
      ...(at % 500 === 7 ? { events: LARGE } : {}),
      ...wish,
    }),
  )
}

/** Where each line begins in the text of them all. */
function offsetsOf(batches: readonly Batch[]): number[] {
  let offset = 0
  return batches.map(({ line }) => {
    offset += Buffer.byteLength(line)
    return offset - Buffer.byteLength(line)
  })
}

describe('a batch that is there', () => {
  test('is found by its id at its place, wherever that is, and bytes are read around it alone', async () => {
    const batches = aDay(6000)
    const parts = [batches.slice(0, 1500), batches.slice(1500, 1501), batches.slice(1501, 4000), batches.slice(4000)]
    for (const [index, part] of parts.entries()) await write(3 + 2 * index, part)
    const places = parts.flatMap((part, index) => {
      const offsets = offsetsOf(part)
      return part.map(({ id, line }, at) => ({ id, line, segment: 3 + 2 * index, offset: offsets[at] }))
    })
    for (const at of [0, 1, 7, 508, 1499, 1500, 1501, 3007, 3999, 4000, 5007, 5999]) {
      const { id, line, segment, offset } = places[at]
      let read = 0
      const found = await find({ id }, { onProgress: ({ read: bytes }) => (read = bytes) })
      expect(found, `batch ${at}`).toMatchObject({
        kind: 'found',
        record: { batchId: id, appId: 'demo', events: 1 },
        place: {
          kind: 'journal',
          segment: `${String(segment).padStart(12, '0')}.ndjson`,
          offsetBytes: offset,
          lengthBytes: Buffer.byteLength(line) - 1,
        },
        consumers: [],
      })
      // The runner would take half a second to compare the large ones.
      expect(found.kind === 'found' && found.record.line.equals(Buffer.from(line.slice(0, -1)))).toBe(true)
      expect(read).toBeLessThanOrEqual(2 * 1024 * 1024)
    }
  })

  test('is found by app and key in the last ten minutes, and further back since a time', async () => {
    const fresh = makeBatch({ key: KEY, receivedAtMs: NOW - 9 * 60 * SECOND })
    const old = makeBatch({ key: KEY, appId: 'shop', receivedAtMs: NOW - 5 * HOUR })
    const around = aDay(4000)
    await write(1, [old, ...around.slice(0, 3459), fresh, ...around.slice(3459)])
    expect(await find({ app: 'demo', key: KEY })).toMatchObject({ kind: 'found', record: { batchId: fresh.id } })
    expect(await find({ id: fresh.id })).toMatchObject({ kind: 'found' })
    const missed = await find({ app: 'shop', key: KEY })
    expect(missed).toMatchObject({ kind: 'not found', isComplete: true, reachesBackToMs: NOW - 5 * HOUR })
    expect(missed).toHaveProperty('advice', expect.stringContaining('give since, such as 3d'))
    expect(await find({ app: 'shop', key: KEY, since: '6h' })).toMatchObject({
      kind: 'found',
      record: { appId: 'shop' },
    })
  })

  test('is found where its clock was minutes off, before records and after them', async () => {
    const early = makeBatch({ receivedAtMs: NOW - HOUR })
    const batches = aDay(2 * 3600)
    // The id says an hour ago; the record lies nine minutes later, and calls itself as late.
    const late = { ...early, line: early.line.replace(/"received_at":"[^"]+"/, `"received_at":"${timeAt(-51)}"`) }
    await write(1, [...batches.slice(0, 69 * 60), late, ...batches.slice(69 * 60)])
    expect(await find({ id: early.id })).toMatchObject({ kind: 'found', record: { receivedAt: timeAt(-51) } })
  })

  test('is told with its members as JSON, the record byte by byte', async () => {
    const trace = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
    const members = `,"sdk_version":"2.1.0","trace":"${trace}"`
    const { id, line } = makeBatch({ receivedAtMs: NOW, members, events: '[{"n":12345678901234567890.0},{}]' })
    await write(1, [{ line }])
    const reading = readQuestion({ id }, NOW)
    if (reading.kind === 'mistake') throw new Error(reading.mistake)
    const finding = await find({ id })
    expect(JSON.parse(findingJson(finding, reading.question, { withRecord: false }))).toEqual({
      found: true,
      batch_id: id,
      app_id: 'demo',
      received_at: '2026-11-20T12:00:00.000Z',
      sdk_version: '2.1.0',
      trace,
      events: 2,
      keyed: false,
      place: { kind: 'journal', segment: '000000000001.ndjson', offset_bytes: 0, length_bytes: line.length - 1 },
      consumers: [],
    })
    expect(findingJson(finding, reading.question, { withRecord: true })).toContain(`,"record":${line.slice(0, -1)}}`)
  })
})

function timeAt(minutes: number): string {
  return new Date(NOW + minutes * 60 * SECOND).toISOString()
}

describe('a batch that is not there', () => {
  test('is told with how far back the journal reaches, and what may have become of it', async () => {
    await write(1, aDay(3600))
    const reachesBackToMs = NOW - 3599 * SECOND
    const made = (agoMs: number): string => makeBatch({ receivedAtMs: NOW - agoMs }).id
    const within = await find({ id: made(1800 * SECOND) })
    expect(within).toMatchObject({
      kind: 'not found',
      searched: { fromMs: NOW - 2400 * SECOND, toMs: NOW - 1200 * SECOND },
      reachesBackToMs,
      isComplete: true,
      advice: expect.stringMatching(/no batch with this id was stored here.*X-Request-Id/) as string,
    })
    expect(await find({ id: made(2 * HOUR) })).toHaveProperty(
      'advice',
      expect.stringContaining('older than anything the queue still has'),
    )
    expect(await find({ id: made(-HOUR) })).toHaveProperty('advice', expect.stringContaining('in the future'))
    const missed = await find({ app: 'demo', key: KEY })
    expect(missed).toHaveProperty('advice', expect.stringContaining('only the last ten minutes were searched'))
    expect(await find({ app: 'demo', key: KEY, since: '3d' })).toHaveProperty(
      'advice',
      expect.stringContaining('holds no batch with this id from that time on'),
    )
  })

  test('under a key is told without a way to look further, where the whole journal was searched', async () => {
    await write(1, aDay(60))
    const missed = await find({ app: 'demo', key: KEY })
    expect(missed).toHaveProperty('advice', expect.stringContaining('All that the queue has was searched'))
  })

  test('is not found in an empty journal, nor where there is none', async () => {
    const { id } = makeBatch({ receivedAtMs: NOW })
    await write(1, [])
    expect(await find({ id })).toMatchObject({
      kind: 'not found',
      reachesBackToMs: null,
      advice: 'The queue is empty.',
    })
    await rm(directory, { recursive: true })
    expect(await find({ id })).toMatchObject({ kind: 'not found', reachesBackToMs: null })
  })

  test('is not taken from what a client wrote into its events', async () => {
    const { id, line } = makeBatch({ receivedAtMs: NOW })
    const events = `[${line.trim()},{"a":"\\n${JSON.stringify(line).slice(1, -1)}"}]`
    await write(1, [makeBatch({ receivedAtMs: NOW, events }), ...aDay(3)])
    expect(await find({ id })).toMatchObject({ kind: 'not found' })
  })
})

describe('a damaged journal', () => {
  test('gives what is whole: a torn last line does not count, and lines by hand are passed over', async () => {
    const batches = aDay(4000)
    const torn = makeBatch({ receivedAtMs: NOW })
    const byHand = { line: `# note\n{"v":1,"batch_id":"${batches[2500].id}"\n\0\0${'\xff'.repeat(70_000)}\n` }
    await write(1, [...batches.slice(0, 2500), byHand, ...batches.slice(2500)])
    await appendFile(segmentPath(directory, 1), torn.line.slice(0, -5))
    expect(await find({ id: torn.id })).toMatchObject({ kind: 'not found' })
    for (const at of [0, 2499, 2500, 3999]) expect(await find({ id: batches[at].id })).toMatchObject({ kind: 'found' })
  })

  test('of nothing but rubbish holds no batch', async () => {
    const { id } = makeBatch({ receivedAtMs: NOW })
    await writeFile(segmentPath(directory, 1), Buffer.alloc(3 * 1024 * 1024, 'rubbish '))
    expect(await find({ id })).toMatchObject({ kind: 'not found', reachesBackToMs: null })
  })
})

test('a search that is ended says how far it came', async () => {
  await write(1, aDay(7200, { events: `[{"fill":"${'x'.repeat(1000)}"}]` }))
  const ending = new AbortController()
  const seen: Progress[] = []
  const finding = await find(
    { app: 'demo', key: KEY, since: '2h' },
    {
      signal: ending.signal,
      onProgress: (progress) => {
        seen.push(progress)
        if (seen.length === 3) ending.abort()
      },
    },
  )
  expect(seen).toHaveLength(3)
  expect(seen[2].reachedMs).toBeGreaterThan(seen[0].reachedMs)
  expect(finding).toMatchObject({ kind: 'not found', isComplete: false })
  expect(finding).toHaveProperty('advice', expect.stringContaining(new Date(seen[2].reachedMs).toISOString()))
})
