// Makes a layout of an event that was taken apart and is valid: copies its bytes, and lists its values.

import { emptyLayout } from './choice'
import { sawRevenue } from './event'
import * as layouts from './layouts'
import * as names from './names'
import { CONTEXT_DEPTH, EVENT_DEPTH, eventType, MAX_VALUE_CHARACTERS } from './values'
import { afterMember, colon, space, string, value } from './walker'

const CLOSE_BRACE: i32 = 0x7d

/** More characters than a body has. */
const UNBOUNDED: i32 = 1 << 30

/** The layout that is being made, its next step, and what is added to a place in the event to get one in the copy. */
let layout: i32 = 0
let nextStep: i32 = 0
let shift: i32 = 0

/** `p`: the opening brace of the last event; `end`: the position after it. */
export function learn(p: i32, end: i32): void {
  if (end - p > layouts.MAX_TEMPLATE_BYTES) return
  layout = emptyLayout(p)
  shift = layout + layouts.TEMPLATE - p
  nextStep = layout + layouts.STEPS
  memory.copy(p + shift, p, end - p)
  store<i32>(layout, end + shift, layouts.TEMPLATE_END)
  store<i32>(layout, eventType, layouts.TYPE_OF_TEMPLATE)
  store<i32>(layout, sawRevenue ? 1 : 0, layouts.HAS_REVENUE)
  members(p)
  if (isFull()) {
    store<i32>(layout, 0, layouts.TIMESTAMP_START)
    return
  }
  // Beyond every value.
  store<i32>(nextStep, i32.MAX_VALUE, layouts.START)
  store<i32>(nextStep, i32.MAX_VALUE, layouts.END)
}

/** The members of an event. Like the functions below: from the opening brace to the position after the closing one. */
function members(p: i32): i32 {
  p = space(p + 1)
  while (true) {
    const member = names.eventMember(p + 1)
    const start = colon(string(p))
    let end = 0
    if (member == names.CONTEXT) {
      end = context(start)
    } else if (member == names.PROPERTIES || member == names.REVENUE) {
      end = keyValues(start)
    } else {
      end = value(start, EVENT_DEPTH)
      if (member == names.TIMESTAMP) {
        store<i32>(layout, start + shift, layouts.TIMESTAMP_START)
        store<i32>(layout, nextStep, layouts.TIMESTAMP_STEP)
        note(start, end, layouts.TIMESTAMP)
      } else if (member == names.TYPE) {
        note(start, end, layouts.TYPE)
      } else if (member == names.OTHER) {
        note(start, end, layouts.ANY_OF_EVENT)
      } else {
        noteString(start, end, layouts.STRING, names.minCharacters(member), names.maxCharacters(member))
      }
    }
    const next = afterMember(end)
    if (next < 0) return ~next
    p = next
  }
}

function context(p: i32): i32 {
  p = space(p + 1)
  while (true) {
    const member = names.contextMember(p + 1)
    const start = colon(string(p))
    const end = value(start, CONTEXT_DEPTH)
    if (member == names.OTHER) note(start, end, layouts.ANY_OF_CONTEXT)
    else if (names.isNumber(member)) note(start, end, layouts.NUMBER)
    else noteString(start, end, layouts.STRING, member == names.OS ? 1 : 0, UNBOUNDED)
    const next = afterMember(end)
    if (next < 0) return ~next
    p = next
  }
}

/** `properties` or `revenue`. */
function keyValues(p: i32): i32 {
  p = space(p + 1)
  if (load<u8>(p) == CLOSE_BRACE) return p + 1
  while (true) {
    const start = colon(string(p))
    const end = value(start, CONTEXT_DEPTH)
    noteString(start, end, layouts.KEY_VALUE, 0, MAX_VALUE_CHARACTERS)
    const next = afterMember(end)
    if (next < 0) return ~next
    p = next
  }
}

function noteString(start: i32, end: i32, kind: i32, least: i32, most: i32): void {
  store<u16>(nextStep, least, layouts.LEAST)
  store<i32>(nextStep, most - least, layouts.RANGE)
  note(start, end, kind)
}

/** Once the layout is full, the place of the last step is written again and again. */
function note(start: i32, end: i32, kind: i32): void {
  store<i32>(nextStep, start + shift, layouts.START)
  store<i32>(nextStep, end + shift, layouts.END)
  store<u16>(nextStep, kind, layouts.KIND)
  if (!isFull()) nextStep += layouts.STEP_BYTES
}

function isFull(): bool {
  return nextStep == layout + layouts.STEPS + layouts.MAX_STEPS * layouts.STEP_BYTES
}
