// The fast way through a body: one pass over its bytes that answers yes, with offsets, or "not sure". It builds
// no objects and no strings. What it is not sure of the validator decides, so it may refuse too much, and must
// never accept too much.
//
//   body        {  app_key: plain string   sdk_version: string   events: [ at most 100 events ]   others: value  }
//   event       {  eleven named members, each at most once                                      others: value  }
//   context     {  seven named members, each at most once                                       others: value  }
//   properties  {  at most 50 members of any name, each value at most 500 characters  }         (and revenue)
//   value       string, number, literal, or object or array, down to MAX_DEPTH (walker.ts)
//
// As in the walker, every method takes the position at which its part begins and returns the one after it, or
// `this.nowhere`, beyond the body's end, from where nothing that follows can succeed.

import { isUtf8 } from 'node:buffer'
import { FIELD, MAX_EVENTS, MAX_KEYS, MAX_VALUE_CHARACTERS, SENTINEL_BYTES } from './decoded.ts'
import * as names from './names.ts'
import { countDecoded, countRaw, plainEnd } from './text.ts'
import { TimestampScanner } from './timestamp-scanner.ts'
import { Walker } from './walker.ts'

const QUOTE = 0x22
const COMMA = 0x2c
const BACKSLASH = 0x5c
const OPEN_BRACKET = 0x5b
const CLOSE_BRACKET = 0x5d
const OPEN_BRACE = 0x7b
const CLOSE_BRACE = 0x7d

const TRAC = names.fourBytes('trac')
const ACK_ = names.fourBytes('ack"')
const SCRE = names.fourBytes('scre')
const EEN_ = names.fourBytes('een"')
const REVE = names.fourBytes('reve')
const NUE_ = names.fourBytes('nue"')

/** Least and most characters of an event's members that are strings, by their number. */
const LEAST = Uint16Array.of(0, 1, 16, 16, 16, 1, 0, 0, 0, 1, 0)
const MOST = Uint16Array.of(0, 200, 128, 128, 128, 128, 0, 0, 0, 256, 0)
const REQUIRED_OF_EVENT =
  bit(names.TYPE) |
  bit(names.NAME) |
  bit(names.DAILY_ID) |
  bit(names.MONTHLY_ID) |
  bit(names.SESSION_ID) |
  bit(names.TIMESTAMP) |
  bit(names.CONTEXT)
const REQUIRED_OF_BODY = bit(names.APP_KEY) | bit(names.EVENTS)

// Containers open around the value of a member.
const BODY_DEPTH = 1
const EVENT_DEPTH = 3
const CONTEXT_DEPTH = 4

/** Extra members of the body that are noted; with more the scanner is not sure. */
const MAX_EXTRAS = 64

export class Scanner extends Walker {
  /** Members of the last body that the schema does not name. */
  extraCount = 0
  private readonly bytes: Buffer
  private readonly timestamps: TimestampScanner
  /** Start and end of each extra member. */
  private readonly extraSpans = new Int32Array(2 * MAX_EXTRAS)
  private appKeyStart = 0
  private appKeyEnd = 0
  private sdkVersionStart = 0
  private sdkVersionEnd = 0
  private eventsStart = 0
  private eventsEnd = 0
  private tracks = 0
  private screens = 0
  private revenues = 0

  constructor(memory: ArrayBufferLike) {
    super(new DataView(memory))
    this.bytes = Buffer.from(memory)
    this.timestamps = new TimestampScanner(this.view)
  }

  /** True: the bytes [start, end) fit, and `words` has their numbers. False: not sure. */
  scan(start: number, end: number, nowMs: number, words: Int32Array, at: number): boolean {
    this.nowhere = end + 1
    this.sawLineBreak = false
    this.notes.nonAscii = false
    this.extraCount = 0
    this.sdkVersionStart = start
    this.sdkVersionEnd = start
    this.tracks = 0
    this.screens = 0
    this.revenues = 0
    this.timestamps.setNow(nowMs)
    for (let p = end; p < end + SENTINEL_BYTES; p++) this.view.setUint8(p, 0)
    const open = this.space(start)
    if (this.view.getUint8(open) !== OPEN_BRACE) return false
    if (this.space(this.body(open + 1)) !== end) return false
    if (this.notes.nonAscii && !isUtf8(this.bytes.subarray(start, end))) return false
    words[at + FIELD.appKeyStart] = this.appKeyStart - start
    words[at + FIELD.appKeyEnd] = this.appKeyEnd - start
    words[at + FIELD.sdkVersionStart] = this.sdkVersionStart - start
    words[at + FIELD.sdkVersionEnd] = this.sdkVersionEnd - start
    words[at + FIELD.eventsStart] = this.eventsStart - start
    words[at + FIELD.eventsEnd] = this.eventsEnd - start
    words[at + FIELD.track] = this.tracks
    words[at + FIELD.screen] = this.screens
    words[at + FIELD.revenue] = this.revenues
    return true
  }

  /** The app key of the last body. */
  appKey(): string {
    return this.bytes.toString('latin1', this.appKeyStart, this.appKeyEnd)
  }

  /** The extra members of the last body, as they stand now, joined by commas. */
  extras(): string {
    const members: string[] = []
    for (let index = 0; index < 2 * this.extraCount; index += 2) {
      members.push(this.bytes.toString('utf8', this.extraSpans[index], this.extraSpans[index + 1]))
    }
    return members.join(',')
  }

  private body(p: number): number {
    const view = this.view
    let seen = 0
    p = this.space(p)
    for (;;) {
      if (view.getUint8(p) !== QUOTE) return this.nowhere
      const member = names.bodyMember(view, p + 1)
      if (member === names.UNKNOWN) {
        p = this.extra(p)
      } else {
        const known = 1 << member
        if ((seen & known) !== 0) return this.nowhere
        seen |= known
        p = this.bodyValue(member, this.colon(p + names.BODY_NAME_BYTES[member] + 2))
      }
      const next = this.afterMember(p)
      if (next >= 0) p = next
      else return (seen & REQUIRED_OF_BODY) === REQUIRED_OF_BODY ? ~next : this.nowhere
    }
  }

  private bodyValue(member: number, p: number): number {
    if (member === names.EVENTS) {
      this.eventsStart = p
      return (this.eventsEnd = this.events(p))
    }
    if (this.view.getUint8(p) !== QUOTE) return this.nowhere
    if (member === names.SDK_VERSION) {
      this.sdkVersionStart = p
      return (this.sdkVersionEnd = this.string(p))
    }
    this.appKeyStart = p + 1
    this.appKeyEnd = plainEnd(this.view, p + 1)
    // With an escape in it the app key would not stand in place.
    return this.view.getUint8(this.appKeyEnd) === QUOTE ? this.appKeyEnd + 1 : this.nowhere
  }

  private extra(p: number): number {
    if (this.extraCount === MAX_EXTRAS) return this.nowhere
    const end = this.value(this.colon(this.plainKey(p)), BODY_DEPTH)
    this.extraSpans[2 * this.extraCount] = p
    this.extraSpans[2 * this.extraCount + 1] = end
    this.extraCount += 1
    return end
  }

  private events(p: number): number {
    const view = this.view
    if (view.getUint8(p) !== OPEN_BRACKET) return this.nowhere
    p = this.space(p + 1)
    if (view.getUint8(p) === CLOSE_BRACKET) return p + 1
    for (let count = 1; count <= MAX_EVENTS; count++) {
      if (view.getUint8(p) !== OPEN_BRACE) return this.nowhere
      p = this.space(this.event(p + 1))
      const byte = view.getUint8(p)
      if (byte === CLOSE_BRACKET) return p + 1
      if (byte !== COMMA) return this.nowhere
      p = this.space(p + 1)
    }
    return this.nowhere
  }

  private event(p: number): number {
    const view = this.view
    let seen = 0
    let isRevenue = false
    p = this.space(p)
    for (;;) {
      if (view.getUint8(p) !== QUOTE) return this.nowhere
      const member = names.eventMember(view, p + 1)
      if (member === names.UNKNOWN) {
        p = this.value(this.colon(this.plainKey(p)), EVENT_DEPTH)
      } else {
        const known = 1 << member
        if ((seen & known) !== 0) return this.nowhere
        seen |= known
        p = this.colon(p + names.EVENT_NAME_BYTES[member] + 2)
        if (member === names.TYPE) {
          const revenues = this.revenues
          p = this.type(p)
          isRevenue = this.revenues !== revenues
        } else {
          p = this.eventValue(member, p)
        }
      }
      const next = this.afterMember(p)
      if (next >= 0) {
        p = next
        continue
      }
      if ((seen & REQUIRED_OF_EVENT) !== REQUIRED_OF_EVENT) return this.nowhere
      return isRevenue && (seen & bit(names.REVENUE)) === 0 ? this.nowhere : ~next
    }
  }

  private eventValue(member: number, p: number): number {
    const byte = this.view.getUint8(p)
    if (member === names.CONTEXT) return byte === OPEN_BRACE ? this.context(p + 1) : this.nowhere
    if (member === names.PROPERTIES || member === names.REVENUE) {
      return byte === OPEN_BRACE ? this.keyValues(p + 1) : this.nowhere
    }
    if (byte !== QUOTE) return this.nowhere
    if (member === names.TIMESTAMP) return this.timestamps.scan(p + 1, this.nowhere)
    return this.boundedString(p, LEAST[member], MOST[member])
  }

  private type(p: number): number {
    const view = this.view
    if (view.getUint8(p) !== QUOTE) return this.nowhere
    switch (view.getInt32(p + 1, true)) {
      case TRAC:
        if (view.getInt32(p + 3, true) !== ACK_) return this.nowhere
        this.tracks += 1
        return p + 7
      case SCRE:
        if (view.getInt32(p + 4, true) !== EEN_) return this.nowhere
        this.screens += 1
        return p + 8
      case REVE:
        if (view.getInt32(p + 5, true) !== NUE_) return this.nowhere
        this.revenues += 1
        return p + 9
      default:
        return this.nowhere
    }
  }

  private context(p: number): number {
    const view = this.view
    let seen = 0
    p = this.space(p)
    for (;;) {
      if (view.getUint8(p) !== QUOTE) return this.nowhere
      const member = names.contextMember(view, p + 1)
      if (member === names.UNKNOWN) {
        p = this.value(this.colon(this.plainKey(p)), CONTEXT_DEPTH)
      } else {
        const known = 1 << member
        if ((seen & known) !== 0) return this.nowhere
        seen |= known
        p = this.colon(p + names.CONTEXT_NAME_BYTES[member] + 2)
        if (member === names.SCREEN_WIDTH || member === names.SCREEN_HEIGHT) {
          p = this.number(p)
        } else {
          if (view.getUint8(p) !== QUOTE) return this.nowhere
          // Only `os` has a least length. A string that is not empty has a character, however it is written.
          if (member === names.OS && view.getUint8(p + 1) === QUOTE) return this.nowhere
          p = this.string(p)
        }
      }
      const next = this.afterMember(p)
      if (next >= 0) p = next
      else return (seen & bit(names.OS)) !== 0 ? ~next : this.nowhere
    }
  }

  /** `properties` or `revenue`. */
  private keyValues(p: number): number {
    const view = this.view
    p = this.space(p)
    if (view.getUint8(p) === CLOSE_BRACE) return p + 1
    for (let keys = 1; keys <= MAX_KEYS; keys++) {
      if (view.getUint8(p) !== QUOTE) return this.nowhere
      p = this.colon(this.string(p))
      p =
        view.getUint8(p) === QUOTE
          ? this.boundedString(p, 0, MAX_VALUE_CHARACTERS)
          : this.boundedValue(p, CONTEXT_DEPTH)
      const next = this.afterMember(p)
      if (next < 0) return ~next
      p = next
    }
    return this.nowhere
  }

  private boundedValue(p: number, depth: number): number {
    const end = this.value(p, depth)
    const isLong = end - p > MAX_VALUE_CHARACTERS && countRaw(this.view, p, end) > MAX_VALUE_CHARACTERS
    return isLong ? this.nowhere : end
  }

  private boundedString(p: number, least: number, most: number): number {
    let end = plainEnd(this.view, p + 1)
    let characters = end - p - 1
    if (this.view.getUint8(end) !== QUOTE) {
      end = this.slowString(end) - 1
      characters = end - p - 1
      // An escape or a character beyond ASCII takes at most twelve bytes, so most strings need no counting.
      if (characters > most || characters < 12 * least) characters = countDecoded(this.view, p + 1, end)
    }
    return characters >= least && characters <= most ? end + 1 : this.nowhere
  }

  /** A name that holds no escape, so that it is no other name in disguise. */
  private plainKey(p: number): number {
    const end = this.string(p)
    for (let position = p; position < end; position++) {
      if (this.view.getUint8(position) === BACKSLASH) return this.nowhere
    }
    return end
  }
}

function bit(member: number): number {
  return 1 << member
}
