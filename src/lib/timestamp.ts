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
  if (Number(hour) > 23 || Number(minute) > 59 || Number(second) > 59) return null
  if (Number(offsetHour) > 23 || Number(offsetMinute) > 59) return null
  // Not Date.UTC, which takes the years up to 99 for those of the last century.
  const date = new Date(0)
  date.setUTCFullYear(Number(year), Number(month) - 1, Number(day))
  // A day that its month does not have is one of another month.
  if (date.getUTCMonth() !== Number(month) - 1 || date.getUTCDate() !== Number(day)) return null
  date.setUTCHours(Number(hour), Number(minute), Number(second), Number(fraction.slice(0, 3).padEnd(3, '0')))
  const offsetMinutes = (Number(offsetHour) * 60 + Number(offsetMinute)) * (sign === '-' ? -1 : 1)
  return date.getTime() - offsetMinutes * 60_000
}
