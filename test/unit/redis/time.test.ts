import { expect, it } from 'vitest'
import { RedisTime } from '../../../src/redis/time.ts'

const NOON_MS = Date.UTC(2026, 10, 20, 12)
const HOUR_MS = 3_600_000

it('is this machine’s time until Redis has answered, and Redis’s from then on, however far they are apart', () => {
  for (const aheadMs of [-26 * HOUR_MS, -90_000, 0, 2 * HOUR_MS]) {
    const time = new RedisTime(NOON_MS + aheadMs, 1000)
    expect(time.nowMs(1000)).toBe(NOON_MS + aheadMs)
    time.learn(NOON_MS + 5, 1000, 1010)
    expect(Math.abs(time.nowMs(1010) - (NOON_MS + 5))).toBeLessThanOrEqual(11)
  }
})

it('is not moved by an answer that says no more than is known', () => {
  const time = new RedisTime(NOON_MS, 0)
  time.learn(NOON_MS + 100, 100, 101)
  const before = time.nowMs(5000)
  time.learn(NOON_MS + 1100, 1000, 4000)
  expect(time.nowMs(5000)).toBe(before)
})
