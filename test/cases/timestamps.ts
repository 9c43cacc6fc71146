// Rows of timestamps: which forms are read, and the range that they must lie in.

import { type Bodies, type Case, says } from './bodies.ts'

const BAD_FORM = 'must be an ISO 8601 date and time'
const BAD_RANGE = 'must lie between 72 hours in the past and 1 hour in the future'
const HOUR_MS = 3_600_000

/** `spareMs`: how far inside or outside of the range the nearest ones lie, since time passes until they are sent. */
export function timestamps({ nowMs, iso, one }: Bodies, spareMs: number): Case[] {
  // Without zone or with an offset.
  const moreMs = spareMs + 50_000
  const day = iso(0).slice(0, 11)
  const yesterday = iso(-24 * HOUR_MS).slice(0, 11)
  const local = (minutes: number, aheadMs: number): string => iso(minutes * 60_000 + aheadMs).slice(0, 19)
  const times = (list: Readonly<Record<string, string>>, said: string): Case[] =>
    Object.entries(list).map(([claim, text]) => [
      `a timestamp ${claim}: ${text}`,
      one({ timestamp: `"${text}"` }),
      said,
    ])
  return [
    ...times(
      {
        'just inside 72 hours ago': iso(-72 * HOUR_MS + spareMs),
        'an hour ahead': iso(HOUR_MS - spareMs),
        'without zone, which is UTC': iso(HOUR_MS - moreMs).slice(0, -1),
        'without zone, in the past': iso(-72 * HOUR_MS + moreMs).slice(0, -1),
        'without seconds': `${iso(0).slice(0, 16)}Z`,
        'without seconds and zone': iso(0).slice(0, 16),
        'with one digit of a second': `${iso(0).slice(0, 19)}.5Z`,
        'with 30 digits of a second': `${iso(0).slice(0, 19)}.123456789012345678901234567890Z`,
        'with an offset': `${local(540, HOUR_MS - moreMs)}+09:00`,
        'with a negative offset': `${local(-330, HOUR_MS - moreMs)}-05:30`,
        'with an offset without colon': `${local(120, 0)}+0200`,
        'with an offset of nothing': `${local(0, 0)}+00:00`,
        'with the largest offset': `${local(1439, 0)}+23:59`,
      },
      'accepted',
    ),
    ...times({ 'with an escape': iso(0).replace('-', '\\u002d') }, 'accepted slowly'),
    ...times(
      {
        'just outside 72 hours ago': iso(-72 * HOUR_MS - spareMs),
        'over an hour ahead': iso(HOUR_MS + spareMs),
        'without zone, too far ahead': iso(HOUR_MS + moreMs).slice(0, -1),
        'without zone, too long ago': iso(-72 * HOUR_MS - moreMs).slice(0, -1),
        'with an offset, too far ahead': `${local(540, HOUR_MS + moreMs)}+09:00`,
        'with a negative offset, too far ahead': `${local(-330, HOUR_MS + moreMs)}-05:30`,
        'of the year 0': '0000-02-29T00:00:00Z',
        'before 1970': '1969-12-31T23:59:59Z',
        'of the year 9999': '9999-12-31T23:59:59Z',
      },
      says('timestamp', BAD_RANGE),
    ),
    ...times(
      {
        'of nothing': '',
        'that is words': 'now',
        'that is a Unix time': String(nowMs),
        'of a date alone': iso(0).slice(0, 10),
        'of an hour alone': iso(0).slice(0, 13),
        'with a space for the T': iso(0).replace('T', ' '),
        'with a small t': iso(0).replace('T', 't'),
        'with a small z': iso(0).replace('Z', 'z'),
        'in basic format': iso(0).replaceAll(/[-:]/g, ''),
        'with slashes': iso(0).replaceAll('-', '/'),
        'with a comma for the point': iso(0).replace('.', ','),
        'with a point and no digits': `${iso(0).slice(0, 19)}.Z`,
        'with a part of a minute': `${iso(0).slice(0, 16)}.5Z`,
        'with two zones': `${iso(0)}Z`,
        'with a space before': ` ${iso(0)}`,
        'with a space after': `${iso(0)} `,
        'with a line feed after': `${iso(0)}\\n`,
        'with a letter in it': `${day}12:0a:00Z`,
        'with a wide digit': `２${iso(0).slice(1)}`,
        'with a year of six digits': `+00${iso(0)}`,
        'with an offset of hours alone': `${local(120, 0)}+02`,
        'with an offset of one digit': `${local(60, 0)}+1:00`,
        'with an offset of three digits': `${local(60, 0)}+01:0`,
        'with an offset of too many hours': `${yesterday}12:00:00+24:00`,
        'with an offset of too many minutes': `${yesterday}12:00:00+01:60`,
        'at 24:00': `${yesterday}24:00:00Z`,
        'at minute 60': `${yesterday}12:60:00Z`,
        'at second 60': `${yesterday}12:00:60Z`,
        'at an hour of one digit': `${yesterday}1:00:00Z`,
        'in month 0': `${iso(0).slice(0, 5)}00-20T12:00:00Z`,
        'in month 13': `${iso(0).slice(0, 5)}13-01T12:00:00Z`,
        'on day 0': `${iso(0).slice(0, 8)}00T12:00:00Z`,
        'on November 31': `${iso(0).slice(0, 5)}11-31T12:00:00Z`,
        'on February 30': `${iso(0).slice(0, 5)}02-30T12:00:00Z`,
      },
      says('timestamp', BAD_FORM),
    ),
    ['a timestamp that is a number', one({ timestamp: '1795176000' }), says('timestamp', 'must be a string')],
    ['a timestamp that is null', one({ timestamp: 'null' }), says('timestamp', 'must be a string')],
  ]
}
