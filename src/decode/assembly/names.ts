// Recognizes member names in place, comparing eight bytes at a time. The closing quote is part of each comparison, so
// that a longer name does not match.
//
// A member is encoded in one number: its bit in the set of seen members (5 bits), the bytes of its name (5), and the
// minimum (6) and maximum characters of its string.

import { escapes } from './text'
import { nowhere, string } from './walker'

export const TYPE: i32 = 0 | (4 << 5)
export const NAME: i32 = 1 | (4 << 5) | (1 << 10) | (200 << 16)
export const DAILY_ID: i32 = 2 | (15 << 5) | (16 << 10) | (128 << 16)
export const MONTHLY_ID: i32 = 3 | (17 << 5) | (16 << 10) | (128 << 16)
export const RETENTION_ID: i32 = 4 | (19 << 5) | (16 << 10) | (128 << 16)
export const SESSION_ID: i32 = 5 | (10 << 5) | (1 << 10) | (128 << 16)
export const TIMESTAMP: i32 = 6 | (9 << 5)
export const CONTEXT: i32 = 7 | (7 << 5)
export const PROPERTIES: i32 = 8 | (10 << 5)
export const USER_ID: i32 = 9 | (7 << 5) | (1 << 10) | (256 << 16)
export const REVENUE: i32 = 10 | (7 << 5)

// Members of a context.
export const OS: i32 = 0 | (2 << 5)
export const OS_VERSION: i32 = 1 | (10 << 5)
export const APP_VERSION: i32 = 2 | (11 << 5)
export const LOCALE: i32 = 3 | (6 << 5)
export const DEVICE_TYPE: i32 = 4 | (11 << 5)
export const SCREEN_WIDTH: i32 = 5 | (12 << 5)
export const SCREEN_HEIGHT: i32 = 6 | (13 << 5)

// Members of the body.
export const APP_KEY: i32 = 0 | (7 << 5)
export const SDK_VERSION: i32 = 1 | (11 << 5)
export const EVENTS: i32 = 2 | (6 << 5)

/** A name that is not in the schema. */
export const OTHER: i32 = -1

/** The position after the closing quote of the last name that is not in the schema. */
export let otherEnd: i32 = 0

/**
 * Skips a name that is not in the schema; `p` is after its opening quote. A name with escapes fails, since it could be
 * a known name written differently. As a call rather than a selected value, it does not delay the path of known names.
 */
function other(p: i32): i32 {
  const before = escapes
  const end = string(p - 1)
  otherEnd = escapes == before ? end : nowhere
  return OTHER
}

export function bit(member: i32): i32 {
  return 1 << (member & 31)
}

export function nameBytes(member: i32): i32 {
  return (member >> 5) & 31
}

export function minCharacters(member: i32): i32 {
  return (member >> 10) & 63
}

export function maxCharacters(member: i32): i32 {
  return member >> 16
}

/** Whether a member of a context is a number. The others are strings. */
export function isNumber(member: i32): bool {
  return member == SCREEN_WIDTH || member == SCREEN_HEIGHT
}

const SEVEN_BYTES: u64 = 0x00ffffffffffffff
const SIX_BYTES: u64 = 0x0000ffffffffffff
const FIVE_BYTES: u64 = 0x000000ffffffffff
const THREE_BYTES: u64 = 0x0000000000ffffff

/** The member of an event whose name begins at `p`, after the opening quote. */
@inline
export function eventMember(p: i32): i32 {
  const first = load<u64>(p)
  switch (<i32>first & 0xff) {
    case 0x74: // t
      if ((first & FIVE_BYTES) == 0x2265707974 /* type" */) return TYPE
      if (first == 0x6d617473656d6974 /* timestam */ && load<u16>(p, 8) == 0x2270 /* p" */) return TIMESTAMP
      break
    case 0x6e: // n
      if ((first & FIVE_BYTES) == 0x22656d616e /* name" */) return NAME
      break
    case 0x68: // h
      return hashMember(p, first)
    case 0x73: // s
      if (first == 0x5f6e6f6973736573 /* session_ */ && load<u32>(p, 7) == 0x2264695f /* _id" */) return SESSION_ID
      break
    case 0x63: // c
      if (first == 0x22747865746e6f63 /* context" */) return CONTEXT
      break
    case 0x70: // p
      if (first == 0x69747265706f7270 /* properti */ && load<u32>(p, 7) == 0x22736569 /* ies" */) return PROPERTIES
      break
    case 0x75: // u
      if (first == 0x2264695f72657375 /* user_id" */) return USER_ID
      break
    case 0x72: // r
      if (first == 0x2265756e65766572 /* revenue" */) return REVENUE
      break
  }
  return other(p)
}

function hashMember(p: i32, first: u64): i32 {
  const second = load<u64>(p, 8)
  if (first == 0x645f646568736168 /* hashed_d */) {
    if (second == 0x2264695f796c6961 /* aily_id" */) return DAILY_ID
  } else if (first == 0x6d5f646568736168 /* hashed_m */) {
    if (second == 0x695f796c68746e6f /* onthly_i */ && load<u16>(p, 16) == 0x2264 /* d" */) return MONTHLY_ID
  } else if (first == 0x725f646568736168 /* hashed_r */) {
    if (second == 0x6e6f69746e657465 /* etention */ && load<u32>(p, 16) == 0x2264695f /* _id" */) return RETENTION_ID
  }
  return other(p)
}

/** The member of a context whose name begins at `p`. */
@inline
export function contextMember(p: i32): i32 {
  const first = load<u64>(p)
  switch (<i32>first & 0xff) {
    case 0x6f: // o
      if ((first & THREE_BYTES) == 0x22736f /* os" */) return OS
      if (first == 0x69737265765f736f /* os_versi */ && load<u32>(p, 7) == 0x226e6f69 /* ion" */) return OS_VERSION
      break
    case 0x61: // a
      if (first == 0x737265765f707061 /* app_vers */ && load<u32>(p, 8) == 0x226e6f69 /* ion" */) return APP_VERSION
      break
    case 0x6c: // l
      if ((first & SEVEN_BYTES) == 0x22656c61636f6c /* locale" */) return LOCALE
      break
    case 0x64: // d
      if (first == 0x745f656369766564 /* device_t */ && load<u32>(p, 8) == 0x22657079 /* ype" */) return DEVICE_TYPE
      break
    case 0x73: // s
      return screenMember(p, first)
  }
  return other(p)
}

function screenMember(p: i32, first: u64): i32 {
  const second = load<u64>(p, 8)
  if (first == 0x775f6e6565726373 /* screen_w */ && (second & FIVE_BYTES) == 0x2268746469 /* idth" */) {
    return SCREEN_WIDTH
  }
  if (first == 0x685f6e6565726373 /* screen_h */ && (second & SIX_BYTES) == 0x227468676965 /* eight" */) {
    return SCREEN_HEIGHT
  }
  return other(p)
}

/** The member of the body whose name begins at `p`. */
export function bodyMember(p: i32): i32 {
  const first = load<u64>(p)
  if (first == 0x2279656b5f707061 /* app_key" */) return APP_KEY
  if ((first & SEVEN_BYTES) == 0x2273746e657665 /* events" */) return EVENTS
  if (first == 0x737265765f6b6473 /* sdk_vers */ && load<u32>(p, 8) == 0x226e6f69 /* ion" */) return SDK_VERSION
  return other(p)
}
