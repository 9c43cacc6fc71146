// Events of one SDK have one layout: the same members in the same order, with the same bytes between their values. A
// layout is an event that was taken apart the ordinary way, copied into memory of this module's own, with a list of
// steps: the places of its values and what each may be. An event that equals it except in values, each of which passes
// its own check, is valid: its members are the same, and names, order and nesting are all in the bytes between values.
// So the next event is compared sixteen bytes at a time, and only values that differ are checked.
//
// Of equal bytes nothing has to be checked again but the timestamp, which is valid only for a time.
//
//   area    the thread's own, beside the bodies (src/ring/memory.ts): sixteen layouts
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

const SLOT_BITS: i32 = 4
const SLOT_BYTES: i32 = 8192

// Offsets in a layout.
export const KEY: i32 = 0
/** The start of the timestamp in the template; 0 where the layout is empty. */
export const TIMESTAMP_START: i32 = 8
export const TIMESTAMP_STEP: i32 = 12
export const TEMPLATE_END: i32 = 16
export const TYPE_OF_TEMPLATE: i32 = 20
export const HAS_REVENUE: i32 = 24
export const STEPS: i32 = 32
export const MAX_STEPS: i32 = 94
export const TEMPLATE: i32 = STEPS + 16 * (MAX_STEPS + 1)
/** The template is read 32 bytes at a time, beyond its end. */
export const MAX_TEMPLATE_BYTES: i32 = SLOT_BYTES - TEMPLATE - 32

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

/** The thread's own memory; 0 where it has none, and takes every event apart the ordinary way. */
let area: i32 = 0
/** The layouts of the last event that had one, and of the last one that had another. */
let last: i32 = 0
let other: i32 = 0

// What following is worth here. Events that have a layout raise it. Others lower it, and learning a layout does so more.
// At 0 the module takes PAUSE events apart the ordinary way, so that bodies without a layout cost next to nothing.
const GAIN: i32 = 8
const COST: i32 = 8
const MAX_TRUST: i32 = 64
const TRUST_AFTER_PAUSE: i32 = 16
const PAUSE: i32 = 128
let trust: i32 = -PAUSE

/** Gives the module memory of its own, all of it zero, and as large as src/ring/memory.ts says. */
export function useArea(address: i32): void {
  area = address
  trust = MAX_TRUST
  last = address
  other = address
}

/** Tells layouts apart: bytes where most SDKs write the type and the name. */
@inline
function keyOf(p: i32): u64 {
  return (load<u64>(p, 8) ^ rotl<u64>(load<u64>(p, 24), 23)) * 0x9e3779b185ebca87
}

/** The place of the layout for events like the one at `p`. */
@inline
function slotOf(key: u64): i32 {
  return area + (<i32>(key >> (64 - SLOT_BITS))) * SLOT_BYTES
}

/** Whether to look for a layout of the next event at all. */
@inline
export function isTrusted(): bool {
  return trust > 0 || isPauseOver()
}

function isPauseOver(): bool {
  if (area == 0) return false
  trust += 1
  if (trust < 0) return false
  trust = TRUST_AFTER_PAUSE
  return true
}

/** Whether the last event had a layout. */
export function weigh(hadLayout: bool): void {
  if (hadLayout) trust = min(trust + GAIN, MAX_TRUST)
  else lower(1)
}

function lower(by: i32): void {
  trust = trust > by ? trust - by : -PAUSE
}

/** The place for the layout of the event at `p`, empty. */
export function emptySlot(p: i32): i32 {
  lower(COST)
  const key = keyOf(p)
  const slot = slotOf(key)
  store<u64>(slot, key, KEY)
  store<i32>(slot, 0, TIMESTAMP_START)
  if (slot != last) {
    other = last
    last = slot
  }
  return slot
}

/** The position after the event at `p`, if it has a layout that is known; otherwise `nowhere`. */
export function followAny(p: i32): i32 {
  const key = keyOf(p)
  const slot = slotOf(key)
  if (load<u64>(slot, KEY) == key) {
    const end = follow(p, slot)
    if (end != nowhere) {
      if (slot != last) {
        other = last
        last = slot
      }
      return end
    }
  }
  if (slot != last) {
    const end = follow(p, last)
    if (end != nowhere) return end
  }
  if (other == last || other == slot) return nowhere
  const end = follow(p, other)
  if (end == nowhere) return nowhere
  const layout = other
  other = last
  last = layout
  return end
}

/**
 * Compares the event at `p` with a layout. A value that fails its check ends at `nowhere`, and so does the comparison:
 * the template has no NULs.
 */
function follow(p: i32, layout: i32): i32 {
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
      next = valueOf(step, start + shift)
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
    const first = i8x16.bitmask(i8x16.ne(v128.load(at), v128.load(at + shift)))
    const second = i8x16.bitmask(i8x16.ne(v128.load(at, 16), v128.load(at + shift, 16)))
    const differing = first | (second << 16)
    if (differing != 0) return at + ctz(differing)
    at += 32
  }
  return at
}

@inline
function valueOf(step: i32, p: i32): i32 {
  const kind: i32 = load<u16>(step, KIND)
  const byte: i32 = load<u8>(p)
  if (kind <= KEY_VALUE && byte == QUOTE) {
    const end = plainEnd(p + 1)
    const least: i32 = load<u16>(step, LEAST)
    if (load<u8>(end) == QUOTE && <u32>(end - p - 1 - least) <= load<u32>(step, RANGE)) return end + 1
    return slowBoundedString(p, end, least, least + load<i32>(step, RANGE))
  }
  if (kind >= KEY_VALUE && kind <= NUMBER && <u32>(byte - 0x31) < 9) {
    let end = p + 1
    while (<u32>(load<u8>(end)) - 0x30 < 10) end += 1
    const after: i32 = load<u8>(end)
    if ((after == COMMA || after == CLOSE_BRACE) && end - p <= MAX_VALUE_CHARACTERS) return end
  }
  return otherValue(kind, p)
}

function otherValue(kind: i32, p: i32): i32 {
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
