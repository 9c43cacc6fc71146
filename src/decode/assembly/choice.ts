// Chooses the layout that an event is compared with, and the events that are worth learning. Both cost time, and are of
// no use where no two events are alike, so what fails is tried less.
//
//   area       the instance's own, beside the bodies (src/ring/memory.ts): directory, layouts
//   directory  eight sets of the keys of four layouts, then the scores of the same layouts
//
// A key is made of the bytes of an event where most SDKs write its type and name.

import { follow, LAYOUT_BYTES, TIMESTAMP_START } from './layouts'
import { nowhere } from './walker'

const FACTOR: u64 = 0x9e3779b185ebca87
const SET_BITS: u64 = 3
const SET_BYTES: i32 = 16
/** From the place of a key to that of its layout's score. */
const SCORES: i32 = 128
const DIRECTORY_BYTES: i32 = 8192

// A layout is compared with events of its key while its score is positive. An event that follows it adds 1, and one that
// does not takes off 2.
const FIRST_SCORE: i32 = 2
const MAX_SCORE: i32 = 8

// Learning is paid from savings: it takes as long as following saves on some sixteen events. An event without a layout adds a
// little, so that new layouts are learnt in the end, whatever came before.
const PRICE: i32 = 64
const MAX_SAVINGS: i32 = 32 * PRICE
const SAVED_BY_FOLLOWING: i32 = 4

// Where the key is unknown, the last layout is tried: the bytes of the key may be those of an id, which never repeat.
// Each success adds to its luck, and each failure takes some; without luck it is not tried for a while.
const MAX_LUCK: i32 = 8
const FIRST_LUCK: i32 = 2
const BAD_LUCK: i32 = -64

/** 0 where the instance has none, and takes every event apart the ordinary way. */
let area: i32 = 0
/** The last layout that was learnt or followed. */
let last: i32 = 0
let savings: i32 = MAX_SAVINGS
let luck: i32 = FIRST_LUCK
/** Bytes that tell the body's app from others; 0 while its key is not known. */
let app: u64 = 0

export function setApp(bytes: u64): void {
  app = bytes
}

/** Gives the module memory of its own, all of it zero, and as large as src/ring/memory.ts says. */
export function useArea(address: i32): void {
  area = address
  last = layoutAt(address)
}

@inline
function hashOf(p: i32): u64 {
  const name = (load<u64>(p, 24) ^ rotl<u64>(load<u64>(p, 32), 29)) * FACTOR
  return (load<u64>(p, 8) ^ rotl<u64>(name, 23)) * FACTOR
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

/** All apps share the layout of a key until too many events do not follow it. Then each has its own, and spoils it for none. */
@inline
function ofApp(hash: u64): u64 {
  return (hash ^ app) * FACTOR
}

/** The position after the event at `p` if it follows a layout that is known, otherwise `nowhere`. */
export function followAny(p: i32): i32 {
  if (area == 0) return nowhere
  const hash = hashOf(p)
  const place = find(setOf(hash), keyOf(hash))
  const end = place < 0 ? followLast(p) : followAt(place, hash, p)
  savings = min(savings + (end == nowhere ? 1 : SAVED_BY_FOLLOWING), MAX_SAVINGS)
  return end
}

@inline
function followAt(place: i32, hash: u64, p: i32): i32 {
  let score = load<i32>(place, SCORES)
  if (score <= 0) {
    place = find(setOf(ofApp(hash)), keyOf(ofApp(hash)))
    score = place < 0 ? 0 : load<i32>(place, SCORES)
    if (score <= 0) return nowhere
  }
  const layout = layoutAt(place)
  const end = follow(p, layout)
  if (end == nowhere) {
    store<i32>(place, score - 2, SCORES)
    return nowhere
  }
  if (score < MAX_SCORE) store<i32>(place, score + 1, SCORES)
  last = layout
  return end
}

function followLast(p: i32): i32 {
  if (luck <= 0) {
    luck = luck == 0 ? FIRST_LUCK : luck + 1
    return nowhere
  }
  const end = follow(p, last)
  if (end != nowhere) luck = min(luck + 1, MAX_LUCK)
  else luck = luck > 1 ? luck - 1 : BAD_LUCK
  return end
}

/** Whether an event without a layout may be learnt. */
export function mayLearn(): bool {
  return area != 0 && savings >= PRICE
}

/** An empty layout for the event at `p`: that of its key, or in its set the one of the lowest score. */
export function emptyLayout(p: i32): i32 {
  savings -= PRICE
  let hash = hashOf(p)
  let place = find(setOf(hash), keyOf(hash))
  if (place >= 0 && load<i32>(place, SCORES) <= 0) {
    hash = ofApp(hash)
    place = find(setOf(hash), keyOf(hash))
  }
  if (place < 0) place = lowest(setOf(hash))
  store<i32>(place, keyOf(hash))
  store<i32>(place, FIRST_SCORE, SCORES)
  last = layoutAt(place)
  store<i32>(last, 0, TIMESTAMP_START)
  return last
}

/**
 * The place of the lowest score. Where even that was followed since it was learnt, all scores fall, so that layouts which are
 * no longer followed are replaced first. Ever-new layouts, which never are followed, replace one another.
 */
function lowest(set: i32): i32 {
  let place = set
  for (let other = set + 4; other < set + SET_BYTES; other += 4) {
    if (load<i32>(other, SCORES) < load<i32>(place, SCORES)) place = other
  }
  if (load<i32>(place, SCORES) > FIRST_SCORE) {
    for (let other = set; other < set + SET_BYTES; other += 4) store<i32>(other, load<i32>(other, SCORES) - 1, SCORES)
  }
  return place
}
