// Events of one SDK have one layout: the same members in the same order, with the same bytes between their values. A
// layout is an event that was taken apart the ordinary way, copied into memory of this module's own, with a list of
// steps: the places of its values and what each may be. An event that equals it except in values, each of which passes
// its own check, is valid: its members are the same, and names, order and nesting are all in the bytes between values.
// So later events are compared sixteen bytes at a time, and only values that differ are checked.
//
// Of equal bytes nothing has to be checked again but the timestamp, which is valid only for a time.
//
//   layout  header, steps, template: the copy of the event
//   step    start and end of a value in the template, its kind, and how long a string may be

import { plainEnd } from './text'
import { timestamp } from './timestamps'
import {
  CONTEXT_DEPTH,
  EVENT_DEPTH,
  eventType,
  keyValue,
  MAX_VALUE_CHARACTERS,
  REVENUE_TYPE,
  setEventType,
  slowBoundedString,
  type,
} from './values'
import { nowhere, number, value } from './walker'

const QUOTE: i32 = 0x22
const COMMA: i32 = 0x2c
const CLOSE_BRACE: i32 = 0x7d

export const LAYOUT_BYTES: i32 = 8192

// Offsets in a layout.
/** The start of the timestamp in the template; 0 where the layout is empty. */
export const TIMESTAMP_START: i32 = 0
export const TIMESTAMP_STEP: i32 = 4
export const TEMPLATE_END: i32 = 8
export const TYPE_OF_TEMPLATE: i32 = 12
export const HAS_REVENUE: i32 = 16
export const STEPS: i32 = 32
export const MAX_STEPS: i32 = 94
export const TEMPLATE: i32 = STEPS + 16 * (MAX_STEPS + 1)
/** The template is read 32 bytes at a time, beyond its end. */
export const MAX_TEMPLATE_BYTES: i32 = LAYOUT_BYTES - TEMPLATE - 32

// Offsets in a step.
export const START: i32 = 0
export const END: i32 = 4
export const KIND: i32 = 8
/** The least characters of a string, and how many more it may have. */
export const LEAST: i32 = 10
export const RANGE: i32 = 12
export const STEP_BYTES: i32 = 16

// Kinds of values.
export const STRING: i32 = 0
export const KEY_VALUE: i32 = 1
export const NUMBER: i32 = 2
export const TYPE: i32 = 3
export const ANY_OF_CONTEXT: i32 = 4
export const ANY_OF_EVENT: i32 = 5
export const TIMESTAMP: i32 = 6

/**
 * Compares the event at `p` with a layout. A value that fails its check ends at `nowhere`, and so does the comparison:
 * the template has no NULs.
 */
export function follow(p: i32, layout: i32): i32 {
  const timestampStart = load<i32>(layout, TIMESTAMP_START)
  if (timestampStart == 0) return nowhere
  setEventType(load<i32>(layout, TYPE_OF_TEMPLATE))
  const end = load<i32>(layout, TEMPLATE_END)
  let at = layout + TEMPLATE
  let shift = p - at
  let step = layout + STEPS
  let limit = timestampStart
  while (true) {
    at = differenceFrom(at, shift, limit)
    let next = 0
    if (at >= limit) {
      if (limit == end) break
      step = load<i32>(layout, TIMESTAMP_STEP)
      limit = end
      const start = load<i32>(step, START) + shift
      next = load<u8>(start) == QUOTE ? timestamp(start + 1, nowhere) : nowhere
    } else {
      // A longer value differs only at the byte after the template's.
      while (load<i32>(step, END) < at) step += STEP_BYTES
      const start = load<i32>(step, START)
      if (at < start) return nowhere
      const from = start + shift
      const kind: i32 = load<u16>(step, KIND)
      if (load<u8>(from) == QUOTE && kind <= KEY_VALUE) {
        const plain = plainEnd(from + 1)
        const least: i32 = load<u16>(step, LEAST)
        if (load<u8>(plain) == QUOTE && <u32>(plain - from - 1 - least) <= load<u32>(step, RANGE)) next = plain + 1
        else next = slowBoundedString(from, plain, least, least + load<i32>(step, RANGE))
      } else {
        next = otherValue(kind, from)
      }
    }
    at = load<i32>(step, END)
    step += STEP_BYTES
    // A branch, so that the next loads need not wait for the end of a value that is as long as the template's.
    if (next == at + shift) continue
    if (next == nowhere) return nowhere
    shift = next - at
  }
  if (eventType == REVENUE_TYPE && load<i32>(layout, HAS_REVENUE) == 0) return nowhere
  return end + shift
}

/** The first byte from `at` on that differs from the one `shift` bytes further; `limit` or more if none does before. */
@inline
function differenceFrom(at: i32, shift: i32, limit: i32): i32 {
  while (at < limit) {
    const first = i8x16.bitmask(i8x16.eq(v128.load(at), v128.load(at + shift)))
    const second = i8x16.bitmask(i8x16.eq(v128.load(at, 16), v128.load(at + shift, 16)))
    const equal = first | (second << 16)
    if (equal != -1) return at + ctz(~equal)
    at += 32
  }
  return at
}

/** The end of a value that is not a string of bounded length. */
function otherValue(kind: i32, p: i32): i32 {
  if (kind == KEY_VALUE || kind == NUMBER) {
    const end = smallNumberEnd(p)
    if (end != 0) return end
  }
  switch (kind) {
    case KEY_VALUE:
      return keyValue(p)
    case NUMBER:
      return number(p)
    case TYPE:
      return load<u8>(p) == QUOTE ? type(p + 1) : nowhere
    case ANY_OF_CONTEXT:
      return value(p, CONTEXT_DEPTH)
    case ANY_OF_EVENT:
      return value(p, EVENT_DEPTH)
    default:
      return nowhere
  }
}

/** The end of a whole number without a sign, which may be a member of `properties`; 0 for any other value. */
@inline
function smallNumberEnd(p: i32): i32 {
  if (<u32>load<u8>(p) - 0x31 >= 9) return 0
  let end = p + 1
  while (<u32>load<u8>(end) - 0x30 < 10) end += 1
  const after: i32 = load<u8>(end)
  return (after == COMMA || after == CLOSE_BRACE) && end - p <= MAX_VALUE_CHARACTERS ? end : 0
}
