// All apps of a node share what a scanner has learnt of events' layouts. What one of them sends must not take that from
// another: events of the other's are still followed, as the scores in the scanner's area show (src/decode/assembly/choice.ts).

import { expect, test } from 'vitest'
import { Scanner } from '../../../src/decode/scanner.ts'
import { FIELD } from '../../../src/ring/layout.ts'
import { createMemory, endOfBodies } from '../../../src/ring/memory.ts'
import { alike } from './alike.ts'
import { bodyOf, NOW_MS } from './bodies.ts'

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
