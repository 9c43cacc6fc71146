// Finding one batch in the journal's files.

import { appendFile, mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeEach, describe, expect, test } from 'vitest'
import { findingJson } from '../../../../src/inspect/find/finding-json.ts'
import { type Finding, goOnBeforeMs, type Progress, type SearchOptions } from '../../../../src/queue/find/finding.ts'
import { type Asked, type Question, readQuestion } from '../../../../src/queue/find/question.ts'
import { findInJournal } from '../../../../src/queue/journal/journal-search.ts'
import { segmentPath } from '../../../../src/queue/journal/segments.ts'
import { type Batch, type BatchWish, makeBatch } from '../../../support/batches.ts'
import { makeFolder } from '../../../support/service.ts'

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
})

async function write(segment: number, batches: readonly Pick<Batch, 'line'>[]): Promise<void> {
  await writeFile(segmentPath(directory, segment), batches.map(({ line }) => line).join(''))
}

function questionOf(asked: Asked): Question {
  const reading = readQuestion(asked, NOW)
  if (reading.kind === 'mistake') throw new Error(reading.mistake)
  return reading.question
}

function find(asked: Asked, options: SearchOptions = {}): Promise<Finding> {
  return findInJournal(folder, questionOf(asked), options)
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
  test('is found by its id at its place, wherever that is', async () => {
    const batches = aDay(6000)
    const parts = [batches.slice(0, 1500), batches.slice(1500, 1501), batches.slice(1501, 4000), batches.slice(4000)]
    for (const [index, part] of parts.entries()) await write(3 + 2 * index, part)
    const places = parts.flatMap((part, index) => {
      const offsets = offsetsOf(part)
      return part.map(({ id, line }, at) => ({ id, line, segment: 3 + 2 * index, offset: offsets[at] }))
    })
    for (const at of [0, 1, 7, 508, 1499, 1500, 1501, 3007, 3999, 4000, 5007, 5999]) {
      const { id, line, segment, offset } = places[at]
      const found = await find({ id })
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
    }
  })

  test('under a key is found at any age, by its id too', async () => {
    const old = makeBatch({ key: KEY, appId: 'shop', receivedAtMs: NOW - 50 * 24 * HOUR })
    const fresh = makeBatch({ key: KEY, receivedAtMs: NOW - 9 * 60 * SECOND })
    const around = aDay(4000)
    await write(1, [old])
    await write(2, around.slice(0, 3459))
    await write(3, [fresh, ...around.slice(3459)])
    for (const asked of [{ app: 'shop', key: KEY }, { id: old.id }]) {
      const place = { segment: '000000000001.ndjson', offsetBytes: 0 }
      expect(await find(asked)).toMatchObject({ kind: 'found', record: { appId: 'shop' }, place })
    }
    expect(await find({ id: fresh.id })).toMatchObject({ kind: 'found', place: { offsetBytes: 0 } })
  })

  test('under a key that was used again is the newest one, or an earlier one before its time', async () => {
    const ages = [5 * HOUR, 4 * HOUR, 4 * HOUR - 400 * SECOND, 10 * SECOND]
    const same = ages.map((ageMs) => makeBatch({ key: KEY, receivedAtMs: NOW - ageMs }))
    const between = aDay(40)
    await write(1, [same[0], ...between.slice(0, 2), same[1], same[2]])
    await write(2, [...between.slice(2, 30), same[3], ...between.slice(30)])
    const receivedAt = async (times: Asked): Promise<unknown> => {
      const found = await find({ app: 'demo', key: KEY, ...times })
      return found.kind === 'found' ? found.record.receivedAt : found.reason
    }
    const timeOf = (ageMs: number): string => new Date(NOW - ageMs).toISOString()
    expect(await receivedAt({})).toBe(timeOf(ages[3]))
    for (const at of [3, 2, 1]) expect(await receivedAt({ before: timeOf(ages[at]) })).toBe(timeOf(ages[at - 1]))
    expect(await receivedAt({ before: timeOf(ages[0]) })).toBe('narrowed')
    expect(await receivedAt({ since: timeOf(ages[3]) })).toBe(timeOf(ages[3]))
    expect(await receivedAt({ since: timeOf(ages[3] - 1) })).toBe('narrowed')
  })

  test('is found where its clock was minutes off, before records and after them', async () => {
    const early = makeBatch({ receivedAtMs: NOW - HOUR })
    const batches = aDay(2 * 3600)
    // The id says an hour ago; the record lies nine minutes later, and calls itself as late.
    const late = { ...early, line: early.line.replace(/"received_at":"[^"]+"/, `"received_at":"${timeAt(-51)}"`) }
    await write(1, [...batches.slice(0, 69 * 60), late, ...batches.slice(69 * 60)])
    expect(await find({ id: early.id })).toMatchObject({ kind: 'found', record: { receivedAt: timeAt(-51) } })
  })

  test('is found where the clock was set back by days for a while, and set right again', async () => {
    const at = (ms: number): Batch => makeBatch({ receivedAtMs: ms })
    const before = [at(NOW - 5 * HOUR), at(NOW - 4 * HOUR)]
    const back = [at(NOW - 75 * HOUR), at(NOW - 74 * HOUR), at(NOW - 73 * HOUR)]
    const after = [at(NOW - HOUR), at(NOW)]
    await write(1, before.slice(0, 1))
    await write(2, [...before.slice(1), ...back.slice(0, 1)])
    await write(3, back.slice(1, 2))
    await write(4, [...back.slice(2), ...after])
    for (const { id } of [...before, ...back, ...after]) expect(await find({ id })).toMatchObject({ kind: 'found' })
  })

  test('is told with its members as JSON, the record byte by byte', async () => {
    const trace = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
    const members = `,"sdk_version":"2.1.0","trace":"${trace}"`
    const { id, line } = makeBatch({ receivedAtMs: NOW, members, events: '[{"n":12345678901234567890.0},{}]' })
    await write(1, [{ line }])
    const finding = await find({ id })
    expect(JSON.parse(findingJson(finding, questionOf({ id }), { withRecord: false }))).toEqual({
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
    expect(findingJson(finding, questionOf({ id }), { withRecord: true })).toContain(`,"record":${line.slice(0, -1)}}`)
  })
})

function timeAt(minutes: number): string {
  return new Date(NOW + minutes * 60 * SECOND).toISOString()
}

describe('a batch that is not there', () => {
  test('is told with how far back the journal reaches, and why it may not be there', async () => {
    await write(1, aDay(3600))
    const reachesBackToMs = NOW - 3599 * SECOND
    const made = (agoMs: number): string => makeBatch({ receivedAtMs: NOW - agoMs }).id
    expect(await find({ id: made(1800 * SECOND) })).toEqual({
      kind: 'not found',
      reason: 'absent',
      searched: { fromMs: NOW - 2400 * SECOND, beforeMs: NOW - 1200 * SECOND },
      reachesBackToMs,
    })
    expect(await find({ id: made(2 * HOUR) })).toMatchObject({ reason: 'expired' })
    expect(await find({ id: made(2 * HOUR), since: '1h' })).toMatchObject({ reason: 'expired' })
    expect(await find({ id: made(-HOUR) })).toMatchObject({ reason: 'future' })
    const byKey = { app: 'demo', key: KEY }
    expect(await find(byKey)).toEqual({
      kind: 'not found',
      reason: 'absent',
      searched: { fromMs: reachesBackToMs, beforeMs: NOW },
      reachesBackToMs,
    })
    expect(await find({ ...byKey, since: '3d' })).toMatchObject({ reason: 'absent' })
    expect(await find({ ...byKey, since: '30m' })).toMatchObject({ reason: 'narrowed' })
    expect(await find({ ...byKey, before: '30m' })).toMatchObject({
      reason: 'narrowed',
      searched: { fromMs: reachesBackToMs, beforeMs: NOW - 1800 * SECOND },
    })
  })

  test('is not found in an empty journal, nor where there is none', async () => {
    const { id } = makeBatch({ receivedAtMs: NOW })
    await write(1, [])
    for (const asked of [{ id }, { app: 'demo', key: KEY }]) {
      expect(await find(asked)).toMatchObject({ kind: 'not found', reason: 'empty', reachesBackToMs: null })
    }
    await rm(directory, { recursive: true })
    expect(await find({ id })).toMatchObject({ kind: 'not found', reason: 'empty', reachesBackToMs: null })
  })

  test('is not taken from what a client wrote into its events', async () => {
    const { id, line } = makeBatch({ receivedAtMs: NOW })
    const events = `[${line.trim()},{"a":"\\n${JSON.stringify(line).slice(1, -1)}"}]`
    const keyed = makeBatch({ key: KEY, receivedAtMs: NOW })
    const inClient = makeBatch({ receivedAtMs: NOW, events: `[${keyed.line.trim()},{"batch_id":"${keyed.id}"}]` })
    await write(1, [makeBatch({ receivedAtMs: NOW, events }), inClient, ...aDay(3)])
    expect(await find({ id })).toMatchObject({ kind: 'not found' })
    expect(await find({ id: keyed.id })).toMatchObject({ kind: 'not found' })
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

test('a batch is found wherever the end of what is read at once falls in it', async () => {
  const chunkBytes = 4 * 1024 * 1024
  const wanted = makeBatch({ receivedAtMs: NOW, key: KEY })
  const fillerLength = makeBatch({ receivedAtMs: NOW, events: '[""]' }).line.length
  for (let at = chunkBytes - wanted.line.length - 2; at <= chunkBytes + 2; at += 3) {
    // So long that the record begins there. It is no record, but nothing reads it.
    const filler = makeBatch({ receivedAtMs: NOW, events: `["${'x'.repeat(at - fillerLength)}"]` })
    await write(1, [filler, wanted, makeBatch({ receivedAtMs: NOW, events: '[{"n":2}]' })])
    expect(await find({ id: wanted.id })).toMatchObject({ kind: 'found', place: { offsetBytes: at } })
  }
})

describe('a search that is ended as soon as it may be', () => {
  const findSome = (asked: Asked): Promise<Finding> => find(asked, { signal: AbortSignal.abort() })

  test('says how far it came, and goes on before that time until all is read', async () => {
    const oldest = makeBatch({ key: KEY, receivedAtMs: NOW - 3600 * SECOND })
    const batches = [oldest, ...aDay(3600)]
    for (let part = 0; part < 8; part++) await write(part + 1, batches.slice(part * 460, (part + 1) * 460))
    const reaches: number[] = []
    let finding = await findSome({ app: 'demo', key: KEY, since: '1h' })
    while (finding.kind === 'not found') {
      expect(finding).toMatchObject({ reason: 'stopped', reachesBackToMs: NOW - 3600 * SECOND })
      reaches.push(finding.searched.fromMs)
      finding = await findSome({
        app: 'demo',
        key: KEY,
        since: '1h',
        before: new Date(goOnBeforeMs(finding)).toISOString(),
      })
    }
    expect(finding.record.batchId).toBe(oldest.id)
    const starts = [7, 6, 5, 4, 3, 2, 1].map((part) => NOW - (3600 - part * 460) * SECOND)
    expect(reaches).toEqual(starts)
  })

  test('is not stopped where older segments hold no time that is searched', async () => {
    for (const hours of [3, 2]) await write(4 - hours, [makeBatch({ receivedAtMs: NOW - hours * HOUR })])
    expect(await findSome({ app: 'demo', key: KEY, since: '1h' })).toMatchObject({ reason: 'narrowed' })
  })

  test('finds, going on, what has the time of the last record that was read', async () => {
    const wanted = makeBatch({ key: KEY, receivedAtMs: NOW - 60 * SECOND })
    await write(1, [...aDay(3600).slice(0, 3540), wanted])
    await write(2, aDay(61))
    const stopped = await findSome({ app: 'demo', key: KEY })
    expect(stopped).toMatchObject({ reason: 'stopped', searched: { fromMs: NOW - 60 * SECOND } })
    const before = stopped.kind === 'found' ? NOW : goOnBeforeMs(stopped)
    const next = await findSome({ app: 'demo', key: KEY, before: new Date(before).toISOString() })
    expect(next).toMatchObject({ kind: 'found', record: { batchId: wanted.id } })
  })

  test('has read where an id that tells its time most likely is, and all where that is all', async () => {
    const wanted = makeBatch({ receivedAtMs: NOW - 60 * SECOND })
    await write(1, [wanted])
    await write(2, [makeBatch({ receivedAtMs: NOW - 59 * SECOND })])
    await write(3, aDay(50))
    expect(await findSome({ id: wanted.id })).toMatchObject({ kind: 'found' })
    const { id } = makeBatch({ receivedAtMs: NOW - 60 * SECOND })
    expect(await findSome({ id })).toMatchObject({ reason: 'stopped', searched: { fromMs: NOW - 49 * SECOND } })
    expect(await findSome({ id, before: timeAt(-1) })).toMatchObject({ reason: 'narrowed' })
    await rm(segmentPath(directory, 1))
    await rm(segmentPath(directory, 2))
    expect(await findSome({ app: 'demo', key: KEY })).toMatchObject({ reason: 'absent' })
  })

  test('tells what it has read, and reads no segment that holds other times', async () => {
    const parts = [aDay(3600).slice(0, 1800), aDay(1800)]
    for (const [index, part] of parts.entries()) await write(index + 1, part)
    const read = async (times: Asked): Promise<Progress[]> => {
      const seen: Progress[] = []
      await find({ app: 'demo', key: KEY, ...times }, { onProgress: (progress) => seen.push(progress) })
      return seen
    }
    const [old, young] = parts.map((part) => Buffer.byteLength(part.map(({ line }) => line).join('')))
    const [oldMs, youngMs] = [NOW - 3599 * SECOND, NOW - 1799 * SECOND]
    expect(await read({ before: '45m' })).toEqual([{ bytesRead: old, reachedMs: oldMs }])
    expect(await read({ since: '20m' })).toEqual([{ bytesRead: young, reachedMs: youngMs }])
    expect((await read({})).at(-1)).toEqual({ bytesRead: old + young, reachedMs: oldMs })
  })
})
