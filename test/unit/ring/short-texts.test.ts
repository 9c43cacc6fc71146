import { expect, test } from 'vitest'
import { ShortTexts } from '../../../src/ring/short-texts.ts'

test.each([
  ['empty', ['']],
  ['of one byte', ['a', 'b', 'a']],
  [
    'that differ in one byte at any place',
    Array.from({ length: 24 }, (_, at) => `${'k'.repeat(at)}x${'k'.repeat(23 - at)}`),
  ],
  ['of which one begins or ends the other', ['ak_12', 'ak_123', '_123', 'ak_12']],
  ['that are longer than any is kept', ['y'.repeat(64), 'y'.repeat(65), `${'y'.repeat(64)}z`]],
  ['with bytes that are no ASCII', ['é', 'ü', 'ÿ\u0080', 'é']],
])('texts %s are read as they are', (_, texts) => {
  const known = new ShortTexts()
  for (let round = 0; round < 3; round++)
    for (const text of texts) {
      const bytes = Buffer.from(`before${text}after`, 'latin1')
      expect(known.latin1(bytes, 6, 6 + text.length)).toBe(text)
    }
})

test('many texts that take the place of others are read as they are', () => {
  const known = new ShortTexts()
  for (let number = 0; number < 5000; number++) {
    const text = `ak_${(number * 7919) % 1000}`
    expect(known.latin1(Buffer.from(text), 0, text.length)).toBe(text)
  }
})

test('a text that comes again is not made again', () => {
  const known = new ShortTexts()
  const bytes = Buffer.from('ak_live_0001')
  let made = 0
  const read = bytes.toString.bind(bytes)
  bytes.toString = (...range: Parameters<Buffer['toString']>) => {
    made++
    return read(...range)
  }
  for (let round = 0; round < 10; round++) expect(known.latin1(bytes, 0, bytes.length)).toBe('ak_live_0001')
  expect(made).toBe(1)
})
