// Changes a body's bytes: at the boundaries of the 16 bytes that a SIMD comparison takes at once, between tokens, at the
// end, or anywhere.

import { BAD_UTF8, damaged, type Random } from '../unit/decode/bodies.ts'

const ODD_BYTES = Buffer.from([
  0x00, 0x09, 0x0a, 0x1f, 0x20, 0x22, 0x2c, 0x3a, 0x3b, 0x5c, 0x5d, 0x7b, 0x7d, 0x7f, 0x80, 0xc3, 0xff,
])
const SPACES = [
  ' ',
  '\n',
  ' \n',
  '   \r',
  '\t',
  '\r',
  '\r\n',
  '        ',
  '                ',
  '\v',
  '\f',
  '\u00a0',
  '\ufeff',
].map((text) => Buffer.from(text))
const AFTER_THE_BODY = [
  '}',
  ']',
  '}}',
  ']}',
  '0',
  '"',
  ',',
  ' ',
  '\n',
  '\0',
  '\0\0\0\0\0\0\0\0',
  ' x',
  '{}',
  '\u00e9',
].map((text) => Buffer.from(text))
const STRUCTURE = new Set(Buffer.from('{}[],:"'))
const VECTOR_BYTES = 16

export interface Span {
  readonly start: number
  readonly end: number
}

/** `event`: where the event lies that is changed most often. */
export function changeBytes(random: Random, body: Buffer, event: Span): Buffer {
  const length = event.end - event.start
  const within = event.start + random(Math.max(1, length))
  switch (random(11)) {
    case 0:
      return damaged(random, body)
    case 1: {
      const base = random(2) === 0 ? 0 : event.start
      const at = base + Math.round((within - base) / VECTOR_BYTES) * VECTOR_BYTES + random(3) - 1
      return withByte(random, body, at)
    }
    case 2:
      return withByte(random, body, within)
    case 3: {
      const at = structureFrom(body, within) + random(2)
      return Buffer.concat([body.subarray(0, at), SPACES[random(SPACES.length)], body.subarray(at)])
    }
    case 4:
      return Buffer.concat([
        body.subarray(0, within),
        BAD_UTF8[random(BAD_UTF8.length)],
        body.subarray(within + random(4)),
      ])
    case 5: {
      // Bytes left out or doubled, at times just as many as a vector has.
      const until = within + (random(2) === 0 ? VECTOR_BYTES : 1 + random(4))
      return random(2) === 0
        ? Buffer.concat([body.subarray(0, within), body.subarray(until)])
        : Buffer.concat([body.subarray(0, until), body.subarray(within)])
    }
    case 6:
      return Buffer.from(body.subarray(0, random(2) === 0 ? within : body.length - 1 - random(20)))
    case 7:
      return Buffer.concat([body, AFTER_THE_BODY[random(AFTER_THE_BODY.length)]])
    case 8:
      // The event is left out, doubled, or moved away from its comma.
      return random(2) === 0
        ? Buffer.concat([body.subarray(0, event.start), body.subarray(event.end)])
        : Buffer.concat([body.subarray(0, event.end), body.subarray(event.start)])
    case 9: {
      const at = structureFrom(body, within)
      const way = random(3)
      if (way === 0) return Buffer.concat([body.subarray(0, at), body.subarray(at + 1)])
      if (way === 1) return Buffer.concat([body.subarray(0, at), body.subarray(at, at + 1), body.subarray(at)])
      const changed = Buffer.from(body)
      changed[at] ^= 1 << random(8)
      return changed
    }
    default: {
      const changed = Buffer.from(body)
      const at = structureFrom(body, within)
      if (at + 1 < changed.length) [changed[at], changed[at + 1]] = [changed[at + 1], changed[at]]
      return changed
    }
  }
}

function withByte(random: Random, body: Buffer, at: number): Buffer {
  const changed = Buffer.from(body)
  if (at < 0 || at >= changed.length) return changed
  if (random(3) === 0) changed[at] ^= 1 << random(8)
  else changed[at] = random(4) === 0 ? random(256) : ODD_BYTES[random(ODD_BYTES.length)]
  return changed
}

/** The first byte from `at` on that is punctuation of JSON, even within a string. */
function structureFrom(body: Buffer, at: number): number {
  let place = at
  while (place < body.length && !STRUCTURE.has(body[place])) place += 1
  return Math.min(place, body.length - 1)
}
