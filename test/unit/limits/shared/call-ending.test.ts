// What becomes of one app's part of a call to Redis, for each way in which the call can end.

import { describe, expect, test } from 'vitest'
import { type AppState, type CallEnding, endOf, isSentAgain } from '../../../../src/limits/shared/call-ending.ts'
import { ANSWER, type AppQuestion, type AppReply, type Reply } from '../../../../src/limits/shared/take.ts'
import { anApp } from '../../apps/apps.ts'

const MINUTE = 1000
const TAKES = [
  { events: 5, key: 'k1' },
  { events: 7, key: null },
  { events: 2, key: null, asks: true },
]
/** Given back, and taken without Redis. */
const CORRECTIONS = new Map([
  [MINUTE, 4],
  [MINUTE - 1, -3],
])

const QUESTION: AppQuestion = {
  partition: 0,
  app: anApp(),
  cycle: { first: 0, next: 5000 },
  wanted: 10,
  acknowledged: [],
  corrections: CORRECTIONS,
  takes: TAKES,
}
const AS_ASKED: AppState = { isNewest: true, hasForgotten: false }

function replyOf(takes: readonly number[], granted = 0): Reply {
  const counts = { monthUsed: 1, dayUsed: 1, minuteUsed: 1, taken: 1, givenBack: 0, spooled: 0, spooledOfDead: 0 }
  const one: AppReply = { minute: MINUTE, cycleMinute: 0, granted, takes, ...counts }
  return { nowMs: 60_000_000, apps: [one], partitions: [] }
}
const ending = (kind: 'replied' | 'late', takes: readonly number[], granted = 0): CallEnding => ({
  kind,
  reply: replyOf(takes, granted),
})
const DONE = [ANSWER.done, ANSWER.done, ANSWER.done]

describe('a reply', () => {
  test('is what each request is told, and its counts hold', () => {
    const end = endOf(ending('replied', [ANSWER.done, ANSWER.minute, ANSWER.done], 20), 0, QUESTION, AS_ASKED)
    expect(end.outcomes.map((outcome) => (typeof outcome === 'object' ? outcome.answer : outcome))).toEqual([
      ANSWER.done,
      ANSWER.minute,
      ANSWER.done,
    ])
    expect(end).toMatchObject({ corrections: [], isApplied: true, releasedKeys: [] })
  })

  test('about a record of before gives back what it took and granted, and has its requests asked again', () => {
    const end = endOf(ending('replied', DONE, 20), 0, QUESTION, { ...AS_ASKED, isNewest: false })
    expect(end).toMatchObject({ outcomes: ['retry', 'retry', 'retry'], isApplied: false })
    expect(end.corrections).toEqual([
      [MINUTE, 20],
      [MINUTE, 5],
      [MINUTE, 7],
    ])
  })

  test('about a record of before still tells of keys: held, accepted, in doubt', () => {
    const answers = [ANSWER.held, ANSWER.replay + 3, -5003]
    const end = endOf(ending('replied', answers), 0, QUESTION, { ...AS_ASKED, isNewest: false })
    expect(end.outcomes).toMatchObject(answers.map((answer) => ({ answer })))
    expect(end.corrections).toEqual([])
  })

  test('of a Redis that has lost its counts grants nothing, and sends to the share whoever it says so to', () => {
    const end = endOf(ending('replied', [ANSWER.forgotten, ANSWER.done, ANSWER.done], 9), 0, QUESTION, {
      ...AS_ASKED,
      hasForgotten: true,
    })
    expect(end.outcomes[0]).toBe('away')
    expect(end).toMatchObject({ corrections: [[MINUTE, 9]], isApplied: false })
  })
})

test('a late reply tells nobody anything, and all that it counted is taken back', () => {
  const end = endOf(ending('late', [ANSWER.done, ANSWER.month, ANSWER.done], 20), 0, QUESTION, AS_ASKED)
  expect(end).toEqual({
    outcomes: [],
    // The grant and the one that was taken, and the events that were added a second time.
    corrections: [
      [MINUTE, 25],
      [MINUTE - 1, 3],
    ],
    isApplied: false,
    releasedKeys: [],
  })
})

test.each(['away', 'unanswered'] as const)(
  'without a reply (%s) events taken without Redis are told again, and no refund',
  (kind) => {
    const end = endOf({ kind }, 0, QUESTION, AS_ASKED)
    expect(end).toEqual({
      outcomes: [kind, kind, kind],
      corrections: [[MINUTE - 1, -3]],
      isApplied: false,
      releasedKeys: [],
    })
    expect(isSentAgain({ kind })).toBe(true)
  },
)

test('a call whose slot is not served has not run: all of it again but its requests, whose keys are free', () => {
  const end = endOf({ kind: 'unserved' }, 0, QUESTION, AS_ASKED)
  expect(end).toEqual({
    outcomes: ['away', 'away', 'away'],
    corrections: [...CORRECTIONS],
    isApplied: false,
    releasedKeys: ['k1'],
  })
  expect(isSentAgain({ kind: 'unserved' })).toBe(true)
})

test('nothing of a call that Redis refuses is sent again', () => {
  const end = endOf({ kind: 'refused' }, 0, QUESTION, AS_ASKED)
  expect(end).toEqual({ outcomes: ['away', 'away', 'away'], corrections: [], isApplied: false, releasedKeys: [] })
  expect(isSentAgain({ kind: 'refused' })).toBe(false)
})
