// An event in the midst of others of its layout, damaged at every place in turn: whatever is compared instead of taken
// apart, the answers are those of the validator and of JSON.parse.

import { expect, test } from 'vitest'
import { alike, alikeAtRandom, teach } from './alike.ts'
import { bodyOf, event, HASH, seededRandom } from './bodies.ts'
import { judge } from './oracle.ts'

const BYTES = Array.from(Buffer.from('"\\{}[],: \n09-.ez\0\x1f\xc3\xff', 'latin1'), (byte) => Buffer.of(byte))
const INSERTED = ['"', '\\', '{', '}', ',', ':', '[', ' ', '0', '\n'].map((text) => Buffer.from(text))
const PAIRS = ['\\"', '""', '":', '",', ',"', '{}', '\\u', 'é', '}}', '00'].map((text) => Buffer.from(text))

/** Events of as many kinds as the places in a layout can be of. */
const KINDS: readonly (readonly [string, string])[] = [
  [
    'with every member',
    alike({ properties: '{"a":10,"b":"x","c":true}', context: '{"os":"iOS","screen_width":7,"x":1}' }),
  ],
  [
    'with escapes and text beyond ASCII',
    event({ name: '"é\\n東"', properties: '{"ключ\\"":"\\ud83d\\ude00","b":-1.5e3}' }),
  ],
  [
    'with white space',
    event({ properties: '{ "a" :\t1 , "b": "x" }', context: ' {"os": "iOS" } ' }).replaceAll('","', '", "'),
  ],
  ['of revenue', event({ type: '"revenue"', revenue: '{"amount":9.99}', properties: '{}', user_id: '"u"' })],
  ['with lists and objects', event({ properties: '{"a":[1,{"b":null}],"c":{"d":[]}}', extra: '{"e":[true]}' })],
  ['with a short timestamp', event({ timestamp: '"2026-11-20T11:59Z"', hashed_retention_id: `"${HASH}"` })],
]

let judged = 0
let accepted = 0
const random = seededRandom(11)

/** Judges a damaged event behind a whole one, and before another. */
function tryOut(whole: string, damaged: Buffer): void {
  const [head, tail] = bodyOf(whole, '@', whole).split('@')
  const { validation } = judge(Buffer.concat([Buffer.from(head), damaged, Buffer.from(tail)]), judged % 40)
  judged += 1
  if (validation.kind === 'accepted') accepted += 1
}

test.each(KINDS)('an event %s is judged rightly whatever byte is changed, put in or left out', (_name, whole) => {
  const bytes = Buffer.from(whole)
  teach(whole)
  judged = 0
  accepted = 0
  for (let at = 0; at < bytes.length; at++) {
    const [before, after] = [bytes.subarray(0, at), bytes.subarray(at + 1)]
    const damaged = [
      ...BYTES.map((byte) => [before, byte, after]),
      ...[0x01, 0x20].map((bit) => [before, Buffer.of(bytes[at] ^ bit), after]),
      ...INSERTED.map((text) => [before, text, bytes.subarray(at)]),
      ...PAIRS.map((text) => [before, text, bytes.subarray(at + 2)]),
      [before, after],
      [before, bytes.subarray(at + 1 + random(40))],
      [before, bytes.subarray(at - random(Math.min(at, 40) + 1))],
    ]
    // All of them for the first event, and in turn for the others, since the test would take long.
    for (const [index, parts] of damaged.entries()) {
      if (whole === KINDS[0][1] || (at + index) % 4 === 0) tryOut(whole, Buffer.concat(parts))
    }
  }
  // Both answers must be common, or little is shown.
  expect(accepted / judged).toBeGreaterThan(0.1)
  expect(accepted / judged).toBeLessThan(0.6)
})

test('events with values at random, one damaged at random, are judged rightly', () => {
  teach(alike())
  let taken = 0
  for (let times = 0; times < 4000; times++) {
    const events = Array.from({ length: 2 + random(4) }, () => alikeAtRandom(random))
    const chosen = random(events.length)
    const bytes = Buffer.from(events[chosen])
    const at = random(bytes.length)
    const byte = random(3) === 0 ? Buffer.of(random(256)) : BYTES[random(BYTES.length)]
    const damaged = Buffer.concat([bytes.subarray(0, at), byte, bytes.subarray(at + random(3))])
    const [head, tail] = bodyOf(...events.map((text, index) => (index === chosen ? '@' : text))).split('@')
    const { validation } = judge(Buffer.concat([Buffer.from(head), damaged, Buffer.from(tail)]), random(40))
    if (validation.kind === 'accepted') taken += 1
  }
  expect(taken).toBeGreaterThan(400)
})

test('a body of events alike is judged rightly wherever it is cut off', () => {
  teach(alike())
  const body = Buffer.from(bodyOf(alike(), alike({ type: '"screen"' }), alike({ build: '18' })))
  for (let length = 0; length < body.length; length++) {
    expect(judge(body.subarray(0, length)).validation.kind).toBe('refused')
  }
})
