// What may be asked of `find`, and the times that are searched for it.

import { describe, expect, test } from 'vitest'
import { batchIdOf } from '../../../../src/contract/ids.ts'
import { type Asked, type Question, readQuestion } from '../../../../src/queue/find/question.ts'
import { makeBatch } from '../../../support/batches.ts'

const NOW = Date.parse('2026-11-20T12:00:00.000Z')
const MADE = Date.parse('2026-11-18T03:04:05.678Z')
const KEY = '0b9e3a52-6f0c-4d7e-9a55-2f8c1d3e4b6a'
const MINUTE = 60_000

function ask(asked: Asked): Question {
  const reading = readQuestion(asked, NOW)
  if (reading.kind === 'mistake') throw new Error(reading.mistake)
  return reading.question
}

function mistakeOf(asked: Asked): string {
  const reading = readQuestion(asked, NOW)
  return reading.kind === 'mistake' ? `${reading.member} ${reading.mistake}` : 'none'
}

describe('the time that is searched', () => {
  const { id } = makeBatch({ receivedAtMs: MADE })

  test('is for an id of version 7 a moment around the time that it tells, then ten minutes on both sides of it', () => {
    expect(ask({ id: id.toUpperCase() })).toMatchObject({
      madeAtMs: MADE,
      spans: [
        { fromMs: MADE - 200, beforeMs: MADE + 2000 },
        { fromMs: MADE - 10 * MINUTE, beforeMs: MADE + 10 * MINUTE },
      ],
      isNarrowed: false,
    })
  })

  test('is all that there is for an id that comes from a key, or what the times that are given leave', () => {
    const all = { fromMs: Number.NEGATIVE_INFINITY, beforeMs: Number.POSITIVE_INFINITY }
    expect(ask({ app: 'demo', key: KEY })).toMatchObject({ spans: [all], isNarrowed: false })
    for (const [time, ageMinutes] of [
      ['30m', 30],
      ['2h', 120],
      ['3d', 3 * 1440],
      ['2026-11-20T10:00:00Z', 120],
      ['2026-11-20T11:00:00+01:00', 120],
    ] as const) {
      const timeMs = NOW - ageMinutes * MINUTE
      expect(ask({ app: 'demo', key: KEY, since: time }).spans, time).toEqual([{ ...all, fromMs: timeMs }])
      expect(ask({ app: 'demo', key: KEY, before: time }).spans, time).toEqual([{ ...all, beforeMs: timeMs }])
    }
    const both = ask({ app: 'demo', key: KEY, since: '2h', before: '1h' })
    expect(both.spans).toEqual([{ fromMs: NOW - 120 * MINUTE, beforeMs: NOW - 60 * MINUTE }])
    expect(both.isNarrowed).toBe(true)
  })

  test('is what the times that are given leave for an id of version 7 too', () => {
    expect(ask({ id, since: '3d' }).spans).toEqual([
      { fromMs: MADE - 200, beforeMs: MADE + 2000 },
      { fromMs: NOW - 3 * 1440 * MINUTE, beforeMs: Number.POSITIVE_INFINITY },
    ])
    expect(ask({ id, before: new Date(MADE + 1000).toISOString() }).spans).toEqual([
      { fromMs: MADE - 200, beforeMs: MADE + 1000 },
      { fromMs: MADE - 10 * MINUTE, beforeMs: MADE + 1000 },
    ])
    expect(ask({ id, since: '2h' }).spans).toHaveLength(1)
  })
})

test('app and key give the id that the service gives, in any letter case of the key', () => {
  const id = batchIdOf('demo', KEY)
  expect(ask({ app: 'demo', key: KEY.toUpperCase() })).toMatchObject({ batchId: id, appId: 'demo', madeAtMs: null })
  expect(ask({ id: id.toUpperCase() })).toMatchObject({ batchId: id, appId: null, madeAtMs: null })
})

test('an id that no batch can have is looked for, and not found', () => {
  expect(ask({ id: KEY.toUpperCase() })).toMatchObject({ batchId: KEY, madeAtMs: null })
})

test('what cannot be asked is told with the member that is wrong', () => {
  const { id } = makeBatch({ receivedAtMs: MADE })
  for (const [asked, mistake] of [
    [{}, 'id is missing'],
    [{ app: 'demo' }, 'key is missing'],
    [{ key: KEY }, 'app is missing'],
    [{ id, app: 'demo' }, 'id stands alone'],
    [{ id: 'nonsense' }, 'id must be a UUID'],
    [{ app: 'a b', key: KEY }, 'app must be an app_id'],
    [{ app: 'demo', key: 'x' }, 'key must be an Idempotency-Key'],
    [{ id, since: 'yesterday' }, 'since must be a time with its zone'],
    [{ id, before: '2026-11-20T12:00:00' }, 'before must be a time with its zone'],
    [{ id, since: '2026-11-20T12:00:01Z' }, 'since must not lie in the future'],
    [{ id, since: '1h', before: '2h' }, 'before must be later'],
  ] as const) {
    expect(mistakeOf(asked), JSON.stringify(asked)).toContain(mistake)
  }
})
