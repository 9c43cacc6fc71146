// Validates a body in one pass over its bytes, without building objects or strings. It answers "valid", with offsets,
// or "not sure". The validator decides on the latter, so the scanner may be unsure too often, but must never accept an
// invalid body.
//
//   body        {  app_key: plain string   sdk_version: string   events: [ up to 100 events ]     others: value  }
//   event       {  eleven named members, each at most once                                      others: value  }
//   context     {  seven named members, each at most once                                       others: value  }
//   properties  {  up to 50 members of any name, each value up to 500 characters  }             (and revenue)
//   value       string, number, literal, or object or array, down to a depth of 64 (walker.ts)
//
// As in the walker, every function takes the position at which its part begins and returns the position after it. On
// failure it returns `nowhere`, a position beyond the body's end at which every further step fails. This is
// AssemblyScript. Its state is in the globals of the instance, since the memory holds only bodies.

import * as names from './names'

export { hash } from './hash'
import { countDecoded, countRaw, forget, plainEnd, sawHighByte } from './text'
import { setRange, timestamp } from './timestamps'
import { afterMember, begin, colon, nowhere, number, sawLineBreak, slowString, space, string, value } from './walker'

/** Whether the body is UTF-8. Called only where it is valid otherwise and has bytes above 127. */
declare function isUtf8(start: i32, end: i32): bool
/** Reports the numbers of FIELD for a valid body. */
declare function found(
  appKeyStart: i32,
  appKeyEnd: i32,
  sdkVersionStart: i32,
  sdkVersionEnd: i32,
  eventsStart: i32,
  eventsEnd: i32,
  tracks: i32,
  screens: i32,
  revenues: i32,
): void
/** Reports a member of the body that the schema does not name. The body may still turn out not to be valid. */
declare function extra(start: i32, end: i32): void

// Results of `scan`.
const NOT_SURE: i32 = 0
const FITS: i32 = 1
const FITS_WITH_LINE_BREAKS: i32 = 2

const MAX_EVENTS: i32 = 100
const MAX_KEYS: i32 = 50
const MAX_VALUE_CHARACTERS: i32 = 500

const QUOTE: i32 = 0x22
const COMMA: i32 = 0x2c
const OPEN_BRACKET: i32 = 0x5b
const CLOSE_BRACKET: i32 = 0x5d
const OPEN_BRACE: i32 = 0x7b
const CLOSE_BRACE: i32 = 0x7d

const REQUIRED_OF_EVENT: i32 = 0b11101111
const REQUIRED_OF_BODY: i32 = 0b101
const REVENUE_SEEN: i32 = 1 << 10

// The number of containers around the value of a member.
const BODY_DEPTH: i32 = 1
const EVENT_DEPTH: i32 = 3
const CONTEXT_DEPTH: i32 = 4

let appKeyStart: i32 = 0
let appKeyEnd: i32 = 0
let sdkVersionStart: i32 = 0
let sdkVersionEnd: i32 = 0
let eventsStart: i32 = 0
let eventsEnd: i32 = 0
let tracks: i32 = 0
let screens: i32 = 0
let revenues: i32 = 0

/** Validates the bytes [start, end). The time range is given in minutes and milliseconds of the minute. */
export function scan(start: i32, end: i32, fromMinute: i32, fromMs: i32, untilMinute: i32, untilMs: i32): i32 {
  begin(end)
  forget()
  setRange(fromMinute, fromMs, untilMinute, untilMs)
  sdkVersionStart = start
  sdkVersionEnd = start
  tracks = 0
  screens = 0
  revenues = 0
  store<u64>(end, 0)
  const open = space(start)
  if (load<u8>(open) != OPEN_BRACE) return NOT_SURE
  if (space(body(open + 1)) != end) return NOT_SURE
  if (sawHighByte && !isUtf8(start, end)) return NOT_SURE
  found(
    appKeyStart - start,
    appKeyEnd - start,
    sdkVersionStart - start,
    sdkVersionEnd - start,
    eventsStart - start,
    eventsEnd - start,
    tracks,
    screens,
    revenues,
  )
  return sawLineBreak ? FITS_WITH_LINE_BREAKS : FITS
}

function body(p: i32): i32 {
  let seen = 0
  p = space(p)
  while (true) {
    if (load<u8>(p) != QUOTE) return nowhere
    const member = names.bodyMember(p + 1)
    if (member == names.OTHER) {
      const start = p
      p = value(colon(names.otherEnd), BODY_DEPTH)
      extra(start, p)
    } else {
      const known = names.bit(member)
      if ((seen & known) != 0) return nowhere
      seen |= known
      p = bodyValue(member, colon(p + names.nameBytes(member) + 2))
    }
    const next = afterMember(p)
    if (next >= 0) p = next
    else return (seen & REQUIRED_OF_BODY) == REQUIRED_OF_BODY ? ~next : nowhere
  }
}

function bodyValue(member: i32, p: i32): i32 {
  if (member == names.EVENTS) {
    eventsStart = p
    eventsEnd = events(p)
    return eventsEnd
  }
  if (load<u8>(p) != QUOTE) return nowhere
  if (member == names.SDK_VERSION) {
    sdkVersionStart = p
    sdkVersionEnd = string(p)
    return sdkVersionEnd
  }
  appKeyStart = p + 1
  appKeyEnd = plainEnd(p + 1)
  // An app key with an escape could not be read in place.
  return load<u8>(appKeyEnd) == QUOTE ? appKeyEnd + 1 : nowhere
}

function events(p: i32): i32 {
  if (load<u8>(p) != OPEN_BRACKET) return nowhere
  p = space(p + 1)
  if (load<u8>(p) == CLOSE_BRACKET) return p + 1
  for (let count = 1; count <= MAX_EVENTS; count++) {
    if (load<u8>(p) != OPEN_BRACE) return nowhere
    p = space(event(p + 1))
    const byte: i32 = load<u8>(p)
    if (byte == CLOSE_BRACKET) return p + 1
    if (byte != COMMA) return nowhere
    p = space(p + 1)
  }
  return nowhere
}

function event(p: i32): i32 {
  let seen = 0
  const revenuesBefore = revenues
  p = space(p)
  while (true) {
    if (load<u8>(p) != QUOTE) return nowhere
    const member = names.eventMember(p + 1)
    if (member == names.OTHER) {
      p = value(colon(names.otherEnd), EVENT_DEPTH)
    } else {
      const known = names.bit(member)
      if ((seen & known) != 0) return nowhere
      seen |= known
      p = colon(p + names.nameBytes(member) + 2)
      p =
        load<u8>(p) == QUOTE && names.maxCharacters(member) > 0
          ? boundedString(p, names.minCharacters(member), names.maxCharacters(member))
          : eventValue(member, p)
    }
    const next = afterMember(p)
    if (next >= 0) {
      p = next
      continue
    }
    if ((seen & REQUIRED_OF_EVENT) != REQUIRED_OF_EVENT) return nowhere
    return revenues != revenuesBefore && (seen & REVENUE_SEEN) == 0 ? nowhere : ~next
  }
}

/** The value of a member that is not a string of bounded length. */
function eventValue(member: i32, p: i32): i32 {
  const byte: i32 = load<u8>(p)
  if (byte == OPEN_BRACE) {
    if (member == names.CONTEXT) return context(p + 1)
    return member == names.PROPERTIES || member == names.REVENUE ? keyValues(p + 1) : nowhere
  }
  if (byte != QUOTE) return nowhere
  if (member == names.TIMESTAMP) return timestamp(p + 1, nowhere)
  return member == names.TYPE ? type(p + 1) : nowhere
}

function type(p: i32): i32 {
  const word = load<u64>(p)
  if ((word & 0x0000ffffffffffff) == 0x226b63617274 /* track" */) {
    tracks += 1
    return p + 6
  }
  if ((word & 0x00ffffffffffffff) == 0x226e6565726373 /* screen" */) {
    screens += 1
    return p + 7
  }
  if (word != 0x2265756e65766572 /* revenue" */) return nowhere
  revenues += 1
  return p + 8
}

function context(p: i32): i32 {
  let seen = 0
  p = space(p)
  while (true) {
    if (load<u8>(p) != QUOTE) return nowhere
    const member = names.contextMember(p + 1)
    if (member == names.OTHER) {
      p = value(colon(names.otherEnd), CONTEXT_DEPTH)
    } else {
      const known = names.bit(member)
      if ((seen & known) != 0) return nowhere
      seen |= known
      p = colon(p + names.nameBytes(member) + 2)
      if (member == names.SCREEN_WIDTH || member == names.SCREEN_HEIGHT) {
        p = number(p)
      } else {
        if (load<u8>(p) != QUOTE) return nowhere
        // Only `os` has a minimum length, which is 1.
        if (member == names.OS && load<u8>(p, 1) == QUOTE) return nowhere
        p = string(p)
      }
    }
    const next = afterMember(p)
    if (next >= 0) p = next
    else return (seen & names.bit(names.OS)) != 0 ? ~next : nowhere
  }
}

/** `properties` or `revenue`. */
function keyValues(p: i32): i32 {
  p = space(p)
  if (load<u8>(p) == CLOSE_BRACE) return p + 1
  for (let keys = 1; keys <= MAX_KEYS; keys++) {
    if (load<u8>(p) != QUOTE) return nowhere
    p = colon(string(p))
    p = load<u8>(p) == QUOTE ? boundedString(p, 0, MAX_VALUE_CHARACTERS) : boundedValue(p)
    const next = afterMember(p)
    if (next < 0) return ~next
    p = next
  }
  return nowhere
}

function boundedValue(p: i32): i32 {
  const end = value(p, CONTEXT_DEPTH)
  const isLong = end - p > MAX_VALUE_CHARACTERS && countRaw(p, end) > MAX_VALUE_CHARACTERS
  return isLong ? nowhere : end
}

@inline
function boundedString(p: i32, min: i32, max: i32): i32 {
  const end = plainEnd(p + 1)
  const characters = end - p - 1
  if (load<u8>(end) != QUOTE) return slowBoundedString(p, end, min, max)
  return characters >= min && characters <= max ? end + 1 : nowhere
}

/** `p`: the opening quote; `plain`: the end of the plain characters after it. */
function slowBoundedString(p: i32, plain: i32, min: i32, max: i32): i32 {
  const end = slowString(plain) - 1
  let characters = end - p - 1
  // An escaped character takes up to twelve bytes, so most strings need no count.
  if (characters > max || characters < 12 * min) characters = countDecoded(p + 1, end)
  return characters >= min && characters <= max ? end + 1 : nowhere
}
