// What may be asked of `find`, and the times that are searched for it.

import { describe, expect, test } from 'vitest'
import { batchIdOf } from '../../../../src/lib/ids.ts'
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
  return reading.kind === 'mistake' ? reading.mistake : 'none'
}

describe('the time that is searched', () => {
  test('is first a moment around the time of an id of version 7, then seconds, then ten minutes on both sides of it', () => {
    const { id } = makeBatch({ receivedAtMs: MADE })
    const { madeAtMs, spans } = ask({ id: id.toUpperCase() })
    expect(madeAtMs).toBe(MADE)
    expect(spans).toEqual([
      { fromMs: MADE - 200, toMs: MADE + 2000 },
      { fromMs: MADE - 5000, toMs: MADE + 15_000 },
      { fromMs: MADE - 10 * MINUTE, toMs: MADE + 10 * MINUTE },
    ])
  })

  test('is the last ten minutes for an id that comes from a key, or goes back as far as is asked', () => {
    expect(ask({ app: 'demo', key: KEY }).spans).toEqual([
      { fromMs: NOW - 10 * MINUTE, toMs: Number.POSITIVE_INFINITY },
    ])
    for (const [since, ageMinutes] of [
      ['30m', 30],
      ['2h', 120],
      ['3d', 3 * 1440],
      ['2026-11-20T10:00:00Z', 120],
      ['2026-11-20T11:00:00+01:00', 120],
    ] as const) {
      expect(ask({ app: 'demo', key: KEY, since }).spans.at(-1)?.fromMs, since).toBe(NOW - ageMinutes * MINUTE)
    }
  })

  test('goes on from the time asked to now for an id of version 7 too', () => {
    const { id } = makeBatch({ receivedAtMs: MADE })
    expect(ask({ id, since: '3d' }).spans.at(-1)).toEqual({
      fromMs: NOW - 3 * 1440 * MINUTE,
      toMs: Number.POSITIVE_INFINITY,
    })
  })
})

test('app and key give the id that the service gives, in any letter case of the key', () => {
  const id = batchIdOf('demo', KEY)
  expect(ask({ app: 'demo', key: KEY.toUpperCase() })).toMatchObject({ batchId: id, appId: 'demo', madeAtMs: null })
  expect(ask({ id: id.toUpperCase() })).toMatchObject({ batchId: id, appId: null, madeAtMs: null })
})

test('what cannot be asked is told in a sentence', () => {
  const { id } = makeBatch({ receivedAtMs: MADE })
  for (const [asked, mistake] of [
    [{}, 'give a batch id, or both app and key'],
    [{ app: 'demo' }, 'give a batch id, or both app and key'],
    [{ key: KEY }, 'give a batch id, or both app and key'],
    [{ id, app: 'demo' }, 'either a batch id, or app and key'],
    [{ id: 'nonsense' }, 'a batch id is a UUID'],
    [{ id: KEY }, 'if it is an Idempotency-Key, give app and key'],
    [{ app: 'a b', key: KEY }, 'app must be an app_id'],
    [{ app: 'demo', key: 'x' }, 'key must be an Idempotency-Key'],
    [{ id, since: 'yesterday' }, 'since must be a time with its zone'],
    [{ id, since: '2026-11-20T12:00:00' }, 'since must be a time with its zone'],
    [{ id, since: '2026-11-20T12:00:01Z' }, 'since must not lie in the future'],
  ] as const) {
    expect(mistakeOf(asked), JSON.stringify(asked)).toContain(mistake)
  }
})
