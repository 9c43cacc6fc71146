import { expect, it } from 'vitest'
import { Crc32c } from '../../../src/lib/crc32c.ts'

/** By the definition, a bit at a time. */
function slowly(bytes: Uint8Array): number {
  let crc = 0xffffffff
  for (const byte of bytes) {
    crc ^= byte
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0x82f63b78 : crc >>> 1
  }
  return ~crc >>> 0
}

const checks = new Crc32c(300_000)
for (let at = 0, word = 1; at < checks.bytes.length; at++) {
  word = Math.imul(word, 1_664_525) + 1_013_904_223
  checks.bytes[at] = word >>> 24
}

it('is that of RFC 3720 for its examples', () => {
  const of = (data: Uint8Array): string => {
    const small = new Crc32c(64)
    small.bytes.set(data)
    return small.of(0, data.length).toString(16)
  }
  expect(of(Buffer.from('123456789'))).toBe('e3069283')
  expect(of(Buffer.alloc(32))).toBe('8a9136aa')
  expect(of(Buffer.alloc(32, 0xff))).toBe('62a8ab43')
  expect(of(Uint8Array.from({ length: 32 }, (_, index) => index))).toBe('46dd794e')
})

it('is the same by tables and folded, wherever the bytes lie, and leaves them as they are', () => {
  const before = Buffer.from(checks.bytes)
  // Around where folding begins, and where its pieces end.
  for (const length of [0, 1, 7, 8, 9, 63, 5279, 16_383, 16_384, 16_385, 21_728, 21_729, 38_000, 131_071, 299_000]) {
    for (const start of [0, 1, 13, 64]) {
      const end = start + length
      expect(checks.of(start, end), `${start} to ${end}`).toBe(slowly(checks.bytes.subarray(start, end)))
    }
  }
  expect(checks.bytes.equals(before)).toBe(true)
})

it('changes with every bit', () => {
  const whole = checks.of(0, 40_000)
  for (const at of [0, 3, 4, 15, 16, 63, 64, 16_384, 20_000, 34_719, 34_720, 39_999]) {
    for (let bit = 0; bit < 8; bit++) {
      checks.bytes[at] ^= 1 << bit
      expect(checks.of(0, 40_000), `byte ${at}, bit ${bit}`).not.toBe(whole)
      checks.bytes[at] ^= 1 << bit
    }
  }
  expect(checks.of(0, 40_000)).toBe(whole)
})

it('is the same where its bytes are added piece by piece, and nothing is left of a sum before it', () => {
  for (const ends of [[0], [10, 20_000], [16_384], [5, 16_383, 16_385, 60_000], [131_072, 131_073, 290_000]]) {
    for (const end of [200, 16_390, 61_000, 299_000].filter((one) => one >= (ends.at(-1) ?? 0))) {
      checks.begin(7)
      for (const one of ends) checks.add(7 + one)
      expect(checks.finish(7 + end), `${ends.join()} of ${end}`).toBe(slowly(checks.bytes.subarray(7, 7 + end)))
      checks.begin(1000)
      checks.add(100_000)
    }
  }
})
