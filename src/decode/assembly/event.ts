// Takes an event apart, member by member. This is the ordinary way, which any event may go; layouts.ts has the short one.

import * as names from './names'
import { timestamp } from './timestamps'
import {
  boundedString,
  CONTEXT_DEPTH,
  EVENT_DEPTH,
  eventType,
  keyValue,
  REVENUE_TYPE,
  type,
} from './values'
import { afterMember, colon, nowhere, number, space, string, value } from './walker'

const MAX_KEYS: i32 = 50

const QUOTE: i32 = 0x22
const OPEN_BRACE: i32 = 0x7b
const CLOSE_BRACE: i32 = 0x7d

const REQUIRED: i32 = 0b11101111
const REVENUE_SEEN: i32 = 1 << 10

/** Whether the last event had the member `revenue`. */
export let sawRevenue: bool = false

/** `p`: the opening brace. Leaves the event's type in `eventType`. */
export function takeApart(p: i32): i32 {
  let seen = 0
  p = space(p + 1)
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
    if ((seen & REQUIRED) != REQUIRED) return nowhere
    sawRevenue = (seen & REVENUE_SEEN) != 0
    return eventType == REVENUE_TYPE && !sawRevenue ? nowhere : ~next
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
      if (names.isNumber(member)) {
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
    p = keyValue(colon(string(p)))
    const next = afterMember(p)
    if (next < 0) return ~next
    p = next
  }
  return nowhere
}
