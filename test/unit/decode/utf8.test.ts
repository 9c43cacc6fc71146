// Bytes above 127 in strings, held against TextDecoder by the oracle: each border of the ranges of UTF-8, at every place
// in the sixteen bytes that the scanner checks at a time.

import { expect, test } from 'vitest'
import { bodyOf, event, seededRandom } from './bodies.ts'
import { judge } from './oracle.ts'

const FURTHER = [0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf]
const FIRST = [0xc0, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xed, 0xee, 0xef, 0xf0, 0xf1, 0xf4, 0xf5, 0xff]
const ALL = [0x41, 0x7f, ...FURTHER, ...FIRST]
/** What may end a run of them: the string itself, ASCII, an escape. */
const ENDS = ['', 'a', '\\n', 'é', '東', '\\ud83d']

const random = seededRandom(5)
const [head, tail] = bodyOf(event({ properties: '{"k":"@"}' }))
  .split('@')
  .map((text) => Buffer.from(text))
let judged = 0

function isTaken(bytes: number[]): boolean {
  const before = 'x'.repeat(judged % 17) + ENDS[random(ENDS.length)]
  const after = ENDS[random(ENDS.length)] + 'y'.repeat(random(18))
  judged += 1
  const body = Buffer.concat([head, Buffer.from(before), Buffer.from(bytes), Buffer.from(after), tail])
  const { validation, scanned } = judge(body, judged % 16)
  const isAccepted = validation.kind === 'accepted'
  if (scanned !== isAccepted) throw new Error(`the scanner is not sure of ${bytes.join()}`)
  return isAccepted
}

test('one to three bytes on the borders of the ranges are taken where they are UTF-8', () => {
  let taken = 0
  for (const one of ALL) {
    if (isTaken([one])) taken += 1
    for (const two of ALL) {
      if (isTaken([one, two])) taken += 1
      for (const three of ALL) if (isTaken([one, two, three])) taken += 1
    }
  }
  // ASCII: 2. Of two bytes: 4 + 2 × 6. Of three: 8 + 4 × 12, and E0, E1, ED, EE, EF with 2, 6, 4, 6, 6 times 6.
  expect(taken).toBe(2 + 16 + 56 + 144)
})

test('four bytes on the borders of the ranges are taken where they are UTF-8', () => {
  const some = [0x41, 0x80, 0xbf, 0xc2]
  let taken = 0
  for (const one of FIRST.filter((byte) => byte >= 0xe0)) {
    for (const two of FURTHER)
      for (const three of some) for (const four of some) if (isTaken([one, two, three, four])) taken += 1
  }
  // F0, F1, F4 with 4, 6, 2 times 4, and characters of three bytes with 41 behind them.
  expect(taken).toBe(12 * 4 + 24 * 2)
})

test('long text beyond ASCII is taken, and a byte of it that is wrong is found wherever it is', () => {
  const text = Buffer.from('Ünïcödé 東京 🎉 Оформление')
  for (let at = 0; at <= text.length; at++) {
    for (const byte of [0x80, 0xc3, 0xe2, 0xf0, 0xff]) {
      const { validation } = judge(
        Buffer.concat([head, text, text.subarray(0, at), Buffer.of(byte), text.subarray(at), text, tail]),
        at % 16,
      )
      expect(validation).toMatchObject({ code: 'invalid_json' })
    }
  }
  expect(judge(Buffer.concat([head, text, text, text, text, tail])).validation.kind).toBe('accepted')
})
