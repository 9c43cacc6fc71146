// The judge of the script `retries`: every way in which a batch can go wrong between its client and the queue.

import { describe, expect, test } from 'vitest'
import { MARK_MEMBER } from '../../../load/k6/shared/marks.js'
import { batchIdOf, RetryCheck } from '../../../load/run/verify-retries.js'
import { batchIdOf as serviceBatchIdOf } from '../../../src/lib/ids.ts'

const KEY = '7f0e0bb2-6c3a-4d5e-9a53-2a6a4d1c9a10'
const BATCH = batchIdOf('demo', KEY)
const NEW = { status: 202, batch: BATCH, replay: false, events: 2 }
const REPLAY = { ...NEW, replay: true }
const LOST = { status: 0, batch: '', replay: false, events: -1 }
const BUSY = { ...LOST, status: 503 }

interface Case {
  readonly answers: readonly (typeof NEW)[]
  readonly records?: readonly { readonly batchId?: string; readonly events?: number; readonly mark?: string }[]
}

function judge({ answers, records = [{}] }: Case): { faults: string[]; figures: Record<string, number> } {
  const check = new RetryCheck()
  check.takeLine('not a line of ours')
  check.takeLine(JSON.stringify({ mark: 'mark-1', key: KEY, app: 'demo', events: 2 }))
  check.takeLine(JSON.stringify({ mark: 'mark-1', key: KEY, app: 'demo', events: 2, answers }))
  for (const { batchId = BATCH, events = 2, mark = 'mark-1' } of records) {
    const list = Array.from({ length: events }, () => ({}))
    check.takeRecord({ app_id: 'demo', batch_id: batchId, events: list, extra: { [MARK_MEMBER]: mark } })
  }
  check.takeRecord({ app_id: 'demo', batch_id: 'of another client', events: [] })
  return check.end()
}

describe('the judge of retries', () => {
  test('derives the batch id that the service derives', () => {
    expect(batchIdOf('demo', KEY.toUpperCase())).toBe(serviceBatchIdOf('demo', KEY))
  })

  test.each([
    ['answered at once', [NEW]],
    ['answered, then replayed', [NEW, REPLAY, REPLAY]],
    ['lost, then replayed', [LOST, REPLAY]],
    ['refused, then new', [BUSY, NEW]],
    ['refused in doubt, then replayed', [BUSY, REPLAY]],
  ])('finds nothing wrong with a batch that was %s', (_, answers) => {
    expect(judge({ answers }).faults).toEqual([])
  })

  test('a batch that nobody saw accepted may be in the queue once, or not at all', () => {
    expect(judge({ answers: [LOST, BUSY], records: [] }).faults).toEqual([])
    const once = judge({ answers: [LOST, BUSY] })
    expect(once.faults).toEqual([])
    expect(once.figures).toMatchObject({ storedUnseen: 1, accepted: 0, unanswered: 1, refused: 1 })
    expect(judge({ answers: [LOST], records: [{}, {}] }).faults).toEqual(['batch mark-1: 2 records in the queue'])
  })

  test.each<[string, Case, RegExp]>([
    ['was stored twice', { answers: [NEW], records: [{}, {}] }, /2 records/],
    ['was stored again under another key', { answers: [NEW], records: [{}, { batchId: 'b' }] }, /2 records/],
    ['was accepted and is gone', { answers: [NEW], records: [] }, /not in the queue/],
    ['was new twice', { answers: [NEW, NEW] }, /2 answers that say it was new/],
    ['was a replay of nothing', { answers: [REPLAY] }, /only replays/],
    ['was named by another id', { answers: [NEW, { ...REPLAY, batch: 'another' }] }, /names another batch/],
    ['lost an event', { answers: [NEW], records: [{ events: 1 }] }, /1 events in the queue of 2/],
    ['was counted wrongly', { answers: [{ ...NEW, events: 3 }] }, /counts other than 2/],
    ['lies under an id of its own', { answers: [NEW], records: [{ batchId: 'b' }] }, /its key does not give/],
    ['was never sent', { answers: [NEW], records: [{}, { mark: 'mark-2' }] }, /mark-2: in the queue/],
  ])('finds a batch that %s', (_, wrong, fault) => {
    expect(judge(wrong).faults.join('\n')).toMatch(fault)
  })
})
