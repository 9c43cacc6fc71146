// Checks a timestamp in place, with integers only: minutes since 1970 and milliseconds of the minute. The events of a
// batch are mostly of one hour, so the last hour is cached with its text.

/** Bytes of YYYY-MM-DDTHH:MM. */
const MINUTE_BYTES: i32 = 16
const QUOTE: i32 = 0x22
const PLUS: i32 = 0x2b
const MINUS: i32 = 0x2d
const DOT: i32 = 0x2e
const COLON: i32 = 0x3a
const UPPER_T: i32 = 0x54
const UPPER_Z: i32 = 0x5a

/** Masks the eight bytes from offset 8 on, of which the first six belong to the hour. */
const HOUR_BYTES: u64 = 0x0000ffffffffffff

// The range of valid timestamps, inclusive.
let firstMinute: i32 = 0
let firstMs: i32 = 0
let lastMinute: i32 = 0
let lastMs: i32 = 0
// The last hour, and its fourteen characters. Zero matches no text.
let cachedMinute: i32 = 0
let cached0: u64 = 0
let cached8: u64 = 0
/** Whether all of that hour is in the range. */
let isCachedInRange: bool = false

export function setRange(fromMinute: i32, fromMs: i32, untilMinute: i32, untilMs: i32): void {
  firstMinute = fromMinute
  firstMs = fromMs
  lastMinute = untilMinute
  lastMs = untilMs
  weighCached()
}

function weighCached(): void {
  isCachedInRange = cachedMinute > firstMinute && cachedMinute + 59 < lastMinute
}

/** Takes the position after the opening quote, returns the one after the closing quote, or `nowhere`. */
@inline
export function timestamp(p: i32, nowhere: i32): i32 {
  return isUsual(p) ? p + 25 : anyTimestamp(p, nowhere)
}

/** Whether YYYY-MM-DDTHH:MM:SS.mmmZ" is at `p`, in the last hour. None of its bytes is NUL, so all are in the body. */
@inline
function isUsual(p: i32): bool {
  if (!isCachedInRange || load<u64>(p) != cached0 || (load<u64>(p, 8) & HOUR_BYTES) != cached8) return false
  // The last sixteen bytes, of which the first five were compared before. The others are each of a range.
  const least = i8x16(0, 0, 0, 0, 0, 0x30, 0x30, 0x3a, 0x30, 0x30, 0x2e, 0x30, 0x30, 0x30, 0x5a, 0x22)
  const range = i8x16(-1, -1, -1, -1, -1, 5, 9, 0, 5, 9, 0, 9, 9, 9, 0, 0)
  return i8x16.all_true(i8x16.le_u(i8x16.sub(v128.load(p, 9), least), range))
}

function anyTimestamp(p: i32, nowhere: i32): i32 {
  // So the reads of the minute lie within the body. Later ones stop at the NUL after it.
  if (p + MINUTE_BYTES > nowhere) return nowhere
  let minute = minuteAt(p)
  if (minute < 0) return nowhere
  p += MINUTE_BYTES
  if (isPlainTail(p)) return isInRange(minute, p + 1) ? p + 9 : nowhere
  const seconds = p + 1
  if (load<u8>(p) == COLON) {
    if (<u32>twoDigits(p + 1) > 59) return nowhere
    p += 3
    if (load<u8>(p) == DOT) {
      p += 1
      if (!isDigit(load<u8>(p))) return nowhere
      do p += 1
      while (isDigit(load<u8>(p)))
    }
  }
  const zone: i32 = load<u8>(p)
  if (zone == UPPER_Z) {
    p += 1
  } else if (zone == PLUS || zone == MINUS) {
    const hours = twoDigits(p + 1)
    if (<u32>hours > 23) return nowhere
    p += load<u8>(p, 3) == COLON ? 4 : 3
    const minutes = twoDigits(p)
    if (<u32>minutes > 59) return nowhere
    minute += (zone == MINUS ? 1 : -1) * (hours * 60 + minutes)
    p += 2
  }
  return load<u8>(p) == QUOTE && isInRange(minute, seconds) ? p + 1 : nowhere
}

/**
 * Whether the usual ending :SS.mmmZ" is at `p`. The difference from :00.000Z must be zero except in the digits. The
 * addition carries into the high bit for a digit above 9, or above 5 for the tens of seconds.
 */
function isPlainTail(p: i32): bool {
  const digits = load<u64>(p) ^ 0x5a3030302e30303a
  return (((digits + 0x7f7676767f767a7f) | digits) & 0x8080808080808080) == 0 && load<u8>(p, 8) == QUOTE
}

/** `seconds`: the position of the digits of the seconds, if there are any. */
function isInRange(minute: i32, seconds: i32): bool {
  if (minute > firstMinute && minute < lastMinute) return true
  if (minute < firstMinute || minute > lastMinute) return false
  const ms = millisecondsAt(seconds)
  return (minute > firstMinute || ms >= firstMs) && (minute < lastMinute || ms <= lastMs)
}

/** Milliseconds of the minute, truncated. The form was checked before. */
function millisecondsAt(p: i32): i32 {
  if (load<u8>(p - 1) != COLON) return 0
  let ms = twoDigits(p) * 1000
  if (load<u8>(p, 2) != DOT) return ms
  p += 3
  for (let unit = 100; unit > 0 && isDigit(load<u8>(p)); unit /= 10) {
    ms += (load<u8>(p) - 0x30) * unit
    p += 1
  }
  return ms
}

/** The sixteen bytes from `p` as minutes since 1970, or -1. */
function minuteAt(p: i32): i32 {
  const minute = twoDigits(p + 14)
  if (<u32>minute > 59) return -1
  const word0 = load<u64>(p)
  const word8 = load<u64>(p, 8) & HOUR_BYTES
  if (word0 == cached0 && word8 == cached8) return cachedMinute + minute
  const hour = hourAt(p)
  if (hour < 0) return -1
  cachedMinute = hour * 60
  cached0 = word0
  cached8 = word8
  weighCached()
  return cachedMinute + minute
}

/** The fourteen bytes from `p`, the last of them a colon, as hours since 1970, or -1. */
function hourAt(p: i32): i32 {
  const century = twoDigits(p)
  const yearOfCentury = twoDigits(p + 2)
  const month = twoDigits(p + 5)
  const day = twoDigits(p + 8)
  const hour = twoDigits(p + 11)
  if ((century | yearOfCentury | month | day | hour) < 0) return -1
  if (load<u8>(p, 4) != MINUS || load<u8>(p, 7) != MINUS) return -1
  if (load<u8>(p, 10) != UPPER_T || load<u8>(p, 13) != COLON) return -1
  const year = century * 100 + yearOfCentury
  // Years whose minutes since 1970 fit into 32 bits. The validator handles the others.
  if (year < 1970 || year > 5999) return -1
  if (hour > 23 || month < 1 || month > 12 || day < 1 || day > daysInMonth(year, month)) return -1
  return daysSinceEpoch(year, month, day) * 24 + hour
}

function daysInMonth(year: i32, month: i32): i32 {
  if (month == 2) return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 29 : 28
  return month == 4 || month == 6 || month == 9 || month == 11 ? 30 : 31
}

function daysSinceEpoch(year: i32, month: i32, day: i32): i32 {
  // Years begin in March here, so that the leap day is the last day and one formula gives the day of the year.
  const fromMarch = month > 2 ? month - 3 : month + 9
  const marchYear = month > 2 ? year : year - 1
  const leapDays = marchYear / 4 - marchYear / 100 + marchYear / 400
  return marchYear * 365 + leapDays + (153 * fromMarch + 2) / 5 + day - 1 - 719468
}

/** Two digits as a number, or -1. */
function twoDigits(p: i32): i32 {
  const tens: u32 = load<u8>(p) - 0x30
  const units: u32 = load<u8>(p, 1) - 0x30
  return tens < 10 && units < 10 ? tens * 10 + units : -1
}

function isDigit(byte: u32): bool {
  return byte - 0x30 < 10
}
