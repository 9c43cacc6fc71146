// Scans any JSON value in place, in one pass and without objects. This part of the scanner knows the grammar, but not
// the schema.
//
// Every function takes the position at which its part begins and returns the position after it. None tests for the
// body's end: NUL bytes follow the body, and NUL is not valid anywhere. On failure a function returns `nowhere`, the
// second NUL, at which every further step fails too, so that only the outermost caller has to check the result.

import { numberEnd, plainEnd, restOfString, setConstants } from './text'

/** The maximum nesting depth of a body. */
const MAX_DEPTH: i32 = 64

const QUOTE: i32 = 0x22
const COMMA: i32 = 0x2c
const COLON: i32 = 0x3a
const OPEN_BRACKET: i32 = 0x5b
const CLOSE_BRACKET: i32 = 0x5d
const OPEN_BRACE: i32 = 0x7b
const CLOSE_BRACE: i32 = 0x7d
const COMMA_QUOTE: u16 = 0x222c

const TRUE: u32 = 0x65757274 // true
const ALSE: u32 = 0x65736c61 // alse
const NULL: u32 = 0x6c6c756e // null

export let nowhere: i32 = 0
/** The body has line breaks between its tokens. */
export let sawLineBreak: bool = false

export function begin(end: i32): void {
  nowhere = end + 1
  sawLineBreak = false
  setConstants()
}

/** Any value. `depth`: the number of containers around it. */
export function value(p: i32, depth: i32): i32 {
  switch (<i32>load<u8>(p)) {
    case QUOTE:
      return string(p)
    case OPEN_BRACE:
      return depth < MAX_DEPTH ? object(p + 1, depth + 1) : nowhere
    case OPEN_BRACKET:
      return depth < MAX_DEPTH ? array(p + 1, depth + 1) : nowhere
    case 0x74: // t
      return load<u32>(p) == TRUE ? p + 4 : nowhere
    case 0x66: // f
      return load<u32>(p, 1) == ALSE ? p + 5 : nowhere
    case 0x6e: // n
      return load<u32>(p) == NULL ? p + 4 : nowhere
    default:
      return number(p)
  }
}

function object(p: i32, depth: i32): i32 {
  p = space(p)
  if (load<u8>(p) == CLOSE_BRACE) return p + 1
  while (true) {
    if (load<u8>(p) != QUOTE) return nowhere
    const next = afterMember(value(colon(string(p)), depth))
    if (next < 0) return ~next
    p = next
  }
}

function array(p: i32, depth: i32): i32 {
  p = space(p)
  if (load<u8>(p) == CLOSE_BRACKET) return p + 1
  while (true) {
    p = space(value(p, depth))
    const byte: i32 = load<u8>(p)
    if (byte == CLOSE_BRACKET) return p + 1
    if (byte != COMMA) return nowhere
    p = space(p + 1)
  }
}

export function number(p: i32): i32 {
  const end = numberEnd(p)
  return end < 0 ? nowhere : end
}

/** The string whose opening quote is at `p`. */
@inline
export function string(p: i32): i32 {
  const end = plainEnd(p + 1)
  return load<u8>(end) == QUOTE ? end + 1 : slowString(end)
}

export function slowString(p: i32): i32 {
  const end = restOfString(p)
  return end < 0 ? nowhere : end + 1
}

/** From the end of a name to its value. */
@inline
export function colon(p: i32): i32 {
  return load<u8>(p) == COLON && load<u8>(p, 1) > 0x20 ? p + 1 : spacedColon(p)
}

function spacedColon(p: i32): i32 {
  p = space(p)
  return load<u8>(p) == COLON ? space(p + 1) : nowhere
}

/** From the end of a member to the next member. Where the object ends: the complement of the position after it. */
@inline
export function afterMember(p: i32): i32 {
  if (load<u16>(p) == COMMA_QUOTE) return p + 1
  return load<u8>(p) == CLOSE_BRACE ? ~(p + 1) : spacedAfterMember(p)
}

function spacedAfterMember(p: i32): i32 {
  p = space(p)
  const byte: i32 = load<u8>(p)
  if (byte == COMMA) return space(p + 1)
  return byte == CLOSE_BRACE ? ~(p + 1) : nowhere
}

@inline
export function space(p: i32): i32 {
  return load<u8>(p) > 0x20 ? p : longSpace(p)
}

/** Skips sixteen bytes at a time, since indented JSON has long runs of spaces. */
function longSpace(p: i32): i32 {
  while (true) {
    const chunk = v128.load(p)
    const lineBreaks = i8x16.bitmask(
      v128.or(i8x16.eq(chunk, i8x16.splat(0x0a)), i8x16.eq(chunk, i8x16.splat(0x0d))),
    )
    const blanks = i8x16.bitmask(v128.or(i8x16.eq(chunk, i8x16.splat(0x20)), i8x16.eq(chunk, i8x16.splat(0x09))))
    // The bits of bytes that are not white space. Bits 16 and above are always set, so that ctz gives at most 16.
    const others = ~(lineBreaks | blanks)
    const count = ctz(others)
    if ((lineBreaks & ((1 << count) - 1)) != 0) sawLineBreak = true
    p += count
    if (count < 16) return p
  }
}
