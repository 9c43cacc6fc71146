// Walks over strings and numbers of JSON where they lie. Nothing tests for the body's end: a NUL byte stands
// there, which no string and no number may hold.

const QUOTE = 0x22
const PLUS = 0x2b
const MINUS = 0x2d
const DOT = 0x2e
const ZERO = 0x30
const BACKSLASH = 0x5c
const LOWER_E = 0x65
const LOWER_U = 0x75

const ALL_ONES = 0x01010101
const ALL_QUOTES = 0x22222222
const ALL_BACKSLASHES = 0x5c5c5c5c
const ALL_SPACES = 0x20202020
const ALL_HIGH_BITS = 0x80808080 | 0

const IS_HEX = Uint8Array.from({ length: 256 }, (_, byte) => (/[0-9a-fA-F]/.test(String.fromCharCode(byte)) ? 1 : 0))
const IS_ESCAPE = Uint8Array.from({ length: 256 }, (_, byte) =>
  '"\\/bfnrt'.includes(String.fromCharCode(byte)) ? 1 : 0,
)

/** What was met on the way, for one body. */
export interface Notes {
  /** A byte above 127: that the body is UTF-8 remains to be checked. */
  nonAscii: boolean
}

/**
 * The first byte from `p` on that is not a plain character of a string: a quote, a backslash, a control or the
 * first byte of a character beyond ASCII. Four bytes at a time: in each, a subtraction borrows into the high bit
 * where the byte is one of those, and the lowest of these high bits is never one that a lower byte borrowed.
 */
export function plainEnd(view: DataView, p: number): number {
  for (;;) {
    const word = view.getInt32(p, true)
    const special =
      (((word ^ ALL_QUOTES) - ALL_ONES) | ((word ^ ALL_BACKSLASHES) - ALL_ONES) | (word - ALL_SPACES) | word) &
      ALL_HIGH_BITS
    if (special !== 0) return p + ((31 - Math.clz32(special & -special)) >> 3)
    p += 4
  }
}

/** From where `plainEnd` stopped to the closing quote; -1 where the string is broken. */
export function restOfString(view: DataView, p: number, notes: Notes): number {
  for (;;) {
    const byte = view.getUint8(p)
    if (byte === QUOTE) return p
    if (byte === BACKSLASH) {
      const bytes = escapeBytes(view, p)
      if (bytes === 0) return -1
      p += bytes
    } else if (byte >= 0x80) {
      notes.nonAscii = true
      p += 1
      while (view.getUint8(p) >= 0x80) p += 1
    } else if (byte < 0x20) {
      return -1
    } else {
      p = plainEnd(view, p)
    }
  }
}

/** Bytes of the escape at `p`, 0 where it is none. */
function escapeBytes(view: DataView, p: number): number {
  const byte = view.getUint8(p + 1)
  if (byte !== LOWER_U) return IS_ESCAPE[byte] * 2
  const isHex =
    IS_HEX[view.getUint8(p + 2)] === 1 &&
    IS_HEX[view.getUint8(p + 3)] === 1 &&
    IS_HEX[view.getUint8(p + 4)] === 1 &&
    IS_HEX[view.getUint8(p + 5)] === 1
  return isHex ? 6 : 0
}

/** Code points of the decoded string [p, end), a surrogate that stands alone counting as one. */
export function countDecoded(view: DataView, p: number, end: number): number {
  let count = 0
  while (p < end) {
    const byte = view.getUint8(p)
    if (byte !== BACKSLASH) {
      if ((byte & 0xc0) !== 0x80) count += 1
      p += 1
      continue
    }
    count += 1
    if (isSurrogate(view, p, end, 0x38) && isSurrogate(view, p + 6, end, 0x43)) p += 12
    else p += view.getUint8(p + 1) === LOWER_U ? 6 : 2
  }
  return count
}

/** Whether \uD8xx to \uDBxx stands at `p` (least 0x38, '8'), or \uDCxx to \uDFxx (least 0x43, 'C'). */
function isSurrogate(view: DataView, p: number, end: number, least: number): boolean {
  if (p + 6 > end || view.getUint8(p) !== BACKSLASH || view.getUint8(p + 1) !== LOWER_U) return false
  if ((view.getUint8(p + 2) | 0x20) !== 0x64) return false
  const third = view.getUint8(p + 3)
  const digit = third >= 0x61 ? third - 0x20 : third
  return least === 0x38 ? digit >= 0x38 && digit <= 0x42 : digit >= 0x43 && digit <= 0x46
}

/** Code points of the text [p, end) as it stands. */
export function countRaw(view: DataView, p: number, end: number): number {
  let count = 0
  for (; p < end; p++) if ((view.getUint8(p) & 0xc0) !== 0x80) count += 1
  return count
}

/** The end of the number at `p`, or -1. */
export function numberEnd(view: DataView, p: number): number {
  if (view.getUint8(p) === MINUS) p += 1
  // A number that begins with 0 has no further digit before its point.
  p = view.getUint8(p) === ZERO ? p + 1 : digitsEnd(view, p)
  if (p < 0) return -1
  if (view.getUint8(p) === DOT) {
    p = digitsEnd(view, p + 1)
    if (p < 0) return -1
  }
  if ((view.getUint8(p) | 0x20) !== LOWER_E) return p
  const sign = view.getUint8(p + 1)
  return digitsEnd(view, sign === PLUS || sign === MINUS ? p + 2 : p + 1)
}

/** The end of one digit or more, or -1. */
function digitsEnd(view: DataView, p: number): number {
  if (!isDigit(view.getUint8(p))) return -1
  do p += 1
  while (isDigit(view.getUint8(p)))
  return p
}

function isDigit(byte: number): boolean {
  return byte >= ZERO && byte <= ZERO + 9
}
