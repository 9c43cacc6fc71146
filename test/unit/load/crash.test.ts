// The crash run's judgement, fed with what a crash may leave behind.

import { describe, expect, it } from 'vitest'
import { APPS, judgeQueue, lostAndTwice } from '../../../load/crash/rounds.js'
import { Violations } from '../../../load/faults/checks.js'

type Judged = Parameters<typeof judgeQueue>[0]
type Batch = Judged['batches'][number]
type Record = Parameters<Parameters<Judged['readQueue']>[0]>[0]

const [keyedApp, plainApp] = APPS
const EVENTS = [{ name: 'a' }, { name: 'b' }]
const NOON = '2026-11-20T12:00:00.000Z'
const batchIdOf = (appId: string, key: string) => `${appId}:${key}`

function batch(key: string | null, batchId: string, changes: Partial<Batch> = {}): Batch {
  return {
    app: key === null ? plainApp : keyedApp,
    key,
    body: { bytes: Buffer.from(''), events: EVENTS.length, eventsText: JSON.stringify(EVENTS) },
    startedAtMs: Date.parse(NOON),
    batchId,
    outcome: 'accepted',
    fresh: 1,
    replays: 0,
    isDoubtful: false,
    history: '',
    ...changes,
  }
}

function record(batchId: string, appId: string, events = EVENTS): Record {
  return { batch_id: batchId, app_id: appId, received_at: NOON, events }
}

const BATCHES = [batch('k1', 'keyed:k1'), batch('k2', 'keyed:k2'), batch(null, 'plain-1'), batch(null, 'plain-2')]
const RECORDS = [
  record('keyed:k1', 'keyed'),
  record('keyed:k2', 'keyed'),
  record('plain-1', 'plain'),
  record('plain-2', 'plain'),
]

async function judged(batches: Batch[], records: Record[], fault?: Error, counted: Judged['counted'] = null) {
  const violations = new Violations()
  const readQueue: Judged['readQueue'] = (onRecord) => {
    for (const each of records) onRecord(each)
    return fault === undefined ? Promise.resolve() : Promise.reject(fault)
  }
  await judgeQueue({ batches, readQueue, counted, batchIdOf, violations })
  return { ...lostAndTwice(violations), wrong: violations.count }
}

describe('the judgement of a crash run', () => {
  it('finds nothing wrong where each batch is there once, also one that nobody was told of', async () => {
    expect(await judged(BATCHES, [...RECORDS, record('plain-3', 'plain')])).toEqual({ lost: 0, twice: 0, wrong: 0 })
  })

  it.each(RECORDS.map((_, index) => index))('reports record %s as lost where it is missing', async (index) => {
    expect(await judged(BATCHES, RECORDS.toSpliced(index, 1))).toEqual({ lost: 1, twice: 0, wrong: 1 })
  })

  it.each(RECORDS.map((_, index) => index))('reports record %s where it is stored twice', async (index) => {
    expect(await judged(BATCHES, [...RECORDS, RECORDS[index]])).toEqual({ lost: 0, twice: 1, wrong: 1 })
  })

  it('reports a record that lacks an event as lost', async () => {
    const short = record('keyed:k1', 'keyed', EVENTS.slice(1))
    expect(await judged(BATCHES, [short, ...RECORDS.slice(1)])).toEqual({ lost: 1, twice: 0, wrong: 1 })
  })

  it('reports a key that was accepted twice as new, and one id for two batches', async () => {
    expect((await judged([batch('k1', 'keyed:k1', { fresh: 2 })], RECORDS.slice(0, 1))).twice).toBe(1)
    expect((await judged([BATCHES[2], BATCHES[2]], [RECORDS[2]])).twice).toBe(1)
  })

  it('reports a record of a batch without an answer that is stored twice', async () => {
    const stray = record('plain-3', 'plain')
    expect(await judged(BATCHES, [...RECORDS, stray, stray])).toEqual({ lost: 0, twice: 1, wrong: 1 })
  })

  it('reports an app whose month counts other events than are stored', async () => {
    const sum = 2 * EVENTS.length
    for (const [used, wrong] of [
      [sum, 0],
      [sum - 1, 2],
      [sum + 1, 2],
    ]) {
      const found = await judged(BATCHES, RECORDS, undefined, () => Promise.resolve(used))
      expect(found).toEqual({ lost: 0, twice: 0, wrong })
    }
  })

  it('reports a queue that cannot be read, and what was not found in it', async () => {
    const torn = new SyntaxError('Unexpected end of JSON input')
    expect(await judged(BATCHES, RECORDS.slice(0, 3), torn)).toEqual({ lost: 1, twice: 0, wrong: 2 })
  })
})
