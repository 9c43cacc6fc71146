// Validates a body in one pass over its bytes, without building objects or strings. It answers "valid", with offsets,
// or "not sure". The validator decides on the latter, so the scanner may be unsure too often, but must never accept an
// invalid body.
//
// An event is compared with one that was taken apart before (layouts.ts), or taken apart itself (event.ts).
//
//   body        {  app_key: plain string   sdk_version: string   events: [ up to 100 events ]     others: value  }
//   event       {  eleven named members, each at most once                                      others: value  }
//   context     {  seven named members, each at most once                                       others: value  }
//   properties  {  up to 50 members of any name, each value up to 500 characters  }             (and revenue)
//   value       string, number, literal, or object or array, down to a depth of 64 (walker.ts)
//
// As in the walker, every function takes the position at which its part begins and returns the position after it. On
// failure it returns `nowhere`, a position beyond the body's end at which every further step fails. This is
// AssemblyScript. Its state is in the globals of the instance, and in an area of the memory that no other instance has.

import { beginBody, followAny, mayLearn, setApp } from './choice'
import { takeApart } from './event'
import { learn } from './learn'
import * as names from './names'
import { plainEnd } from './text'
import { setRange } from './timestamps'
import { eventType } from './values'
import { afterMember, begin, colon, nowhere, sawLineBreak, space, string, value } from './walker'

export { useArea } from './choice'
export { hash } from './hash'

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

const QUOTE: i32 = 0x22
const COMMA: i32 = 0x2c
const OPEN_BRACKET: i32 = 0x5b
const CLOSE_BRACKET: i32 = 0x5d
const OPEN_BRACE: i32 = 0x7b

const REQUIRED_OF_BODY: i32 = 0b101

/** The number of containers around the value of a member. */
const BODY_DEPTH: i32 = 1

let appKeyStart: i32 = 0
let appKeyEnd: i32 = 0
let sdkVersionStart: i32 = 0
let sdkVersionEnd: i32 = 0
let eventsStart: i32 = 0
let eventsEnd: i32 = 0
/** Events of each type, eight bits each. A body has at most 100 events. */
let counts: i32 = 0

/** Validates the bytes [start, end). The time range is given in minutes and milliseconds of the minute. */
export function scan(start: i32, end: i32, fromMinute: i32, fromMs: i32, untilMinute: i32, untilMs: i32): i32 {
  begin(end)
  beginBody()
  setRange(fromMinute, fromMs, untilMinute, untilMs)
  sdkVersionStart = start
  sdkVersionEnd = start
  counts = 0
  store<u64>(end, 0)
  const open = space(start)
  if (load<u8>(open) != OPEN_BRACE) return NOT_SURE
  if (space(body(open + 1)) != end) return NOT_SURE
  found(
    appKeyStart - start,
    appKeyEnd - start,
    sdkVersionStart - start,
    sdkVersionEnd - start,
    eventsStart - start,
    eventsEnd - start,
    counts & 0xff,
    (counts >> 8) & 0xff,
    counts >> 16,
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
  setApp(load<u64>(appKeyEnd - 8))
  // An app key with an escape could not be read in place.
  return load<u8>(appKeyEnd) == QUOTE ? appKeyEnd + 1 : nowhere
}

function events(p: i32): i32 {
  if (load<u8>(p) != OPEN_BRACKET) return nowhere
  p = space(p + 1)
  if (load<u8>(p) == CLOSE_BRACKET) return p + 1
  for (let count = 1; count <= MAX_EVENTS; count++) {
    if (load<u8>(p) != OPEN_BRACE) return nowhere
    p = space(event(p))
    counts += eventType
    const byte: i32 = load<u8>(p)
    if (byte == CLOSE_BRACKET) return p + 1
    if (byte != COMMA) return nowhere
    p = space(p + 1)
  }
  return nowhere
}

/** `p`: the opening brace. Leaves the event's type in `eventType`. */
function event(p: i32): i32 {
  const followed = followAny(p)
  if (followed != nowhere) return followed
  const end = takeApart(p)
  // A layout does not know whether a line break was between tokens.
  if (end != nowhere && !sawLineBreak && mayLearn()) learn(p, end)
  return end
}
