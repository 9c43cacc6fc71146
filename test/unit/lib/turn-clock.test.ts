import { setImmediate as nextTurn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { TurnClock } from '../../../src/lib/clock.ts'

test('a turn of the event loop has one time, and the next one has its own', async () => {
  let reads = 0
  const clock = new TurnClock(
    () => 1000 + ++reads,
    () => 5 * reads,
  )
  expect([clock.nowMs(), clock.monotonicMs(), clock.nowMs()]).toEqual([1001, 5, 1001])
  await Promise.resolve()
  expect(clock.nowMs()).toBe(1001)
  await nextTurn()
  expect([clock.monotonicMs(), clock.nowMs()]).toEqual([10, 1002])
})

test('after a time without work the clock is read again', async () => {
  const clock = new TurnClock(Date.now)
  const firstMs = clock.nowMs()
  await new Promise((done) => setTimeout(done, 30))
  expect(clock.nowMs()).toBeGreaterThanOrEqual(firstMs + 29)
})
