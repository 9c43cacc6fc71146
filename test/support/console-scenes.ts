// Every page of the console and the portal in each of its states, with what brings it there: for pictures and for axe.

import type { Page } from 'playwright-core'
import type { Now, Refusals } from '../../src/console/web/api-types.ts'
import {
  AN_HOUR_AGO,
  BATCH_ID,
  busyDouble,
  busyNow,
  groupOf,
  missingBatch,
  NOW,
  PORTAL,
  portalDouble,
  refusalOf,
  SHOP,
} from './console-data.ts'
import { type ConsoleDouble, ok } from './console-double.ts'

export { NOW }

export interface Scene {
  readonly path: string
  readonly double: () => ConsoleDouble
  readonly before?: (double: ConsoleDouble) => Promise<void>
  /** Until all is there. */
  readonly prepare?: (page: Page, double: ConsoleDouble) => Promise<void>
  readonly isInDocs?: boolean
}

function still(double: ConsoleDouble): ConsoleDouble {
  double.time = NOW
  return double
}

const busy = (changes: Partial<Now> = {}) => still(busyDouble(changes))
const portal = () => still(portalDouble())

function empty(double: ConsoleDouble): ConsoleDouble {
  const nothing = { searched_back_to: null, complete: true, skipped: 0 }
  double.now = busyNow({
    nodes: oneNode('serving', JUST_BEFORE),
    rates: { requests_per_second: 0, events_accepted_per_second: 0, refused_per_second: {}, replays_per_second: 0 },
    latency_seconds: null,
    queue: JOURNAL,
    parts: [{ part: 'queue', kind: 'journal', ...UP, text: 'journal, survives a power cut' }, ...OWN_PARTS],
  })
  double.answers.set('/api/refusals', () => ok({ since: JUST_BEFORE, refusals: [], groups: [] }))
  double.answers.set('/api/events', () => ok({ events: [], ...nothing }))
  double.answers.set('/api/now', () => {
    const { history, ...now } = double.now
    const cells = (history as { p99_seconds: number[] }).p99_seconds.map(() => null)
    const plots = Object.keys(history as object).map((name) => [name, name.includes('second') ? cells : null])
    return ok({
      ...now,
      history: { ...Object.fromEntries(plots), step_seconds: 5, from: (history as { from: string }).from },
    })
  })
  return still(double)
}

const JUST_BEFORE = '2026-11-22T14:01:51.000Z'

function oneNode(state: 'serving' | 'refusing', started_at?: string): Now['nodes'][number][] {
  const [node] = busyNow()['nodes'] as Now['nodes'][number][]
  return [{ ...node, state, ...(started_at === undefined ? {} : { started_at }) }]
}

/** Of an hour. */
function lastFive(count: number): number[] {
  return Array.from({ length: 60 }, (_, minute) => (minute < 55 ? 0 : count))
}

function oneApp(): ConsoleDouble {
  const double = busy()
  double.answers.set('/api/apps', () => ok({ apps: [SHOP], total_apps: 1000, read_at: NOW }))
  return double
}

const UP = { state: 'ok', reason: null, up: true, node: null, latency_seconds: null } as const
const FULL = { state: 'full', up: false, text: 'journal full, answering 503 until there is room' } as const
const OWN_PARTS = [
  { part: 'limits', kind: 'memory', ...UP, text: 'in memory' },
  { part: 'apps', kind: 'file', ...UP, text: 'in a file' },
] as const
const JOURNAL = {
  kind: 'journal',
  bytes: 2_201_000,
  max_bytes: 10_737_418_240,
  oldest_seconds: 12,
  keep_seconds: 259_200,
  full_in_seconds: null,
  consumers: [],
  audit_lag_seconds: null,
} as const

function full(): ConsoleDouble {
  const { history } = busyNow() as unknown as { history: NonNullable<Now['history']> }
  const from = 120
  const after = (cells: readonly (number | null)[], value: (cell: number) => number) =>
    cells.map((cell, at) => (at < from ? cell : value(cell ?? 0)))
  const double = busy({
    state: 'refusing',
    state_reason: 'journal full for 5 min',
    reasons: [{ reason: 'journal_full', per_second: 1003 }],
    rates: {
      requests_per_second: 1039.4,
      events_accepted_per_second: 0,
      refused_per_second: { service_overloaded: 1003, rate_limit_exceeded: 31, validation_failed: 5.4 },
      replays_per_second: 0,
    },
    nodes: oneNode('refusing'),
    parts: [{ part: 'queue', kind: 'journal', ...UP, ...FULL }, ...OWN_PARTS],
    queue: { ...JOURNAL, bytes: JOURNAL.max_bytes, full_in_seconds: 0, oldest_seconds: 90_000 },
    history: {
      ...history,
      accepted_requests_per_second: after(history.accepted_requests_per_second, () => 0),
      refused_ours_per_second: after(history.refused_ours_per_second, () => 1003),
      p99_seconds: after(history.p99_seconds, (cell) => cell / 8),
    },
  })
  const others = double.answers.get('/api/refusals')
  if (others === undefined) throw new Error('there are no refusals')
  const ours = { app_id: null, code: 'service_overloaded', reason: 'journal_full', path: null, sdk_versions: [null] }
  double.answers.set('/api/refusals', (asked) => {
    const { refusals, groups } = others(asked).body as Refusals
    return ok({
      since: AN_HOUR_AGO,
      refusals,
      groups: [
        groupOf(0, { ...ours, count: 300_900, first_at: '2026-11-22T13:57:31.000Z', per_minute: lastFive(60_180) }),
        ...groups,
      ],
    })
  })
  return double
}

const way = (page: Page): Promise<void> => page.locator('.way').waitFor()
const says =
  (text: string | RegExp) =>
  (page: Page): Promise<void> =>
    page.getByText(text).first().waitFor()
const rows = (page: Page): Promise<void> => page.locator('.rows a.item').first().waitFor()
const BODY = JSON.stringify(
  {
    app_key: 'ak_shop_91b2c4',
    events: [
      { type: 'track', session_id: 's-1', context: { os: 'ios' } },
      { type: 'track', name: 'product_viewed', context: { os: '' }, properties: { colour: 'a very long text …' } },
    ],
  },
  null,
  2,
)

async function explain(page: Page): Promise<void> {
  await page.getByLabel('A body as an SDK sends it').fill(BODY)
  await page.getByRole('button', { name: 'Explain', exact: true }).click()
  await page.locator('mark').first().waitFor()
}

async function opened(page: Page): Promise<void> {
  await rows(page)
  await page.locator('a.item.event').nth(4).click()
  await page.locator('.detail pre').waitFor()
  await page.mouse.move(0, 0)
}

async function plotted(page: Page): Promise<void> {
  await page.locator('.plot svg path').first().waitFor({ state: 'attached' })
  await page.getByRole('region', { name: 'Nearest to a limit' }).waitFor()
  await page
    .getByText(/^(All refusals|Nothing was refused)$/)
    .first()
    .waitFor()
}

async function closed(double: ConsoleDouble): Promise<void> {
  double.token = 'a token of the tests'
}

async function wrong(page: Page): Promise<void> {
  await page.getByLabel(/^(Console token|Read key)$/).fill('something else')
  await page.keyboard.press('Enter')
  await page.getByRole('alert').waitFor()
}

const refused = (double: ConsoleDouble): ConsoleDouble => {
  double.answers.set(`/api/batches/${BATCH_ID}`, () => ok({ found: true, refusal: refusalOf(0, { app_id: 'shop' }) }))
  return double
}
const missing = (double: ConsoleDouble): ConsoleDouble => {
  double.answers.set(`/api/batches/${BATCH_ID}`, () => ok(missingBatch()))
  return double
}

export const SCENES: Readonly<Record<string, Scene>> = {
  now: { path: '/', double: busy, prepare: plotted, isInDocs: true },
  'now-degraded': {
    path: '/',
    double: () => busy({ state: 'degraded', state_reason: 'Redis away for 12 s' }),
    prepare: plotted,
  },
  'now-full': { path: '/', double: full, prepare: plotted, isInDocs: true },
  'now-empty': { path: '/', double: () => empty(busyDouble()), prepare: plotted },
  'now-lost': {
    path: '/',
    double: busy,
    prepare: async (page, double) => {
      await plotted(page)
      double.goAway()
      await page.clock.setFixedTime((await page.evaluate<number>('Date.now()')) + 12_000)
      await page.getByText('No connection to').waitFor()
    },
  },
  events: { path: '/events', double: busy, prepare: opened, isInDocs: true },
  'events-list': { path: '/events', double: busy, prepare: rows },
  'events-empty': { path: '/events', double: () => empty(busyDouble()), prepare: says('No event is stored yet') },
  'events-none': { path: '/events?app=nobody', double: busy, prepare: says('No event that fits') },
  refused: { path: '/refused', double: busy, prepare: rows, isInDocs: true },
  'refused-empty': { path: '/refused', double: () => empty(busyDouble()), prepare: says('Nothing was refused') },
  batch: { path: `/batch?id=${BATCH_ID}&event=1`, double: busy, prepare: way, isInDocs: true },
  'batch-refused': { path: `/batch?id=${BATCH_ID}`, double: () => refused(busy()), prepare: says('The refusal') },
  'batch-missing': { path: `/batch?id=${BATCH_ID}`, double: () => missing(busy()), prepare: says('Where we looked') },
  apps: { path: '/apps', double: busy, prepare: rows, isInDocs: true },
  app: { path: '/app?id=shop', double: oneApp, prepare: says(/^Last 35 days$/), isInDocs: true },
  explain: { path: '/explain', double: busy, prepare: explain, isInDocs: true },
  search: {
    path: '/events',
    double: busy,
    prepare: async (page) => {
      await rows(page)
      await page.keyboard.press('/')
      await page.locator('#find').fill('ap')
      await page.locator('dialog a.item').nth(2).waitFor()
    },
  },
  user: { path: '/search?q=user-41', double: busy, prepare: rows },
  missing: { path: '/events', double: busy, prepare: notFound },
  'sign-in': { path: '/', double: busy, before: closed, prepare: wrong },
  'portal-overview': { path: '/', double: portal, prepare: says(/^Last 35 days$/), isInDocs: true },
  'portal-empty': {
    path: '/',
    double: () => {
      const double = empty(portal())
      const used = { used: 0, limit: 5_500_000, resets_at: '2026-12-01T00:00:00.000Z', tolerance_percent: 10 }
      double.answers.set('/api/usage', () =>
        ok({
          ...SHOP,
          minute: { ...SHOP.minute, used: 0 },
          day: { ...SHOP.day, used: 0 },
          month: used,
          events_per_second: null,
        }),
      )
      return double
    },
    prepare: says('Welcome.'),
  },
  'portal-events': { path: '/events', double: portal, prepare: opened },
  'portal-refused': { path: '/refused', double: portal, prepare: rows },
  'portal-batch': { path: `/batch?id=${BATCH_ID}`, double: portal, prepare: way },
  'portal-explain': { path: '/explain', double: portal, prepare: explain },
  'portal-degraded': {
    path: '/',
    double: () => {
      const double = portal()
      double.portal = { ...PORTAL, degraded_since: '2026-11-22T13:58:00.000Z' }
      return double
    },
    prepare: says(/^Last 35 days$/),
  },
  'portal-sign-in': { path: '/', double: portal, before: closed, prepare: wrong },
}

async function notFound(page: Page): Promise<void> {
  await rows(page)
  await page.evaluate(`history.pushState(null, '', '/nowhere'); dispatchEvent(new PopStateEvent('popstate'))`)
  await page.getByText('There is no such page').waitFor()
}
