// What `sluice usage` prints, and what it takes from the running service's answer.

import { describe, expect, test } from 'vitest'
import { listIn } from '../../../../src/cli/admin-api.ts'
import { formatApp, formatReport, seenIn } from '../../../../src/cli/usage/usage.ts'
import type { LastHour } from '../../../../src/inspect/usage-report.ts'
import { anApp } from '../../apps/apps.ts'

const NOW = Date.parse('2026-11-20T12:00:30.000Z')
const app = anApp({ eventsPerDay: 20_000 })
const usage = {
  atMs: NOW,
  minute: { limit: 500, used: 12, endsAtMs: Date.parse('2026-11-20T12:01:00Z') },
  day: { limit: 20_000, used: 19_999, endsAtMs: Date.parse('2026-11-21T00:00:00Z') },
  month: { limit: 110_000, used: 77_000, endsAtMs: Date.parse('2026-12-01T00:00:00Z') },
}
const idle = {
  atMs: NOW,
  minute: { limit: 500, used: 0, endsAtMs: 0 },
  day: { limit: null, used: 0, endsAtMs: 0 },
  month: { limit: 110_000, used: 77, endsAtMs: 0 },
}
const lastHour: LastHour = {
  acceptedEvents: 1234,
  eventsPerSecond: 2.5,
  refused: { validation_failed: 3, rate_limit_exceeded: 1200 },
}

const bytes = { lastHour: 5 * 1024 * 1024, today: 30 * 1024 * 1024, highestMinute: 2 * 1024 * 1024 }
const NOT_SEEN = { lastHour: null, bytes: null }
const seen = { lastHour, bytes }

describe('what is printed', () => {
  test('of many apps is a line each, with a dash for what is not known, and the tolerance told', () => {
    const other = anApp({ appId: 'idle' })
    const report = {
      apps: [
        { app, usage },
        { app: other, usage: idle },
      ],
      totalApps: 1234,
      readAtMs: NOW,
    }
    expect(
      formatReport(report, (appId) => (appId === 'demo' ? seen : NOT_SEEN)),
    ).toBe(`app   plan  nearest  minute     day               month                   accepted, 1 h  bytes, 1 h  bytes today  refused, 1 h
demo  100k  99%      12 of 500  19,999 of 20,000  77,000 of 100,000 +10%  1,234          5 MiB       30 MiB       rate_limit_exceeded 1,200, validation_failed 3
idle  100k  0%       0 of 500   0                 77 of 100,000 +10%      –              –           –            –

2 of 1,234 apps, the nearest to a limit first. Read at 2026-11-20T12:00:30.000Z.
+10%: so far may a paid plan go over its month before it is refused.
`)
  })

  test('of one app is a line for each window, with what is left', () => {
    expect(formatApp({ app, usage }, () => seen)).toBe(`demo, plan 100k, active

window  used    limit         left    share  ends
minute  12      500           488     2.4%   2026-11-20T12:01:00.000Z
day     19,999  20,000        1       99%    2026-11-21T00:00:00.000Z
month   77,000  100,000 +10%  33,000  70%    2026-12-01T00:00:00.000Z

accepted in the last hour  1,234 events
refused in the last hour   rate_limit_exceeded 1,200, validation_failed 3
bytes in the last hour     5 MiB
bytes today                30 MiB, up to 2 MiB a minute

+10%: so far may a paid plan go over its month before it is refused.
`)
    expect(
      formatApp({ app, usage }, () => ({ bytes, lastHour: { acceptedEvents: 0, eventsPerSecond: null, refused: {} } })),
    ).toContain('refused in the last hour   0\n')
    expect(formatApp({ app, usage }, () => NOT_SEEN)).toContain('refused in the last hour   –\n')
    expect(
      formatApp({ app, usage }, () => ({ bytes, lastHour: { acceptedEvents: 1, eventsPerSecond: null, refused: {} } })),
    ).toContain('  1 event\n')
    expect(formatApp({ app: anApp({ plan: 'trial' }), usage: idle }, () => NOT_SEEN)).not.toContain('+10%')
  })
})

describe('what nodes have in spools', () => {
  const spooled = { events: 1234, ofGoneNodes: 0 }
  const linesOf = (text: string) => text.split('\n').filter((line) => /spool/.test(line))

  test('is a column of many apps, where one of them has any', () => {
    const apps = [
      { app, usage: { ...usage, spooled } },
      { app: anApp({ appId: 'idle' }), usage: idle },
    ]
    const [head, first, second] = formatReport({ apps, totalApps: 2, readAtMs: NOW }, () => NOT_SEEN).split('\n')
    expect(head).toMatch(/ {2}spooled$/)
    expect([first, second].map((line) => line.split(/ +/).at(-1))).toEqual(['1,234', '0'])
  })

  test('is a line of one app, and says what no window counts', () => {
    const line = 'in spools of nodes         1,234 events, not in the stream yet or not audited'
    expect(linesOf(formatApp({ app, usage: { ...usage, spooled } }, () => NOT_SEEN))).toEqual([line])
    const ofGone = { ...usage, spooled: { events: 1234, ofGoneNodes: 34 } }
    expect(linesOf(formatApp({ app, usage: ofGone }, () => NOT_SEEN))).toEqual([
      `${line}; 34 of nodes that are gone, which count once they are sent (sluice spool drain)`,
    ])
    expect(linesOf(formatApp({ app, usage }, () => NOT_SEEN))).toEqual([])
  })
})

describe('the answer of the service', () => {
  test('gives the last hour of each app that has one', () => {
    const text = JSON.stringify({
      apps: [
        {
          app_id: 'demo',
          events_per_second: 2.5,
          last_hour: { accepted_events: 1234, refused: lastHour.refused },
          stored_bytes: { last_hour: 5, today: 30, highest_minute_today: 2 },
        },
        { app_id: 'unknown', last_hour: null },
        { app_id: 'odd', last_hour: { accepted_events: 'many' } },
        { app_id: 'hostile', last_hour: { accepted_events: 1, refused: { '\u001b[31m': 5, validation_failed: 'x' } } },
        null,
        7,
      ],
    })
    expect([...seenIn(listIn(text, 'apps'))]).toEqual([
      ['demo', { lastHour, bytes: { lastHour: 5, today: 30, highestMinute: 2 } }],
      ['unknown', NOT_SEEN],
      ['odd', NOT_SEEN],
      ['hostile', { lastHour: { acceptedEvents: 1, eventsPerSecond: null, refused: {} }, bytes: null }],
    ])
  })

  test('that is something else is a clear error', () => {
    for (const text of ['', '<html>', 'null', '{"apps":{}}', '[]']) {
      expect(() => listIn(text, 'apps'), text).toThrow(/what the service/)
    }
  })
})
