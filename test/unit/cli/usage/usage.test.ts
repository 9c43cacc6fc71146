// What of `sluice usage` no transcript shows, and what it takes from the running service's answer.

import { describe, expect, test } from 'vitest'
import { listIn } from '../../../../src/cli/admin-api.ts'
import { formatApp, formatReport, seenIn } from '../../../../src/cli/usage/usage.ts'
import { NOT_SEEN, type Seen } from '../../../../src/inspect/usage-report.ts'
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
const seen: Seen = {
  last_hour: { accepted_events: 1234, refused: { validation_failed: 3, rate_limit_exceeded: 1200 } },
  events_per_second: 2.5,
  stored_bytes: { last_hour: 5, today: 30, highest_minute_today: 2 },
}

describe('what is printed', () => {
  test('of one app has a dash for what is not known, one event, and no tolerance on a trial', () => {
    const hour = (accepted: number): Seen => ({ ...seen, last_hour: { accepted_events: accepted, refused: {} } })
    expect(formatApp({ app, usage }, () => hour(0))).toContain('refused in the last hour   0\n')
    expect(formatApp({ app, usage }, () => NOT_SEEN)).toContain('refused in the last hour   –\n')
    expect(formatApp({ app, usage }, () => hour(1))).toContain('  1 event\n')
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
        { app_id: 'demo', ...seen },
        { app_id: 'unknown', last_hour: null },
        { app_id: 'odd', last_hour: { accepted_events: 'many' } },
        { app_id: 'wrong', last_hour: { accepted_events: 1, refused: { validation_failed: 'x' } } },
        { app_id: 'hostile', last_hour: { accepted_events: 1, refused: { '\u001b[31m': 5 } } },
        null,
        7,
      ],
    })
    expect([...seenIn(listIn(text, 'apps'))]).toEqual([
      ['demo', seen],
      ['unknown', NOT_SEEN],
      ['odd', NOT_SEEN],
      ['wrong', NOT_SEEN],
      ['hostile', { ...NOT_SEEN, last_hour: { accepted_events: 1, refused: { '\u001b[31m': 5 } } }],
    ])
  })

  test('has no code that the terminal obeys', () => {
    const hostile = { ...NOT_SEEN, last_hour: { accepted_events: 1, refused: { '\u001b[31m': 5 } } }
    expect(formatApp({ app, usage }, () => hostile)).not.toContain('\u001b')
    expect(formatReport({ apps: [{ app, usage }], totalApps: 1, readAtMs: NOW }, () => hostile)).not.toContain('\u001b')
  })

  test('that is something else is a clear error', () => {
    for (const text of ['', '<html>', 'null', '{"apps":{}}', '[]']) {
      expect(() => listIn(text, 'apps'), text).toThrow(/what the service/)
    }
  })
})
