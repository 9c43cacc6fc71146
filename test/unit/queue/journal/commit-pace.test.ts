import { expect, it } from 'vitest'
import { CommitPace } from '../../../../src/queue/journal/commit-pace.ts'
import { ManualTimers } from '../../../support/timers.ts'

const fail = (): void => expect.fail('it was called')

/** Commits of so many records, right after each other; gives which were put off. */
function commits(pace: CommitPace, records: readonly number[]): boolean[] {
  return records.map((count) => {
    const isDeferred = pace.defer(1000, () => {})
    pace.begin(count)
    return isDeferred
  })
}

it('puts a small commit off for the rest of a millisecond, and a large one not at all', async () => {
  const timers = new ManualTimers()
  const pace = new CommitPace(timers)
  expect(pace.defer(1, fail)).toBe(false)
  pace.begin(1)
  await timers.pass(0.25)
  expect(pace.defer(262_144, fail)).toBe(false)
  let isCalled = false
  expect(pace.defer(262_143, () => (isCalled = true))).toBe(true)
  await timers.pass(0.5)
  expect(isCalled).toBe(false)
  await timers.pass(0.25)
  expect(isCalled).toBe(true)
  expect(pace.defer(1, fail)).toBe(false)
})

it('goes on with waits that gather records', () => {
  const pace = new CommitPace(new ManualTimers())
  expect(commits(pace, [1, 3, 2, 7, 2])).toEqual([false, true, true, true, true])
})

it('puts sixteen commits not off after a wait that gathered nothing', () => {
  const pace = new CommitPace(new ManualTimers())
  const deferred = commits(pace, [1, 4, 1, ...Array<number>(16).fill(1), 2, 2])
  expect(deferred).toEqual([false, true, true, ...Array<boolean>(16).fill(false), true, true])
})
