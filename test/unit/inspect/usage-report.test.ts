// Which apps a report of usage names, in which order, and what of their keys it shows.

import { describe, expect, test } from 'vitest'
import type { App } from '../../../src/apps/app.ts'
import {
  maskedKey,
  NOT_SEEN,
  type ReadUsages,
  usageForApp,
  usageReport,
  usageReportJson,
  usageReportText,
  type WantedUsage,
} from '../../../src/inspect/usage-report.ts'
import { systemTimers } from '../../../src/lib/timers.ts'
import type { Usage } from '../../../src/limits/limiter.ts'
import { anApp } from '../apps/apps.ts'

const NOW = Date.parse('2026-11-20T12:00:30.000Z')
const timers = { nowMs: () => NOW, setImmediate: (task: () => void) => systemTimers.setImmediate(task) }

interface Used {
  readonly minute?: number
  readonly day?: number
  readonly month?: number
}

function usageOf(app: App, { minute = 0, day = 0, month = 0 }: Used = {}): Usage {
  return {
    atMs: NOW,
    minute: { limit: app.eventsPerMinute, used: minute, endsAtMs: Date.parse('2026-11-20T12:01:00Z') },
    day: { limit: app.eventsPerDay, used: day, endsAtMs: Date.parse('2026-11-21T00:00:00Z') },
    month: { limit: app.eventsPerMonth, used: month, endsAtMs: Date.parse('2026-12-01T00:00:00Z') },
  }
}

function reader(used: Readonly<Record<string, Used>>): ReadUsages {
  return (apps) => apps.map((app) => usageOf(app, used[app.appId]))
}

async function idsOf(apps: readonly App[], used: Readonly<Record<string, Used>>, wanted: WantedUsage) {
  const report = await usageReport(apps, reader(used), wanted, timers)
  if (report === 'away') throw new Error(report)
  return report.apps.map(({ app }) => app.appId)
}

describe('a report of usage', () => {
  const named = (appId: string, changes: Partial<App> = {}): App => anApp({ appId, ...changes })
  const apps = [
    named('quiet'),
    named('minute'),
    named('day', { eventsPerDay: 100 }),
    named('month'),
    named('more'),
    named('b'),
    named('a'),
  ]
  const used = {
    minute: { minute: 250, day: 250, month: 250 },
    day: { day: 90, month: 90 },
    month: { day: 5000, month: 77_000 },
    more: { minute: 250, day: 300, month: 300 },
  }

  test('names those first that are nearest to any limit, then those with more events, then by name', async () => {
    expect(await idsOf(apps, used, { top: 20 })).toEqual(['day', 'month', 'more', 'minute', 'a', 'b', 'quiet'])
    expect(await idsOf(apps, used, { top: 2 })).toEqual(['day', 'month'])
  })

  test('is of one app, where one is asked for, or of none where there is no such app', async () => {
    expect(await idsOf(apps, used, { appId: 'more' })).toEqual(['more'])
    expect(await idsOf(apps, used, { appId: 'gone' })).toEqual([])
  })

  test('of 3,000 apps is read in slices of 500, with the event loop free between them', async () => {
    const many = Array.from({ length: 3001 }, (_, at) => named(`app${at}`))
    const slices: number[] = []
    let turns = 0
    let waiting = 0
    const report = await usageReport(
      many,
      (asked) => {
        slices.push(asked.length)
        expect(waiting).toBe(0)
        return asked.map((app) => usageOf(app, { month: Number(app.appId.slice(3)) }))
      },
      { top: 3 },
      {
        nowMs: () => NOW,
        setImmediate: (task) => {
          turns++
          waiting++
          setImmediate(() => {
            waiting--
            task()
          })
        },
      },
    )
    expect(slices).toEqual([500, 500, 500, 500, 500, 500, 1])
    expect(turns).toBe(6)
    expect(report !== 'away' && report.apps.map(({ app }) => app.appId)).toEqual(['app3000', 'app2999', 'app2998'])
    expect(report).toMatchObject({ totalApps: 3001, readAtMs: NOW })
  })

  test('is none while the counters cannot be read', async () => {
    let calls = 0
    const reading: ReadUsages = async (asked) => (++calls === 1 ? asked.map((app) => usageOf(app)) : 'away')
    const many = Array.from({ length: 1200 }, (_, at) => named(`app${at}`))
    expect(await usageReport(many, reading, { top: 5 }, timers)).toBe('away')
    expect(await usageReport([named('one')], () => 'away' as never, { appId: 'one' }, timers)).toBe('away')
  })

  test('of one of 3,000 apps, or as JSON, leaves the event loop free after each 500 apps', async () => {
    const many = Array.from({ length: 3000 }, (_, at) => named(`app${at}`))
    let turns = 0
    const counted = {
      ...timers,
      setImmediate: (task: () => void) => {
        turns++
        return timers.setImmediate(task)
      },
    }
    await usageReport(many, reader({}), { appId: 'app7' }, counted)
    expect(turns).toBeGreaterThanOrEqual(5)
    const report = await usageReport(many, reader({}), { top: 3000 }, timers)
    if (report === 'away') throw new Error(report)
    turns = 0
    await usageReportText(report, () => NOT_SEEN, counted)
    expect(turns).toBeGreaterThanOrEqual(5)
  })

  test('shows as JSON its windows, what is known of the last hour, and no whole key', async () => {
    const app = anApp({
      name: 'Demo',
      eventsPerDay: 20_000,
      appKey: 'ak_demo_2f6c1d2f6c1d',
      previousKeys: [
        { appKey: 'ak_demo_old0old0old1', validUntilMs: NOW - 1 },
        { appKey: 'ak_demo_old0old0old2', validUntilMs: NOW + 60_000 },
      ],
    })
    const report = await usageReport([app], reader({ demo: { minute: 1, day: 2, month: 3 } }), { top: 1 }, timers)
    if (report === 'away') throw new Error(report)
    const seen = {
      last_hour: { accepted_events: 7, refused: { rate_limit_exceeded: 2 } },
      events_per_second: 0.5,
      stored_bytes: { last_hour: 900, today: 1800, highest_minute_today: 300 },
    }
    const seenOf = (appId: string) => (appId === 'demo' ? seen : NOT_SEEN)
    const shown = usageReportJson(report, seenOf)
    expect(shown).toEqual({
      apps: [
        {
          app_id: 'demo',
          name: 'Demo',
          plan: '100k',
          subscription: 'active',
          minute: { used: 1, limit: 500, resets_at: '2026-11-20T12:01:00.000Z' },
          day: { used: 2, limit: 20_000, resets_at: '2026-11-21T00:00:00.000Z' },
          month: { used: 3, limit: 110_000, resets_at: '2026-12-01T00:00:00.000Z', tolerance_percent: 10 },
          ...seen,
          keys: [
            { key: 'ak_demo_…c1d', valid_until: null },
            { key: 'ak_demo_…ld2', valid_until: '2026-11-20T12:01:30.000Z' },
          ],
        },
      ],
      total_apps: 1,
      read_at: '2026-11-20T12:00:30.000Z',
    })
    expect(JSON.parse(await usageReportText(report, seenOf, timers))).toEqual(shown)
    expect(usageReportJson(report, () => NOT_SEEN)).toMatchObject({
      apps: [NOT_SEEN],
    })
  })
})

test('what is in spools is told to operators, where there is any, and not to an app’s own developers', async () => {
  const spooled = { events: 12, ofGoneNodes: 2 }
  const reading: ReadUsages = (apps) =>
    apps.map((app) => ({ ...usageOf(app), ...(app.appId === 'kept' && { spooled }) }))
  const report = await usageReport([anApp({ appId: 'kept' }), anApp()], reading, { top: 2 }, timers)
  if (report === 'away') throw new Error(report)
  const text = await usageReportText(report, () => NOT_SEEN, timers)
  expect(JSON.parse(text).apps.map((row: { spooled?: object }) => row.spooled)).toEqual([
    undefined,
    { events: 12, of_gone_nodes: 2 },
  ])
  const kept = report.apps.filter(({ app }) => app.appId === 'kept')
  expect(JSON.stringify(usageForApp({ ...report, apps: kept }, NOT_SEEN))).not.toMatch(/spool|gone/)
})

test('of a key, at most a quarter of what is secret is shown', () => {
  expect(maskedKey('ak_shop_0123456789abcdef01234567', 'shop')).toBe('ak_shop_…567')
  expect(maskedKey('ak_demo_2f6c1d', 'demo')).toBe('ak_demo_…d')
  expect(maskedKey('ak_0123456789abcdef01234567', 'shop')).toBe('ak_…567')
  expect(maskedKey('ak_one', 'one')).toBe('ak_…')
  expect(maskedKey('ak_', 'one')).toBe('ak_…')
})
