// ISO 8601 text to Unix time.

const TIMESTAMP = /^(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d)(?::(\d\d)(?:\.(\d+))?)?(?:(Z)|([+-])(\d\d):?(\d\d))?$/

/**
 * Unix ms, a finer fraction cut off; null where the text is not a date and time. A text without a zone is UTC, or is
 * refused with `needsZone`.
 */
export function parseTimestamp(text: string, { needsZone = false } = {}): number | null {
  const match = TIMESTAMP.exec(text)
  // "$" stands for the very end here (no m flag), so that a line feed after the text does not pass.
  if (match === null) return null
  const [
    ,
    year,
    month,
    day,
    hour,
    minute,
    second = '0',
    fraction = '',
    zulu,
    sign,
    offsetHour = '0',
    offsetMinute = '0',
  ] = match
  if (needsZone && zulu === undefined && sign === undefined) return null
  if (!isDate(Number(year), Number(month), Number(day))) return null
  if (Number(hour) > 23 || Number(minute) > 59 || Number(second) > 59) return null
  if (Number(offsetHour) > 23 || Number(offsetMinute) > 59) return null
  const minutes = Number(hour) * 60 + Number(minute)
  const offsetMinutes = (Number(offsetHour) * 60 + Number(offsetMinute)) * (sign === '-' ? -1 : 1)
  const ms = Number(second) * 1000 + Number(fraction.slice(0, 3).padEnd(3, '0'))
  return (daysSinceEpoch(Number(year), Number(month), Number(day)) * 1440 + minutes - offsetMinutes) * 60_000 + ms
}

function isDate(year: number, month: number, day: number): boolean {
  return month >= 1 && month <= 12 && day >= 1 && day <= daysInMonth(year, month)
}

function daysInMonth(year: number, month: number): number {
  if (month === 2) return isLeapYear(year) ? 29 : 28
  return month === 4 || month === 6 || month === 9 || month === 11 ? 30 : 31
}

function isLeapYear(year: number): boolean {
  return year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0)
}

/** Days from 1970-01-01 to a date of the Gregorian calendar, for years from 0 on. */
function daysSinceEpoch(year: number, month: number, day: number): number {
  // Years are counted from March, so that the leap day comes last and a year's days follow one formula.
  const fromMarch = month > 2 ? month - 3 : month + 9
  const marchYear = month > 2 ? year : year - 1
  const leapDays = Math.floor(marchYear / 4) - Math.floor(marchYear / 100) + Math.floor(marchYear / 400)
  const dayOfYear = Math.floor((153 * fromMarch + 2) / 5) + day - 1
  return marchYear * 365 + leapDays + dayOfYear - 719_468
}
