// What a decoder leaves in memory and in the words, and what it allocates.

import { expect, test } from 'vitest'
import { createDecoder, type DecoderName } from '../../../src/decode/decoder.ts'
import { type Validation } from '../../../src/decode/verdict.ts'
import { DECODED_WORDS, FIELD } from '../../../src/ring/layout.ts'
import { createMemory, endOfBodies, LOOK_AHEAD_BYTES } from '../../../src/ring/memory.ts'
import { decodeWith } from '../../support/decode.ts'
import { bodyOf, event, NOW_MS } from './bodies.ts'

const ENGINES: DecoderName[] = ['scanner', 'simdjson']

interface Decoded {
  readonly answer: Validation | null
  readonly text: string
  readonly words: Int32Array
  readonly part: (start: keyof typeof FIELD, end: keyof typeof FIELD) => string
}

const memory = createMemory(1 << 16)

/** The body begins at byte 5, or ends this many bytes before its memory does. */
function decode(name: DecoderName, body: string, beforeEnd?: number): Decoded {
  const bytes = new Uint8Array(memory.buffer)
  const length = Buffer.byteLength(body)
  const start = beforeEnd === undefined ? 5 : endOfBodies(memory) - beforeEnd - length
  bytes.set(Buffer.from(body), start)
  const words = new Int32Array(DECODED_WORDS + 3)
  const answer = decodeWith(createDecoder(name, memory), start, start + length, NOW_MS, words, 3)
  const text = Buffer.from(memory.buffer, start, length).toString()
  return {
    answer,
    text,
    words,
    part: (from, to) => text.slice(words[3 + FIELD[from]], words[3 + FIELD[to]]),
  }
}

for (const name of ENGINES) {
  test(`${name}: the words have the positions of the parts and the number of events of each type`, () => {
    const body = bodyOf(event(), event({ type: '"revenue"', revenue: '{}' }), event({ type: '"screen"' }), event())
    const { words, part } = decode(name, body)
    expect(part('appKeyStart', 'appKeyEnd')).toBe('ak_demo')
    expect(part('sdkVersionStart', 'sdkVersionEnd')).toBe('"2.1.0"')
    expect(part('eventsStart', 'eventsEnd')).toBe(body.slice(body.indexOf('['), -1))
    expect([words[3 + FIELD.track], words[3 + FIELD.screen], words[3 + FIELD.revenue]]).toEqual([2, 1, 1])
  })

  test(`${name}: an absent sdk_version is 0 to 0`, () => {
    const { words } = decode(name, '{"events":[],"app_key":"ak_demo"}')
    expect([words[3 + FIELD.sdkVersionStart], words[3 + FIELD.sdkVersionEnd]]).toEqual([0, 0])
  })

  test(`${name}: line breaks between tokens become spaces, and those written as escapes stay`, () => {
    const body = ` {\r\n"app_key":\n"ak_demo","x":\n[1,\r2],"events":[\n${event({ name: '"a\\nb"' })}\n]\n}\n`
    const { answer, text } = decode(name, body)
    expect(text).toBe(body.replace(/[\r\n]/g, ' '))
    expect(answer).toEqual({ kind: 'accepted', appKey: 'ak_demo', extras: '"x": [1, 2]' })
  })

  test(`${name}: a refused body is changed in nothing but its line breaks`, () => {
    const body = '{\n"app_key":"ak_demo"\n}'
    expect(decode(name, body).text).toBe(body.replaceAll('\n', ' '))
  })

  test(`${name}: members that the schema does not name are kept as sent, in order, with repeats`, () => {
    const body = '{"é" : "\\u00e9","app_key":"ak_demo","a":[1, 2],"events":[],"a":1.50e3}'
    expect(decode(name, body).answer).toEqual({
      kind: 'accepted',
      appKey: 'ak_demo',
      extras: '"é" : "\\u00e9","a":[1, 2],"a":1.50e3',
    })
  })

  test(`${name}: a hundred extra members are kept as well as one`, () => {
    const extras = Array.from({ length: 100 }, (_, index) => `"x${index}":${index}`).join(',')
    expect(decode(name, `{"app_key":"ak_demo",${extras},"events":[]}`).answer).toMatchObject({ extras })
  })

  test(`${name}: JSON that other parsers refuse is accepted`, () => {
    for (const value of ['"\\ud83d"', '1e999', '123456789012345678901234567890', '"\\u0000"']) {
      const { answer } = decode(name, bodyOf(event({ properties: `{"a":${value},"a\\u0000b":1}` })))
      expect(answer === null || answer.kind === 'accepted').toBe(true)
    }
  })

  test(`${name}: invalid bodies get the same messages`, () => {
    for (const body of ['', '{', '\ufeff{}', '[1,]', `${'['.repeat(65)}${']'.repeat(65)}`]) {
      expect(decode(name, body).answer).toEqual(decode('scanner', body).answer)
      expect(decode(name, body).answer).toMatchObject({ kind: 'refused', code: 'invalid_json', appKey: null })
    }
  })
}

test('a body may end at the end of memory, less the look-ahead', () => {
  const body = bodyOf(event())
  expect(decode('scanner', body, LOOK_AHEAD_BYTES).answer).toBeNull()
  for (let length = 0; length < body.length; length++) {
    const cut = body.slice(0, length)
    expect(decode('scanner', cut, LOOK_AHEAD_BYTES).answer).toMatchObject({ code: 'invalid_json' })
  }
})

test('bytes after a truncated body do not complete it', () => {
  const body = bodyOf(event({ properties: '{"a":[1,{"b":"é\\n"}]}', screen: 'true' }))
  const decoder = createDecoder('scanner', memory)
  const bytes = Buffer.from(memory.buffer)
  for (let length = 0; length < body.length; length++) {
    const end = 64 + Buffer.byteLength(body.slice(0, length))
    for (const rest of [body.slice(length), body.slice(length, length + 1) + body.slice(length), '"}]}'.repeat(20)]) {
      bytes.fill(body, 64, end)
      bytes.write(rest, end)
      expect(decodeWith(decoder, 64, end, NOW_MS, new Int32Array(DECODED_WORDS), 0)).toMatchObject({
        code: 'invalid_json',
      })
    }
  }
})

test('a body too close to the end of memory throws', () => {
  const decoder = createDecoder('scanner', memory)
  const end = endOfBodies(memory) - LOOK_AHEAD_BYTES + 1
  expect(() => decodeWith(decoder, end - 60, end, NOW_MS, new Int32Array(9), 0)).toThrow(RangeError)
})

test('accepting a plain body allocates nothing', () => {
  const body = Buffer.from(bodyOf(...Array<string>(20).fill(event({ properties: '{"a":"b","c":[1,2]}' }))))
  new Uint8Array(memory.buffer).set(body)
  const words = new Int32Array(DECODED_WORDS)
  const decoder = createDecoder('scanner', memory)
  const before = process.memoryUsage().heapUsed
  let taken = 0
  for (let times = 0; times < 3000; times++)
    if (decodeWith(decoder, 0, body.length, NOW_MS, words, 0) === null) taken += 1
  expect(taken).toBe(3000)
  // Three thousand times twenty events: one object for each event would already be some megabytes.
  expect(process.memoryUsage().heapUsed - before).toBeLessThan(1_500_000)
})

for (const name of ENGINES) {
  test(`${name}: the hash of a body changes with each of its bytes and with its length, and with nothing else`, () => {
    const decoder = createDecoder(name, memory)
    const bytes = new Uint8Array(memory.buffer)
    const hashAt = (body: Uint8Array, start: number): number => {
      bytes.fill(0xaa, 0, 1024)
      bytes.set(body, start)
      return decoder.hash(start, start + body.length)
    }
    const seen = new Set<number>()
    let bodies = 0
    for (let length = 0; length <= 130; length++) {
      const body = Uint8Array.from({ length }, (_, index) => (index * 7) % 251)
      const hash = hashAt(body, 8)
      expect([hash > 0, hash < 2 ** 32, Number.isInteger(hash)]).toEqual([true, true, true])
      expect(hashAt(body, 129)).toBe(hash)
      seen.add(hash)
      bodies++
      for (let index = 0; index < length; index++) {
        for (const flip of [1, 128]) {
          const other = body.slice()
          other[index] ^= flip
          seen.add(hashAt(other, 8))
          bodies++
        }
      }
    }
    // Of so many, none or one has the hash of another by chance: 17,161² / 2³³ = 0.03 are expected.
    expect(seen.size).toBeGreaterThanOrEqual(bodies - 1)
  })

  test(`${name}: two parts of a body that change places change its hash`, () => {
    const decoder = createDecoder(name, memory)
    const hashOf = (text: string): number => {
      new Uint8Array(memory.buffer).set(Buffer.from(text), 8)
      return decoder.hash(8, 8 + text.length)
    }
    const words = ['event-01', 'event-02', 'event-03', 'event-04', 'event-05', 'event-06', 'event-07', 'event-08']
    const texts = words.flatMap((_, one) =>
      words.map((_, other) => {
        const swapped = [...words]
        ;[swapped[one], swapped[other]] = [swapped[other], swapped[one]]
        return swapped.join('')
      }),
    )
    expect(new Set(texts.map(hashOf)).size).toBe(new Set(texts).size)
  })
}
