// Checks a timestamp where it lies, in whole numbers only: minutes since 1970 and milliseconds of the minute.
// The events of a batch are mostly of one minute, so the last one read is kept with its text.

import { daysSinceEpoch, FUTURE_LIMIT_MS, isDate, PAST_LIMIT_MS } from './timestamp.ts'

/** Bytes of YYYY-MM-DDTHH:MM. */
const MINUTE_BYTES = 16
const MINUTE_MS = 60_000
const QUOTE = 0x22
const PLUS = 0x2b
const MINUS = 0x2d
const DOT = 0x2e
const ZERO = 0x30
const COLON = 0x3a
const UPPER_T = 0x54
const UPPER_Z = 0x5a

export class TimestampScanner {
  private readonly view: DataView
  // The range in which events may lie, both ends inside.
  private firstMinute = 0
  private firstMs = 0
  private lastMinute = 0
  private lastMs = 0
  // The last minute read, and its sixteen characters. No text has a word of all ones.
  private cachedMinute = 0
  private cached0 = -1
  private cached4 = -1
  private cached8 = -1
  private cached12 = -1

  constructor(view: DataView) {
    this.view = view
  }

  setNow(nowMs: number): void {
    const first = nowMs - PAST_LIMIT_MS
    const last = nowMs + FUTURE_LIMIT_MS
    this.firstMinute = Math.floor(first / MINUTE_MS)
    this.firstMs = first - this.firstMinute * MINUTE_MS
    this.lastMinute = Math.floor(last / MINUTE_MS)
    this.lastMs = last - this.lastMinute * MINUTE_MS
  }

  /** `p` is after the opening quote, the answer after the closing one; `nowhere`, beyond the body's end, if unsure. */
  scan(p: number, nowhere: number): number {
    const view = this.view
    // Then all reads below lie within the body, and those that follow stop at the NUL.
    if (p + MINUTE_BYTES > nowhere) return nowhere
    let minute = this.minute(p)
    if (minute < 0) return nowhere
    p += MINUTE_BYTES
    let ms = 0
    if (view.getUint8(p) === COLON) {
      const second = twoDigits(view, p + 1)
      if (second < 0 || second > 59) return nowhere
      ms = second * 1000
      p += 3
      if (view.getUint8(p) === DOT) {
        const digits = p + 1
        p = digits
        let unit = 100
        for (let digit = view.getUint8(p) - ZERO; digit >= 0 && digit <= 9; digit = view.getUint8(p) - ZERO) {
          ms += digit * unit
          // 100, 10, 1, and 0 for all that is finer than a millisecond.
          unit = (unit / 10) | 0
          p += 1
        }
        if (p === digits) return nowhere
      }
    }
    const zone = view.getUint8(p)
    if (zone === UPPER_Z) {
      p += 1
    } else if (zone === PLUS || zone === MINUS) {
      const hours = twoDigits(view, p + 1)
      if (hours < 0 || hours > 23) return nowhere
      p += view.getUint8(p + 3) === COLON ? 4 : 3
      const minutes = twoDigits(view, p)
      if (minutes < 0 || minutes > 59) return nowhere
      minute += (zone === MINUS ? 1 : -1) * (hours * 60 + minutes)
      p += 2
    }
    return view.getUint8(p) === QUOTE && this.isInRange(minute, ms) ? p + 1 : nowhere
  }

  private isInRange(minute: number, ms: number): boolean {
    return (
      (minute > this.firstMinute || (minute === this.firstMinute && ms >= this.firstMs)) &&
      (minute < this.lastMinute || (minute === this.lastMinute && ms <= this.lastMs))
    )
  }

  /** The sixteen bytes from `p` as minutes since 1970, or -1. */
  private minute(p: number): number {
    const view = this.view
    const word0 = view.getInt32(p, true)
    const word4 = view.getInt32(p + 4, true)
    const word8 = view.getInt32(p + 8, true)
    const word12 = view.getInt32(p + 12, true)
    if (word12 === this.cached12 && word8 === this.cached8 && word4 === this.cached4 && word0 === this.cached0) {
      return this.cachedMinute
    }
    const minute = readMinute(view, p)
    if (minute >= 0) {
      this.cachedMinute = minute
      this.cached0 = word0
      this.cached4 = word4
      this.cached8 = word8
      this.cached12 = word12
    }
    return minute
  }
}

function readMinute(view: DataView, p: number): number {
  const century = twoDigits(view, p)
  const yearOfCentury = twoDigits(view, p + 2)
  const month = twoDigits(view, p + 5)
  const day = twoDigits(view, p + 8)
  const hour = twoDigits(view, p + 11)
  const minute = twoDigits(view, p + 14)
  if (century < 0 || yearOfCentury < 0 || month < 0 || day < 0 || hour < 0 || minute < 0) return -1
  if (view.getUint8(p + 4) !== MINUS || view.getUint8(p + 7) !== MINUS) return -1
  if (view.getUint8(p + 10) !== UPPER_T || view.getUint8(p + 13) !== COLON) return -1
  const year = century * 100 + yearOfCentury
  // Years in which the minutes since 1970 fit into 32 bits; the validator takes the others.
  if (year < 1970 || year > 5999) return -1
  if (hour > 23 || minute > 59 || !isDate(year, month, day)) return -1
  return daysSinceEpoch(year, month, day) * 1440 + hour * 60 + minute
}

/** Two digits as a number, or -1. */
function twoDigits(view: DataView, p: number): number {
  const tens = view.getUint8(p) - ZERO
  if (tens < 0 || tens > 9) return -1
  const units = view.getUint8(p + 1) - ZERO
  return units < 0 || units > 9 ? -1 : tens * 10 + units
}
