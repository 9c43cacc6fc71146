// How much of a spool is under way beside live traffic, by what live records wait for.

import { expect, test } from 'vitest'
import { DrainWindow } from '../../../../src/queue/spool/drain-window.ts'

const TICKS_OF_A_TURN = 10
const BYTES = 100

/** Sends whatever the window lets out, and acknowledges it by the next tick. `waitMs`: of a live record beside so many. */
function over(waitMs: (underWay: number) => number) {
  let nowMs = 0
  const window = new DrainWindow({ monotonicMs: () => nowMs })
  /** Ticks with `live` records each. Returns how many were under way in each tick. */
  const ticks = (count: number, live: number): number[] =>
    Array.from({ length: count }, () => {
      window.tick()
      while (window.isOpen(0)) window.add(BYTES)
      const { underWay } = window
      for (let record = 0; record < live; record += 1) {
        const onAcked = window.livePublished()
        const wait = waitMs(underWay)
        nowMs += wait
        onAcked()
        nowMs -= wait
      }
      for (let left = underWay; left > 0; left -= 1) window.remove(BYTES)
      return underWay
    })
  return { window, ticks }
}

test('without live traffic a whole window is, without a rest', () => {
  const { ticks } = over(() => 1)
  ticks(TICKS_OF_A_TURN, 0)
  expect(new Set(ticks(100, 0))).toEqual(new Set([64]))
})

test('beside live traffic nothing is, for a tick of each turn', () => {
  const { ticks } = over(() => 1)
  ticks(20 * TICKS_OF_A_TURN, 20)
  const underWay = ticks(10 * TICKS_OF_A_TURN, 20)
  expect(underWay.filter((count) => count === 0)).toHaveLength(10)
})

test('it gets less while live records wait longer than in the rests, and more when they do not', () => {
  let msForEach = 1
  const { ticks } = over((underWay) => 5 + msForEach * underWay)
  ticks(TICKS_OF_A_TURN, 0)
  ticks(20 * TICKS_OF_A_TURN, 20)
  expect(Math.max(...ticks(TICKS_OF_A_TURN, 20))).toBe(1)
  // Twenty under way cost a live record a tenth.
  msForEach = 0.5 / 20
  ticks(60 * TICKS_OF_A_TURN, 20)
  const underWay = Math.max(...ticks(TICKS_OF_A_TURN, 20))
  expect(underWay).toBeGreaterThan(15)
  expect(underWay).toBeLessThan(25)
  msForEach = 0
  ticks(60 * TICKS_OF_A_TURN, 20)
  expect(Math.max(...ticks(TICKS_OF_A_TURN, 20))).toBe(64)
})

test('a stream whose answers take longer than a rest is compared with itself too', () => {
  const { window, ticks } = over(() => 1)
  ticks(TICKS_OF_A_TURN, 20)
  for (let count = 0; count < 3; count += 1) window.add(BYTES)
  // The rest has come, and waits for them.
  for (let count = 0; count < 5; count += 1) window.tick()
  expect(window.isOpen(0)).toBe(false)
  for (let count = 0; count < 3; count += 1) window.remove(BYTES)
  window.tick()
  expect(window.isOpen(0)).toBe(true)
})

test('where live traffic begins, little is at first, and a request now and then is none', () => {
  const { ticks } = over(() => 1)
  expect(Math.max(...ticks(TICKS_OF_A_TURN - 1, 20))).toBe(4)
  ticks(TICKS_OF_A_TURN, 0)
  expect(new Set(Array.from({ length: 50 }, () => ticks(2, 0).concat(ticks(1, 1))).flat())).toEqual(new Set([64]))
  ticks(2 * TICKS_OF_A_TURN, 20)
  expect(Math.max(...ticks(1, 20))).toBeLessThan(6)
})

test('however slow live records are, a tenth of all is', () => {
  const { window, ticks } = over((underWay) => (underWay === 0 ? 1 : 1000))
  ticks(20 * TICKS_OF_A_TURN + 1, 20)
  while (window.isOpen(80)) window.add(BYTES)
  expect(window.underWay).toBe(10)
})
