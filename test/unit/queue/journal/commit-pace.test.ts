import { expect, it } from 'vitest'
import { CommitPace } from '../../../../src/queue/journal/commit-pace.ts'
import { ManualTimers } from '../../../support/timers.ts'

const fail = (): void => expect.fail('it was called')

/** As many records as `most` were unanswered at once, and a commit begins now. */
function paceAfter(most: number, timers = new ManualTimers()): CommitPace {
  const pace = new CommitPace(timers)
  pace.note(most)
  pace.begin()
  return pace
}

it('puts a small commit off for the rest of a millisecond, and a large one not at all', async () => {
  const timers = new ManualTimers()
  const pace = paceAfter(4, timers)
  await timers.pass(0.25)
  expect(pace.defer(1, 262_144, fail)).toBe(false)
  let isCalled = false
  expect(pace.defer(1, 262_143, () => (isCalled = true))).toBe(true)
  await timers.pass(0.5)
  expect(isCalled).toBe(false)
  await timers.pass(0.25)
  expect(isCalled).toBe(true)
  expect(pace.isDue(4)).toBe(false)
  expect(pace.defer(1, 1, fail)).toBe(false)
})

it('waits for nobody where as many records wait as were ever unanswered at once', async () => {
  const timers = new ManualTimers()
  const pace = paceAfter(4, timers)
  expect(pace.isDue(4)).toBe(false)
  expect(pace.defer(4, 1, fail)).toBe(false)
  expect(pace.defer(1, 1, fail)).toBe(true)
  expect(pace.isDue(3)).toBe(false)
  expect(pace.isDue(4)).toBe(true)
  expect(pace.isDue(4)).toBe(false)
  await timers.pass(2)
})

it('waits for no second client of a single one', () => {
  const pace = paceAfter(1)
  expect(pace.defer(1, 1, fail)).toBe(false)
})

it('forgets how many there were within 32 commits, and not before 16', () => {
  const pace = paceAfter(64)
  const deferred = Array.from({ length: 32 }, () => {
    pace.note(2)
    const isDeferred = pace.defer(2, 1, () => {})
    pace.isDue(64)
    pace.begin()
    return isDeferred
  })
  expect(deferred.indexOf(false)).toBeGreaterThan(15)
  expect(deferred[31]).toBe(false)
})
