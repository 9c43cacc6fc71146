// The values that an event's members may have. As in the walker, every function takes the position of its value and
// returns the position after it, or `nowhere`.

import { countDecoded, countRaw, plainEnd } from './text'
import { nowhere, slowString, value } from './walker'

const QUOTE: i32 = 0x22

/** The number of containers around the value of a member. */
export const EVENT_DEPTH: i32 = 3
export const CONTEXT_DEPTH: i32 = 4

/** The most characters that a member of `properties` or `revenue` may have. */
export const MAX_VALUE_CHARACTERS: i32 = 500

// The types of an event, each as what it adds to the counts of a body: eight bits for each type.
export const TRACK: i32 = 1
export const SCREEN: i32 = 1 << 8
export const REVENUE_TYPE: i32 = 1 << 16

/** The type of the last event. */
export let eventType: i32 = 0

export function setEventType(type: i32): void {
  eventType = type
}

/** `p`: after the opening quote. */
export function type(p: i32): i32 {
  const word = load<u64>(p)
  if ((word & 0x0000ffffffffffff) == 0x226b63617274 /* track" */) {
    eventType = TRACK
    return p + 6
  }
  if ((word & 0x00ffffffffffffff) == 0x226e6565726373 /* screen" */) {
    eventType = SCREEN
    return p + 7
  }
  if (word != 0x2265756e65766572 /* revenue" */) return nowhere
  eventType = REVENUE_TYPE
  return p + 8
}

/** The value of a member of `properties` or `revenue`. */
export function keyValue(p: i32): i32 {
  return load<u8>(p) == QUOTE ? boundedString(p, 0, MAX_VALUE_CHARACTERS) : boundedValue(p)
}

function boundedValue(p: i32): i32 {
  const end = value(p, CONTEXT_DEPTH)
  const isLong = end - p > MAX_VALUE_CHARACTERS && countRaw(p, end) > MAX_VALUE_CHARACTERS
  return isLong ? nowhere : end
}

@inline
export function boundedString(p: i32, min: i32, max: i32): i32 {
  const end = plainEnd(p + 1)
  const characters = end - p - 1
  if (load<u8>(end) != QUOTE) return slowBoundedString(p, end, min, max)
  return characters >= min && characters <= max ? end + 1 : nowhere
}

/** `p`: the opening quote; `plain`: the end of the plain characters after it. */
export function slowBoundedString(p: i32, plain: i32, min: i32, max: i32): i32 {
  const end = slowString(plain) - 1
  let characters = end - p - 1
  // An escaped character takes up to twelve bytes, so most strings need no count.
  if (characters > max || characters < 12 * min) characters = countDecoded(p + 1, end)
  return characters >= min && characters <= max ? end + 1 : nowhere
}
