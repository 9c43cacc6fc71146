import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { systemTimers } from '../../../src/lib/timers.ts'
import { Repeats } from '../../../src/observe/repeats.ts'

const HALF_MS = 5000
let written: string[]
let repeats: Repeats

beforeEach(() => {
  vi.useFakeTimers()
  written = []
  repeats = new Repeats(systemTimers)
})
afterEach(() => {
  vi.useRealTimers()
})

function happens(cause: string, detail = ''): void {
  repeats.line(cause, (more) => void written.push(`${cause}${detail} ${more}`))
}

test('the first line of a cause is written at once', () => {
  happens('a')
  happens('b')
  expect(written).toEqual(['a 0', 'b 0'])
})

test('what comes within 10 s is one line after them, which has the last of it', () => {
  happens('a')
  happens('a', ' second')
  vi.advanceTimersByTime(HALF_MS)
  happens('a', ' third')
  expect(written).toEqual(['a 0'])
  vi.advanceTimersByTime(HALF_MS)
  expect(written).toEqual(['a 0', 'a third 2'])
})

test('a line with a count begins 10 s too', () => {
  happens('a')
  happens('a')
  vi.advanceTimersByTime(2 * HALF_MS)
  happens('a')
  expect(written).toEqual(['a 0', 'a 1'])
  vi.advanceTimersByTime(2 * HALF_MS)
  expect(written).toEqual(['a 0', 'a 1', 'a 1'])
})

test('after 10 quiet seconds a cause is new', () => {
  happens('a')
  vi.advanceTimersByTime(2 * HALF_MS)
  happens('a')
  expect(written).toEqual(['a 0', 'a 0'])
})

test('what waits for its time is written at the end', () => {
  happens('a')
  happens('a')
  repeats.end()
  vi.advanceTimersByTime(4 * HALF_MS)
  expect(written).toEqual(['a 0', 'a 1'])
})

test('a thousand causes are remembered, and more are written each time', () => {
  for (let cause = 0; cause < 1000; cause++) happens(`${cause}`)
  written = []
  happens('999')
  happens('one more')
  happens('one more')
  expect(written).toEqual(['one more 0', 'one more 0'])
})

test('a mebibyte of causes is remembered, and longer ones are written each time until there is room', () => {
  const long = 'x'.repeat(600_000)
  for (const cause of [long, `${long}y`, `${long}y`, long, 'short', 'short']) happens(cause)
  const heads = (): string[] => written.map((line) => line.replace(long, 'long'))
  expect(heads()).toEqual(['long 0', 'longy 0', 'longy 0', 'short 0'])
  written = []
  vi.advanceTimersByTime(4 * HALF_MS)
  expect(heads()).toEqual(['long 1', 'short 1'])
  written = []
  for (const cause of [`${long}y`, `${long}y`]) happens(cause)
  expect(heads()).toEqual(['longy 0'])
})
