// Chooses the layout that an event is compared with, and the events that are worth learning. Both cost time, and are of
// no use where no two events are alike, so what fails is tried less.
//
//   area       the instance's own, beside the bodies (src/ring/memory.ts): directory, layouts
//   directory  eight sets of the keys of four layouts, then of the same layouts the scores, uses and last bodies, then of each
//              set the place that was filled last, and how often the layout there was replaced for want of one less used,
//              and last a byte for each of 2,048 groups of keys: whether apps differ in the layout of one of them
//
// A key is made of an event's first two names, and of its own name where that is one of the first two members.

import { follow, LAYOUT_BYTES, TIMESTAMP_START } from './layouts'
import { plainEnd } from './text'
import { nowhere } from './walker'

const NAME: u32 = 0x656d616e // name
const COMMA_NAME: u64 = 0x22656d616e222c22 // ","name"
const FACTOR: u64 = 0x9e3779b185ebca87
const SET_BITS: u64 = 3
const SET_BYTES: i32 = 16
// From the place of a key to what else is known of its layout.
const SCORES: i32 = 128
const USES: i32 = 256
const BODIES: i32 = 384
// From the first place of a set.
const NEWEST: i32 = 512
const CROWDED: i32 = 516
/** From the start of the area. */
const DIFFERS: i32 = 1024
const DIFFERS_MASK: i32 = 2047
const DIRECTORY_BYTES: i32 = 8192

// A layout is compared with events of its key while its score is positive. An event that follows it adds 1, and one that
// does not takes off 2. Where none is left, apps differ in it.
const FIRST_SCORE: i32 = 2
const MAX_SCORE: i32 = 8

// A use is a body with an event that followed. Layouts of many uses are kept, and those of one body replace one another.
const MANY_USES: i32 = 2
const MAX_USES: i32 = 8
/** After so many new layouts in a set in which all have many uses, the uses fall. Where layouts are in use they have risen again by then. */
const CROWDED_UNTIL_FALL: i32 = 64

// Learning is paid from savings: it takes as long as following saves on some sixteen events. An event without a layout adds a
// little, so that new layouts are learnt in the end, whatever came before.
const PRICE: i32 = 64
const MAX_SAVINGS: i32 = 32 * PRICE
const SAVED_BY_FOLLOWING: i32 = 4

/** 0 where the instance has none, and takes every event apart the ordinary way. */
let area: i32 = 0
/** The last hash that was looked up for this app, and the place that it has. */
let lastHash: u64 = 0
let lastPlace: i32 = -1
let savings: i32 = MAX_SAVINGS
/** Bytes that tell the body's app from others; 0 while its key is not known. */
let app: u64 = 0
/** Tells the body from others. */
let body: i32 = 0
let learnt: i32 = 0

export function beginBody(): void {
  body += 1
  setApp(0)
}

export function setApp(bytes: u64): void {
  app = bytes
  lastHash = 0
}

/** Gives the module memory of its own, all of it zero, and as large as src/ring/memory.ts says. */
export function useArea(address: i32): void {
  area = address
}

/**
 * Of the first two names and the event's own: not of ids and times, which hardly repeat. The first value is taken for a
 * string. Where it is an object, the bytes are those around the name of its first member.
 */
@inline
function hashOf(p: i32): u64 {
  // The quotes of the first name and of its value.
  const first = quotes(p + 1)
  const second = first & (first - 1)
  const third = second & (second - 1)
  const fourth = third & (third - 1)
  const after = fourth != 0 ? min(p + 1 + <i32>ctz(fourth), nowhere) : longValueEnd(p)
  const isFirst = load<u32>(p, 2) == NAME
  const next = load<u64>(after)
  const name = isFirst ? p + 9 : next == COMMA_NAME ? after + 10 : after + 5
  const more = isFirst || next == COMMA_NAME ? load<u64>(name, 8) : 0
  const names = (next ^ rotl<u64>((load<u64>(name) ^ rotl<u64>(more * FACTOR, 29)) * FACTOR, 29)) * FACTOR
  return (load<u64>(p, 4) ^ rotl<u64>(names, 23)) * FACTOR
}

function longValueEnd(p: i32): i32 {
  return plainEnd(plainEnd(p + 2) + 3)
}

/** The bits of the quotes among 64 bytes. */
@inline
function quotes(p: i32): u64 {
  return quotesOf(p) | (quotesOf(p + 16) << 16) | (quotesOf(p + 32) << 32) | (quotesOf(p + 48) << 48)
}

@inline
function quotesOf(p: i32): u64 {
  return <u64>i8x16.bitmask(i8x16.eq(v128.load(p), i8x16.splat(0x22)))
}

@inline
function setOf(hash: u64): i32 {
  return area + <i32>(hash >> (64 - SET_BITS)) * SET_BYTES
}

/** Never 0, which is the key of no layout. */
@inline
function keyOf(hash: u64): i32 {
  return <i32>hash | 1
}

/** The place of a key in its set, or -1. */
@inline
function find(set: i32, key: i32): i32 {
  const equal = i32x4.bitmask(i32x4.eq(v128.load(set), i32x4.splat(key)))
  return equal != 0 ? set + (ctz(equal) << 2) : -1
}

/** `place`: of its key. */
@inline
function layoutAt(place: i32): i32 {
  return area + DIRECTORY_BYTES + ((place - area) >> 2) * LAYOUT_BYTES
}

/**
 * All apps share the layout of a key until too many events do not follow it. Then each has its own, by a hash of its own, and
 * spoils it for none.
 */
@inline
function forApp(hash: u64): u64 {
  return load<u8>(differs(hash), DIFFERS) == 0 ? hash : (hash ^ app) * FACTOR
}

/** DIFFERS from here is the byte of a key. */
@inline
function differs(hash: u64): i32 {
  return area + (<i32>(hash >> 32) & DIFFERS_MASK)
}

@inline
function noteUse(place: i32): void {
  if (load<i32>(place, BODIES) == body) return
  store<i32>(place, body, BODIES)
  store<i32>(place, min(load<i32>(place, USES) + 1, MAX_USES), USES)
}

/** The position after the event at `p` if it follows a layout that is known, otherwise `nowhere`. */
export function followAny(p: i32): i32 {
  if (area == 0) return nowhere
  const hash = hashOf(p)
  // A branch, so that comparing need not wait for the hash.
  let place = lastPlace
  if (hash != lastHash) {
    const own = forApp(hash)
    place = find(setOf(own), keyOf(own))
    lastHash = hash
    lastPlace = place
  }
  const end = place < 0 ? nowhere : followAt(place, p)
  savings = min(savings + (end == nowhere ? 1 : SAVED_BY_FOLLOWING), MAX_SAVINGS)
  return end
}

@inline
function followAt(place: i32, p: i32): i32 {
  const score = load<i32>(place, SCORES)
  if (score <= 0) return nowhere
  const end = follow(p, layoutAt(place))
  if (end == nowhere) {
    store<i32>(place, score - 2, SCORES)
    if (score <= 2) {
      store<i32>(place, 0, USES)
      store<u8>(differs(lastHash), 1, DIFFERS)
      lastHash = 0
    }
    return nowhere
  }
  if (score < MAX_SCORE) store<i32>(place, score + 1, SCORES)
  noteUse(place)
  return end
}

/** Whether an event without a layout may be learnt. */
export function mayLearn(): bool {
  return area != 0 && savings >= PRICE
}

/** An empty layout for the event at `p`: that of its key, or in its set the one that is least needed. */
export function emptyLayout(p: i32): i32 {
  savings -= PRICE
  lastHash = 0
  // Where apps still differ, that is soon found out again.
  learnt += 1
  store<u8>(area + (learnt & DIFFERS_MASK), 0, DIFFERS)
  const hash = forApp(hashOf(p))
  let place = find(setOf(hash), keyOf(hash))
  if (place < 0) {
    place = leastNeeded(setOf(hash))
    store<i32>(place, keyOf(hash))
    store<i32>(place, 0, USES)
    store<i32>(place, body, BODIES)
  }
  store<i32>(place, FIRST_SCORE, SCORES)
  const layout = layoutAt(place)
  store<i32>(layout, 0, TIMESTAMP_START)
  return layout
}

/**
 * The place of the least used layout, of several the one that was filled first. Where all are used much, the one that was
 * filled last: new layouts then replace one another until an older one is hardly used any more.
 */
function leastNeeded(set: i32): i32 {
  const newest = load<i32>(set, NEWEST)
  let place = set + newest
  for (let after = SET_BYTES - 4; after > 0; after -= 4) {
    const other = set + ((newest + after) & (SET_BYTES - 1))
    if (load<i32>(other, USES) <= load<i32>(place, USES)) place = other
  }
  if (load<i32>(place, USES) >= MANY_USES) {
    place = set + newest
    const crowded = load<i32>(set, CROWDED) + 1
    store<i32>(set, crowded, CROWDED)
    if (crowded % CROWDED_UNTIL_FALL == 0) {
      for (let other = set; other < set + SET_BYTES; other += 4) store<i32>(other, load<i32>(other, USES) - 1, USES)
    }
  }
  store<i32>(set, place - set, NEWEST)
  return place
}
