import { expect, it } from 'vitest'
import { CommitPace } from '../../../../src/queue/journal/commit-pace.ts'

/** Commits of so many records, right after each other; gives how long each waited. */
function commits(pace: CommitPace, records: readonly number[]): number[] {
  return records.map((count) => {
    const waitMs = pace.waitMs(1000)
    pace.begin(count)
    return waitMs
  })
}

it('lets a small commit wait for the rest of a millisecond, and a large one not at all', () => {
  let nowMs = 10
  const pace = new CommitPace(() => nowMs)
  expect(pace.waitMs(1)).toBe(0)
  pace.begin(1)
  nowMs += 0.25
  expect([pace.waitMs(1), pace.waitMs(262_143), pace.waitMs(262_144)]).toEqual([0.75, 0.75, 0])
  nowMs += 0.75
  expect(pace.waitMs(1)).toBe(0)
  nowMs += 60_000
  expect(pace.waitMs(1)).toBe(0)
})

it('goes on with waits that gather records', () => {
  expect(commits(new CommitPace(() => 5), [1, 3, 2, 7, 2])).toEqual([0, 1, 1, 1, 1])
})

it('lets sixteen commits not wait after a wait that gathered nothing', () => {
  const waits = commits(new CommitPace(() => 5), [1, 4, 1, ...Array<number>(16).fill(1), 2, 2])
  expect(waits).toEqual([0, 1, 1, ...Array<number>(16).fill(0), 1, 1])
})
