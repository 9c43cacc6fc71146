// Scans JSON strings and numbers in place. No function tests for the body's end: a NUL byte follows the body, and ends
// every string and number. Bytes after it may be loaded, but do not affect the result.

import { utf8End } from './utf8'

const QUOTE: i32 = 0x22
const PLUS: i32 = 0x2b
const MINUS: i32 = 0x2d
const DOT: i32 = 0x2e
const ZERO: i32 = 0x30
const BACKSLASH: i8 = 0x5c
const LOWER_E: i32 = 0x65
const LOWER_U: i32 = 0x75

// The constants of `plainEnd`. V8 makes a constant of sixteen bytes anew at every use, but loads what a global has.
/** The bit that turns a quote into a space, and the first character that may then stand in a string. */
let flipped: v128 = i64x2(0, 0)
let firstPlain: v128 = i64x2(0, 0)
let backslashes: v128 = i64x2(0, 0)

export function setConstants(): void {
  flipped = i8x16.splat(2)
  firstPlain = i8x16.splat(0x21)
  backslashes = i8x16.splat(BACKSLASH)
}

/** The number of escapes in the strings of the body so far. */
export let escapes: i32 = 0

/**
 * The first byte from `p` on that is not a plain character of a string: a quote, a backslash, a control character or a
 * byte above 127. Sixteen bytes are tested at a time. Flipping bit 1 turns a quote into a space, so that quotes,
 * controls, and bytes above 127 (negative numbers here) are all less than 0x21.
 */
@inline
export function plainEnd(p: i32): i32 {
  while (true) {
    const chunk = v128.load(p)
    const special = v128.or(i8x16.lt_s(v128.xor(chunk, flipped), firstPlain), i8x16.eq(chunk, backslashes))
    const mask = i8x16.bitmask(special)
    if (mask != 0) return p + ctz(mask)
    p += 16
  }
}

/** The position of the closing quote, from where `plainEnd` stopped; -1 where the string is invalid. */
export function restOfString(p: i32): i32 {
  while (true) {
    const byte: i32 = load<u8>(p)
    if (byte == QUOTE) return p
    if (byte == BACKSLASH) {
      const bytes = escapeBytes(p)
      if (bytes == 0) return -1
      escapes += 1
      p = plainEnd(p + bytes)
    } else if (byte >= 0x80) {
      p = utf8End(p)
      if (p < 0) return -1
    } else {
      return -1
    }
  }
}

/** The length of the escape at `p`; 0 where it is invalid. */
function escapeBytes(p: i32): i32 {
  const byte: u32 = load<u8>(p, 1)
  // " / \ b f n r t, by bits from 0x20 and from 0x40 on.
  const known: u64 = byte < 0x60 ? 0x800410000000 : 0x14404400000000
  if (byte - 0x20 < 0x60 && ((known >> byte) & 1) != 0) return 2
  if (byte != LOWER_U) return 0
  return isHex(load<u8>(p, 2)) && isHex(load<u8>(p, 3)) && isHex(load<u8>(p, 4)) && isHex(load<u8>(p, 5)) ? 6 : 0
}

function isHex(byte: u32): bool {
  return isDigit(byte) || (byte | 0x20) - 0x61 < 6
}

/** Code points of the decoded string [p, end). A lone surrogate counts as one. */
export function countDecoded(p: i32, end: i32): i32 {
  let count = 0
  while (p < end) {
    const byte: i32 = load<u8>(p)
    if (byte != BACKSLASH) {
      if ((byte & 0xc0) != 0x80) count += 1
      p += 1
      continue
    }
    count += 1
    if (isSurrogate(p, end, 0x38) && isSurrogate(p + 6, end, 0x43)) p += 12
    else p += load<u8>(p, 1) == LOWER_U ? 6 : 2
  }
  return count
}

/** Whether `p` is at \uD8xx to \uDBxx (`first` is 0x38, '8'), or at \uDCxx to \uDFxx (`first` is 0x43, 'C'). */
function isSurrogate(p: i32, end: i32, first: i32): bool {
  if (p + 6 > end || load<u8>(p) != BACKSLASH || load<u8>(p, 1) != LOWER_U) return false
  if ((load<u8>(p, 2) | 0x20) != 0x64) return false
  const third: i32 = load<u8>(p, 3)
  const digit = third >= 0x61 ? third - 0x20 : third
  return first == 0x38 ? digit >= 0x38 && digit <= 0x42 : digit >= 0x43 && digit <= 0x46
}

/** Code points of the text [p, end), without decoding escapes. */
export function countRaw(p: i32, end: i32): i32 {
  let count = 0
  for (; p < end; p++) if ((load<u8>(p) & 0xc0) != 0x80) count += 1
  return count
}

/** The end of the number at `p`, or -1. */
export function numberEnd(p: i32): i32 {
  if (load<u8>(p) == MINUS) p += 1
  // After a leading 0 no further digit may come before the point.
  p = load<u8>(p) == ZERO ? p + 1 : digitsEnd(p)
  if (p < 0) return -1
  if (load<u8>(p) == DOT) {
    p = digitsEnd(p + 1)
    if (p < 0) return -1
  }
  if ((load<u8>(p) | 0x20) != LOWER_E) return p
  const sign: i32 = load<u8>(p, 1)
  return digitsEnd(sign == PLUS || sign == MINUS ? p + 2 : p + 1)
}

/** The end of one or more digits, or -1. */
function digitsEnd(p: i32): i32 {
  if (!isDigit(load<u8>(p))) return -1
  do p += 1
  while (isDigit(load<u8>(p)))
  return p
}

function isDigit(byte: u32): bool {
  return byte - 0x30 < 10
}
