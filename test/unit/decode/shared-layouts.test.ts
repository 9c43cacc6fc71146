// All apps of a node share what a scanner has learnt of events' layouts. What one of them sends must not take that from
// another: events of the other's are still followed, as the scores in the scanner's area show (src/decode/assembly/choice.ts).

import { expect, test } from 'vitest'
import { Scanner } from '../../../src/decode/scanner.ts'
import { FIELD } from '../../../src/ring/layout.ts'
import { createMemory, endOfBodies } from '../../../src/ring/memory.ts'
import { alike, FULL } from './alike.ts'
import { bodyOf, NOW_MS, objectText } from './bodies.ts'

const LAYOUTS = 32
const LAYOUT_BYTES = 8192
const DIRECTORY_BYTES = 8192
const SCORES = 128
const MAX_SCORE = 8

const memory = createMemory(1 << 20)
let scanners = 0
let serial = 0
const words = new Int32Array(Math.max(...Object.values(FIELD)) + 1)

/** A scanner of its own, and what it has in its area. */
function newScanner(): { send: (app: string, events: string[]) => void; scoreOf: (mark: string) => number } {
  // The first area is the first scanner's, and so on.
  const area = endOfBodies(memory) + scanners * (DIRECTORY_BYTES + LAYOUTS * LAYOUT_BYTES)
  scanners += 1
  const scanner = new Scanner(memory)
  const bytes = Buffer.from(memory.buffer)
  return {
    send: (app, events) => {
      const length = bytes.write(bodyOf(...events).replace(/"app_key":"[^"]*"/, `"app_key":"${app}"`))
      expect(scanner.scan(0, length, NOW_MS, words, 0)).toBe(true)
      expect(bytes.toString('latin1', words[FIELD.appKeyStart], words[FIELD.appKeyEnd])).toBe(app)
    },
    // The best score of a layout whose event has these bytes; 0 where none has.
    scoreOf: (mark) =>
      Math.max(
        ...Array.from({ length: LAYOUTS }, (_, index) => {
          const start = area + DIRECTORY_BYTES + index * LAYOUT_BYTES
          const has = bytes.subarray(start, start + LAYOUT_BYTES).includes(mark)
          return has ? bytes.readInt32LE(area + SCORES + 4 * index) : 0
        }),
      ),
  }
}

function many(make: () => string, count = 100): string[] {
  return Array.from({ length: count }, make)
}

/** Like no event before it. */
function everNew(): string {
  serial += 1
  return alike({ name: `"n${serial * 7919}"`, properties: `{"p${serial}":1}` })
}

/** New layouts, each of so many events that they are learnt. */
function newOnes(): string[] {
  return Array.from({ length: 6 }, everNew).flatMap((event) => many(() => event, 16))
}

/** Takes the honest event's place in the directory, and differs from it at its end only. */
function almostHonest(): string {
  serial += 1
  return honest().replace('"amount":', `"a${serial}":1,"amount":`)
}

function honest(): string {
  return alike({ build: '"honest"' })
}

test('ever-new layouts of one app leave another its own, however seldom it sends', () => {
  const { send, scoreOf } = newScanner()
  for (let times = 0; times < 3; times++) send('ak_honest_app', many(honest))
  expect(scoreOf('"honest"')).toBe(MAX_SCORE)
  for (let times = 0; times < 200; times++) send('ak_other_app', many(everNew))
  expect(scoreOf('"honest"')).toBe(MAX_SCORE)
})

test('events that only seem to be of a layout do not keep those of another app from being followed', () => {
  const { send, scoreOf } = newScanner()
  for (let times = 0; times < 3; times++) send('ak_honest_app', many(honest))
  for (let times = 0; times < 20; times++) {
    for (let bodies = 0; bodies < 4; bodies++) send('ak_other_app', many(almostHonest))
    send('ak_honest_app', many(honest))
  }
  // Of the honest app, since the other's events have one member more.
  expect(scoreOf('"revenue":{"amount":')).toBe(MAX_SCORE)
  for (let bodies = 0; bodies < 4; bodies++) send('ak_other_app', many(almostHonest))
  expect(scoreOf('"revenue":{"amount":')).toBe(MAX_SCORE)
})

test.each([1, 10])(
  'new layouts of one app that are worth learning, each in %i of its bodies, leave another its own, however seldom it sends',
  (bodies) => {
    const { send, scoreOf } = newScanner()
    const nine = Array.from({ length: 9 }, (_, index) => alike({ name: `"honest ${index}"` }))
    for (let times = 0; times < 20; times++) send('ak_honest_app', nine)
    for (let times = 0; times < 900; times++) {
      const events = newOnes()
      for (let again = 0; again < bodies; again++) send('ak_other_app', events)
      send('ak_honest_app', [nine[times % 9]])
    }
    expect(nine.map((_, index) => scoreOf(`"honest ${index}"`))).toEqual(nine.map(() => MAX_SCORE))
  },
)

test('an app whose events come after many new layouts of another has its own learnt', () => {
  const { send, scoreOf } = newScanner()
  const nine = Array.from({ length: 9 }, (_, index) => alike({ name: `"honest ${index}"` }))
  for (let times = 0; times < 100; times++) send('ak_other_app', newOnes())
  for (let times = 0; times < 100; times++) {
    send('ak_other_app', newOnes())
    for (let bodies = 0; bodies < 10; bodies++) send('ak_honest_app', nine)
  }
  expect(nine.map((_, index) => scoreOf(`"honest ${index}"`))).toEqual(nine.map(() => MAX_SCORE))
})

test('what shows that apps differ in a layout is not forgotten for new layouts', () => {
  const { send, scoreOf } = newScanner()
  const both = () => {
    send('ak_other_app', many(almostHonest))
    send('ak_honest_app', many(honest))
  }
  for (let times = 0; times < 3; times++) both()
  for (let times = 0; times < 300; times++) {
    for (let bodies = 0; bodies < 4; bodies++) send('ak_other_app', newOnes())
    send('ak_other_app', many(almostHonest, 10))
    send('ak_honest_app', [honest()])
    // The honest app's own, beside what all new layouts have.
    expect(scoreOf('null}]},"revenue":{"amount":')).toBe(MAX_SCORE)
  }
})

test('layouts are known by their names, also where ids and times come first', () => {
  const { send, scoreOf } = newScanner()
  const ids = () => `"${(serial++).toString(16).padStart(8, '0').repeat(4)}"`
  const orders = [
    ...['hashed_daily_id', 'session_id', 'timestamp', 'user_id', 'name', 'type'].flatMap((first) => [
      [first, 'hashed_monthly_id'],
      [first, 'properties'],
    ]),
    // An object's members hide what comes after it, so that one layout begins with it.
    ['context', 'properties'],
  ]
  const ofOrder = (order: string[], index: number) => {
    const changes = { hashed_daily_id: ids(), hashed_monthly_id: ids(), session_id: ids(), user_id: ids() }
    const all = {
      ...FULL,
      ...changes,
      timestamp: `"2026-11-20T11:${10 + (serial % 50)}:30Z"`,
      build: `"number ${index}."`,
    }
    return objectText({ ...Object.fromEntries(order.map((name) => [name, ''])), ...all })
  }
  for (let times = 0; times < 100; times++) send('ak_honest_app', orders.map(ofOrder))
  expect(orders.map((_, index) => scoreOf(`"number ${index}."`))).toEqual(orders.map(() => MAX_SCORE))
})

test('apps whose events are alike share one layout', () => {
  const { send, scoreOf } = newScanner()
  for (let app = 0; app < 50; app++)
    send(
      `ak_app_number_${app}`,
      many(() => alike({ build: `"of ${app}"` })),
    )
  expect(scoreOf('"of 0"')).toBe(MAX_SCORE)
  for (let app = 1; app < 50; app++) expect(scoreOf(`"of ${app}"`)).toBe(0)
})
