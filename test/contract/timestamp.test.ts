// Timestamps: which forms are read, and the range they must lie in. The service runs in a far time zone: only UTC counts.

import { test as base, describe, expect } from 'vitest'
import { expectAccepted, expectRefused, MARK, type Members, post, single } from '../support/client.ts'
import { aService } from '../support/fixture.ts'
import { appRecord } from '../support/service.ts'

const test = base.extend(
  'service',
  { scope: 'file' },
  aService({ apps: [appRecord('plain', { events_per_minute: 1_000_000 })], env: { TZ: 'Asia/Tokyo' } }),
)

function fits(claim: string, body: () => string, count = 1): void {
  test(claim, async ({ service }) => {
    expectAccepted(await post(service, body()), count)
  })
}

/** `path` is what the message begins with, before its colon. */
function refused(claim: string, path: string, body: () => string): void {
  test(claim, async ({ service }) => {
    const answer = await post(service, body())
    expectRefused(answer, 400, 'validation_failed')
    expect(String(answer.json['message']).split(': ')[0]).toBe(path)
  })
}

const one =
  (changes: Members): (() => string) =>
  () =>
    single('ak_plain', changes)

describe('timestamp', () => {
  const HOUR = 3_600_000
  const iso = (offsetMs: number): string => new Date(Date.now() + offsetMs).toISOString()
  const at = (make: () => string): (() => string) => {
    return () => single('ak_plain', { timestamp: make() })
  }
  const path = 'events[0].timestamp'
  fits(
    'just inside 72 hours ago fits',
    at(() => iso(-72 * HOUR + 10_000)),
  )
  refused(
    'just outside 72 hours ago is refused',
    path,
    at(() => iso(-72 * HOUR - 10_000)),
  )
  fits(
    'an hour ahead fits',
    at(() => iso(HOUR)),
  )
  refused(
    'just over an hour ahead is refused',
    path,
    at(() => iso(HOUR + 10_000)),
  )
  fits(
    'no zone is UTC, whatever the zone of the server',
    at(() => iso(HOUR - 60_000).slice(0, -1)),
  )
  fits(
    'no zone is UTC in the past too',
    at(() => iso(-72 * HOUR + 60_000).slice(0, -1)),
  )
  refused(
    'no zone is UTC: too far ahead',
    path,
    at(() => iso(HOUR + 60_000).slice(0, -1)),
  )
  refused(
    'no zone is UTC: too long ago',
    path,
    at(() => iso(-72 * HOUR - 60_000).slice(0, -1)),
  )
  fits(
    'seconds may be left out',
    at(() => `${iso(0).slice(0, 16)}Z`),
  )
  fits(
    'seconds and zone may be left out',
    at(() => iso(0).slice(0, 16)),
  )
  for (const digits of ['5', '55', '123', '123456', '123456789', '123456789012']) {
    fits(
      `a fraction of ${digits.length} digits fits`,
      at(() => `${iso(0).slice(0, 19)}.${digits}Z`),
    )
  }

  const zoned = (minutes: number, zone: string, aheadMs = 0): string =>
    iso(minutes * 60_000 + aheadMs).slice(0, 19) + zone
  fits(
    'an offset is taken off',
    at(() => zoned(540, '+09:00', HOUR - 60_000)),
  )
  refused(
    'an offset is taken off: too far ahead',
    path,
    at(() => zoned(540, '+09:00', HOUR + 60_000)),
  )
  fits(
    'a negative offset is added',
    at(() => zoned(-330, '-05:30', HOUR - 60_000)),
  )
  refused(
    'a negative offset is added: too far ahead',
    path,
    at(() => zoned(-330, '-05:30', HOUR + 60_000)),
  )
  fits(
    'an offset without colon fits',
    at(() => zoned(120, '+0200')),
  )
  fits(
    'an offset of nothing fits',
    at(() => zoned(0, '+00:00')),
  )

  const yesterday = (time: string): (() => string) => at(() => iso(-24 * HOUR).slice(0, 11) + time)
  const bad: Record<string, () => string> = {
    'a date alone': at(() => iso(0).slice(0, 10)),
    'an hour alone': at(() => iso(0).slice(0, 13)),
    'a space for the T': at(() => iso(0).replace('T', ' ')),
    'a small t': at(() => iso(0).replace('T', 't')),
    'a small z': at(() => iso(0).replace('Z', 'z')),
    'basic format': at(() => iso(0).replaceAll(/[-:]/g, '')),
    'a comma for the point': at(() => iso(0).replace('.', ',')),
    'a point without digits': at(() => `${iso(0).slice(0, 19)}.Z`),
    'an offset of hours alone': at(() => zoned(120, '+02')),
    'an offset of too many hours': yesterday('12:00:00+25:00'),
    'an offset of too many minutes': yesterday('12:00:00+02:60'),
    'two zones': at(() => `${iso(0)}Z`),
    'space before': at(() => ` ${iso(0)}`),
    'space after': at(() => `${iso(0)} `),
    'hour 25': yesterday('25:00:00Z'),
    'minute 60': yesterday('12:60:00Z'),
    'second 61': yesterday('12:00:61Z'),
    'one digit': yesterday('1:00:00Z'),
    'the 30th of February': at(() => `${new Date().getUTCFullYear()}-02-30T12:00:00Z`),
    'month 13': at(() => `${new Date().getUTCFullYear()}-13-01T12:00:00Z`),
    'day 0': at(() => `${iso(0).slice(0, 8)}00T12:00:00Z`),
    'a Unix time': at(() => String(Date.now())),
    words: at(() => `now ${MARK}`),
    nothing: at(() => ''),
  }
  for (const [claim, body] of Object.entries(bad)) refused(`${claim} is refused`, path, body)
  refused('a number is refused', path, one({ timestamp: Date.now() }))
  refused('null is refused', path, one({ timestamp: null }))
})
