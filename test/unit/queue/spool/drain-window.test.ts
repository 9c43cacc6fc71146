// How much of a spool is under way beside live traffic.

import { expect, test } from 'vitest'
import { DrainWindow } from '../../../../src/queue/spool/drain-window.ts'

const TICKS_OF_A_TURN = 10

/** How many are under way at once, each of so many bytes, beside `live` records that are not acknowledged. */
function most(window: DrainWindow, live = 0, bytes = 100): number {
  while (window.isOpen(live)) window.add(bytes)
  const { underWay } = window
  for (let left = underWay; left > 0; left -= 1) window.remove(bytes)
  return underWay
}

function pass(window: DrainWindow, ticks: number, livePerTick = 0): void {
  for (let tick = 0; tick < ticks; tick += 1) {
    window.tick()
    for (let record = 0; record < livePerTick; record += 1) window.livePublished()
  }
}

test('without live traffic a whole window is, and a request now and then is none', () => {
  const window = new DrainWindow()
  expect(most(window)).toBe(64)
  for (let turn = 0; turn < 20; turn += 1) {
    pass(window, TICKS_OF_A_TURN - 1)
    pass(window, 1, 7)
    expect(most(window)).toBe(64)
  }
})

test('beside live traffic an eighth of one is, from its first requests on until half a second after its last', () => {
  const window = new DrainWindow()
  for (let record = 0; record < 8; record += 1) window.livePublished()
  expect(most(window)).toBe(8)
  pass(window, 5 * TICKS_OF_A_TURN, 2)
  expect(most(window)).toBe(8)
  expect(most(window, 40)).toBe(8)
  pass(window, 2 * TICKS_OF_A_TURN)
  expect(most(window)).toBe(64)
})

test('however much is live, a tenth of all is', () => {
  const window = new DrainWindow()
  pass(window, TICKS_OF_A_TURN, 100)
  for (const live of [63, 80, 90, 900]) expect(most(window, live)).toBeGreaterThanOrEqual((live + 8) / 10)
  for (const live of [80, 90, 900]) expect(most(window, live)).toBeGreaterThanOrEqual(live / 9)
})

test('of large ones fewer are, and one is in any case', () => {
  const window = new DrainWindow()
  expect(most(window, 0, 128 * 1024)).toBe(8)
  pass(window, TICKS_OF_A_TURN, 100)
  expect(most(window, 0, 512 * 1024)).toBe(1)
})
