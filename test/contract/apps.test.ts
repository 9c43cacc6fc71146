// Apps, plans, subscriptions and trials, and the file they live in, read again whenever it changes.

import { randomUUID } from 'node:crypto'
import { rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test as base, describe, expect } from 'vitest'
import { batch, expectAccepted, expectRefused, figures, post, single } from '../support/client.ts'
import { aService } from '../support/fixture.ts'
import { readPage } from '../support/hostile.ts'
import {
  type AppRecord,
  appRecord,
  eventually,
  makeFolder,
  roomInMinute,
  runCommand,
  type Service,
  startService,
  writeApps,
} from '../support/service.ts'

const DAY_MS = 86_400_000
const PLANS: Record<string, number> = {
  trial: 200,
  '10k': 200,
  '100k': 500,
  '500k': 2_000,
  '1m': 5_000,
  '2m': 8_000,
  '5m': 15_000,
}
const iso = (offsetMs: number): string => new Date(Date.now() + offsetMs).toISOString()

/** Anchors of past months; the turn that a test expects is counted from them naively. */
const ANCHORS = {
  anchored: { anchor: iso(-400 * DAY_MS + 3 * 3_600_000) },
  anchored_31st: { anchor: '2024-01-31T13:14:15Z' },
  anchored_now: { anchor: iso(-60_000) },
} as const

const APPS: AppRecord[] = [
  ...Object.keys(PLANS).map((plan) => appRecord(`plan_${plan}`, { plan })),
  appRecord('faster', { plan: '10k', events_per_minute: 777 }),
  appRecord('trial_to_come', { plan: 'trial', subscription: 'trialing', trial_ends_at: iso(DAY_MS) }),
  appRecord('trial_without_end', { plan: 'trial', subscription: 'trialing' }),
  appRecord('trialing_ended', { plan: '1m', subscription: 'trialing', trial_ends_at: iso(-1000) }),
  appRecord('trial_plan_ended', { plan: 'trial', subscription: 'active', trial_ends_at: iso(-1000) }),
  appRecord('paid_after_trial', { plan: '1m', subscription: 'active', trial_ends_at: iso(-1000) }),
  appRecord('canceled', { subscription: 'canceled' }),
  appRecord('unpaid', { subscription: 'unpaid' }),
  appRecord('paused', { subscription: 'paused' }),
  appRecord('past_due', { subscription: 'past_due' }),
  appRecord('calendar', { plan: 'trial', events_per_month: 2 }),
  ...Object.entries(ANCHORS).map(([id, { anchor }]) =>
    appRecord(id, { plan: 'trial', events_per_month: 2, billing_cycle_anchor: anchor }),
  ),
]

const test = base.extend('service', { scope: 'file' }, aService({ apps: APPS, env: { TZ: 'Pacific/Auckland' } }))

describe('plans', () => {
  for (const [plan, perMinute] of Object.entries(PLANS)) {
    test(`${plan} may send ${perMinute} events a minute`, async ({ service }) => {
      const answer = await post(service, batch(`ak_plan_${plan}`, 3))
      expectAccepted(answer, 3)
      expect(figures(answer)).toMatchObject({ limit: perMinute, remaining: perMinute - 3 })
    })
  }

  test('events_per_minute replaces the figure of the plan', async ({ service }) => {
    expect(figures(await post(service, single('ak_faster')))).toMatchObject({ limit: 777, remaining: 776 })
  })
})

describe('subscriptions', () => {
  for (const id of ['canceled', 'unpaid', 'paused']) {
    test(`${id} is inactive`, async ({ service }) => {
      expectRefused(await post(service, single(`ak_${id}`)), 402, 'subscription_inactive')
    })
  }
  for (const id of ['past_due', 'trial_to_come', 'trial_without_end', 'paid_after_trial']) {
    test(`${id} may send`, async ({ service }) => {
      expectAccepted(await post(service, single(`ak_${id}`)), 1)
    })
  }
  for (const id of ['trialing_ended', 'trial_plan_ended']) {
    test(`${id} is expired`, async ({ service }) => {
      expectRefused(await post(service, single(`ak_${id}`)), 402, 'trial_expired')
    })
  }
})

/** The first month's turn of this anchor after now, counted naively. */
function nextTurnMs(anchorText: string | null, nowMs: number): number {
  const anchor = new Date(anchorText ?? '2024-01-01T00:00:00Z')
  for (let months = 1; ; months++) {
    const first = new Date(anchor)
    first.setUTCDate(1)
    first.setUTCMonth(first.getUTCMonth() + months)
    const lastDay = new Date(Date.UTC(first.getUTCFullYear(), first.getUTCMonth() + 1, 0)).getUTCDate()
    first.setUTCDate(Math.min(anchor.getUTCDate(), lastDay))
    if (first.getTime() > nowMs) return first.getTime()
  }
}

describe('billing cycle', () => {
  const cycles = [
    ['calendar', null] as const,
    ...Object.entries(ANCHORS).map(([id, { anchor }]) => [id, anchor] as const),
  ]
  for (const [id, anchor] of cycles) {
    test(`a full month waits for its next turn: ${id}`, async ({ service }) => {
      expectAccepted(await post(service, batch(`ak_${id}`, 2)), 2)
      const answer = await post(service, single(`ak_${id}`))
      expectRefused(answer, 429, 'monthly_limit_exceeded')
      const expectedSeconds = (nextTurnMs(anchor, Date.now()) - Date.now()) / 1000
      expect(Math.abs(Number(answer.headers['retry-after']) - expectedSeconds)).toBeLessThanOrEqual(5)
    })
  }
})

describe('the app file is read again when it changes', () => {
  const known = async (service: Service, id: string): Promise<boolean> =>
    (await post(service, single(`ak_${id}`))).status === 202

  test('written in place, and moved into place', async ({ service }) => {
    await writeApps(service.appsFile, [...APPS, appRecord('second')])
    await eventually('an app written in place is known', () => known(service, 'second'))
    const aside = join(service.dataDir, 'apps.next')
    await writeApps(aside, [...APPS, appRecord('second'), appRecord('third')])
    await rename(aside, service.appsFile)
    await eventually('an app moved into place is known', () => known(service, 'third'))
    await writeApps(service.appsFile, [...APPS, appRecord('second'), appRecord('third'), appRecord('fourth')])
    await eventually('an app written after a move is known', () => known(service, 'fourth'))
  })

  test('an app taken out is unknown, a changed one has its new figures', async ({ service }) => {
    await roomInMinute(20)
    await writeApps(service.appsFile, [...APPS, appRecord('changing', { events_per_minute: 100 })])
    await eventually('the app is known', () => known(service, 'changing'))
    await writeApps(service.appsFile, [...APPS, appRecord('changing', { events_per_minute: 50 })])
    await eventually('the new limit is in force', async () => {
      return figures(await post(service, single('ak_changing'))).limit === 50
    })
    await writeApps(service.appsFile, APPS)
    await eventually('the app is unknown', async () => (await post(service, single('ak_changing'))).status === 401)
  })

  test('a trial ends while the service runs', async ({ service }) => {
    const ending = appRecord('ending', { plan: 'trial', trial_ends_at: iso(6_000) })
    await writeApps(service.appsFile, [...APPS, ending])
    await eventually('the trial may send', () => known(service, 'ending'), 5_000)
    await eventually('the trial is over', async () => (await post(service, single('ak_ending'))).status === 402)
    expectRefused(await post(service, single('ak_ending')), 402, 'trial_expired')
  })

  test('a canceled subscription is refused even a replay', async ({ service }) => {
    const headers = { 'Idempotency-Key': randomUUID() }
    await writeApps(service.appsFile, [...APPS, appRecord('leaving')])
    await eventually('the app is known', () => known(service, 'leaving'))
    expectAccepted(await post(service, single('ak_leaving'), headers), 1)
    await writeApps(service.appsFile, [...APPS, appRecord('leaving', { subscription: 'canceled' })])
    await eventually('the app is canceled', async () => (await post(service, single('ak_leaving'))).status === 402)
    expectRefused(await post(service, single('ak_leaving'), headers), 402, 'subscription_inactive')
  })

  const FAILURES = 'sluice_apps_reload_failures_total'
  test('a bad file leaves the last good one in force, and a good one after it is taken', async ({ service }) => {
    for (const [index, bad] of ['{"apps": [', '{"apps": [{"app_key": 5}]}', '[]', ''].entries()) {
      await writeFile(service.appsFile, bad)
      await eventually('it is counted', async () => (await readPage(service))[FAILURES] === index + 1)
      expectAccepted(await post(service, single('ak_plan_1m')), 1)
    }
    await writeApps(service.appsFile, [...APPS, appRecord('after_bad')])
    await eventually('the good file is taken', () => known(service, 'after_bad'))
  })
})

describe('a bad app file at start is a clear error', () => {
  /** Each with one mistake, and where it is. */
  const mistakes: readonly (readonly [unknown, string])[] = [
    [5, ''],
    [{ app_key: undefined }, '.app_key'],
    [{ app_key: 'key' }, '.app_key'],
    [{ app_id: undefined }, '.app_id'],
    [{ app_id: 'a.b' }, '.app_id'],
    [{ app_id: 'a'.repeat(65) }, '.app_id'],
    [{ app_id: '' }, '.app_id'],
    [{ plan: '7m' }, '.plan'],
    [{ plan: undefined }, '.plan'],
    [{ subscription: 'gone' }, '.subscription'],
    [{ subscription: undefined }, '.subscription'],
    [{ trial_ends_at: 'soon' }, '.trial_ends_at'],
    [{ billing_cycle_anchor: '2026-02-30T00:00:00Z' }, '.billing_cycle_anchor'],
    [{ events_per_day: -1 }, '.events_per_day'],
    [{ events_per_minute: '100' }, '.events_per_minute'],
    [{ events_per_month: 1.5 }, '.events_per_month'],
  ]
  const apps = mistakes.map(([change], at) =>
    typeof change === 'object' ? { ...appRecord(`good-${at}`), ...change } : change,
  )

  // One start for many mistakes: each must be told, so one that is taken shows.
  test.each([
    ['torn JSON', '{"apps": [', ['not JSON']],
    ['no apps', '{}', ['apps: required']],
    ['apps that are no array', '{"apps":{}}', ['apps: ']],
    ['records', JSON.stringify({ apps }), mistakes.map(([, member], at) => `apps[${at}]${member}: `)],
  ])('%s', async (_, content, told) => {
    const other = await makeFolder()
    const file = join(other, 'my-apps.json')
    await writeFile(file, content)
    const env = { PORT: '0', SLUICE_ADMIN_PORT: '0', SLUICE_DATA_DIR: other, SLUICE_APPS_FILE: file }
    const result = await runCommand(['serve'], env, other)
    expect(result.code, result.output).toBe(1)
    for (const words of ['my-apps.json', ...told]) expect(result.output).toContain(words)
    expect(result.output, 'a message, not a stack').not.toMatch(/\n\s+at .*\.[jt]s:\d+/)
  })

  test('app_id may hold letters, digits, _ and -, 64 of them', async () => {
    const other = await makeFolder()
    const id = `${'aZ09_-'.repeat(10)}abcd`
    const started = await startService({ dataDir: other, apps: [appRecord('long', { app_id: id })] })
    expectAccepted(await post(started, single('ak_long')), 1)
    await started.kill()
  })
})
