// Answers of the admin API for the console's tests and pictures: a busy service, and ways in which it can be ill.

import type {
  Alerts,
  AppUsage,
  Now,
  PortalSession,
  ReadKeys,
  Refusal,
  RefusalGroup,
  StoredEvent,
  UsageByDay,
} from '../../src/console/web/api-types.ts'
import { ConsoleDouble, type Json, ok } from './console-double.ts'

/** When all of it is. */
export const NOW = '2026-11-22T14:02:31.000Z'
export const AN_HOUR_AGO = '2026-11-22T13:02:31.000Z'
const STEP_MS = 5000
const CELLS = 180
const UP = { state: 'ok', reason: null, up: true, node: null } as const

/** A wave with some noise, the same each time. */
function wave(base: number, swing: number, seed = 1): number[] {
  return Array.from({ length: CELLS }, (_, at) => {
    const noise = Math.abs(Math.sin(at * 12.9898 * seed) * 43758.5453) % 1
    return Math.max(0, base + swing * Math.sin(at / 23 + seed) + swing * 0.35 * (noise - 0.5))
  })
}

export function busyNow(changes: Partial<Now> = {}): Json {
  const nowMs = Date.parse(NOW)
  const started = new Date(nowMs - 8.2 * 86_400_000).toISOString()
  const node = (name: string): Now['nodes'][number] => ({
    node: name,
    version: '0.3.0',
    node_js: 'v24.11.0',
    started_at: started,
    state: 'serving',
    silent_seconds: 0,
    connections: 271,
    cpu_percent: 38,
    rss_bytes: 312_000_000,
  })
  const refused = wave(30, 14, 2).map((value, at) => (at % 41 > 36 ? value * 3 : value))
  const now: Now = {
    time: new Date(nowMs).toISOString(),
    state: 'serving',
    state_reason: null,
    reasons: [],
    nodes: ['sluice-0', 'sluice-1', 'sluice-2'].map(node),
    rates: {
      requests_per_second: 1042,
      events_accepted_per_second: 12_480,
      refused_per_second: { validation_failed: 30.4, rate_limit_exceeded: 6, invalid_app_key: 0.6 },
      replays_per_second: 2.2,
    },
    latency_seconds: { p50: 0.0021, p99: 0.0061 },
    ring: { used_bytes: 2_013_265, size_bytes: 67_108_864, requests: 14 },
    parser_queue: 0,
    parts: [
      { part: 'queue', kind: 'jetstream', ...UP, latency_seconds: 0.0011, text: 'NATS JetStream' },
      { part: 'limits', kind: 'redis', ...UP, latency_seconds: 0.0004, text: 'in Redis' },
      { part: 'apps', kind: 'bucket', ...UP, latency_seconds: null, text: 'in NATS' },
      { part: 'audit', kind: 'audit', ...UP, latency_seconds: null, text: 'audit of the limits' },
    ],
    queue: {
      kind: 'stream',
      bytes: 44_023_414_784,
      max_bytes: 96_636_764_160,
      oldest_seconds: 183_600,
      keep_seconds: 259_200,
      full_in_seconds: 777_600,
      consumers: [
        { name: 'warehouse', lag_seconds: 1.4 },
        { name: 'audit-log', lag_seconds: 0.3 },
      ],
      audit_lag_seconds: 6,
    },
    refused_last_hour: {
      by_code: [
        { code: 'rate_limit_exceeded', reason: null, count: 98_214 },
        { code: 'validation_failed', reason: null, count: 17_902 },
        { code: 'invalid_app_key', reason: null, count: 2203 },
        { code: 'replayed_other_body', reason: null, count: 41 },
        { code: 'service_overloaded', reason: 'nats_slow', count: 3 },
      ],
      by_app: [
        { app_id: 'shop', count: 97_120 },
        { app_id: 'news-reader-for-tablets', count: 15_870 },
        { app_id: null, count: 2206 },
        { app_id: 'checkout', count: 1502 },
        { app_id: 'games', count: 1094 },
      ],
    },
    history: {
      step_seconds: 5,
      from: new Date(Math.floor(nowMs / STEP_MS) * STEP_MS - CELLS * STEP_MS).toISOString(),
      accepted_events_per_second: wave(12_000, 1800),
      accepted_requests_per_second: wave(1000, 120),
      refused_ours_per_second: wave(0, 0),
      refused_client_per_second: refused,
      refused_limits_per_second: wave(6, 3, 5),
      p50_seconds: wave(0.0021, 0.0003, 6),
      p99_seconds: wave(0.0062, 0.0015, 3),
      slowest_consumer_lag_seconds: wave(1.5, 0.8, 4),
    },
    ...changes,
  }
  return { ...now }
}

const NAMES = [
  'checkout_started',
  'Product',
  'order_paid',
  'search',
  'Home',
  'subscription_renewed',
  'cart_add',
  'Lobby',
]
const APPS = ['shop', 'news-reader-for-tablets', 'checkout', 'games', 'maps']
const SYSTEMS = [
  ['iOS', '26.1'],
  ['macOS', '26.1'],
  ['Android', '16'],
  ['Linux', ''],
] as const
const PROPERTIES = [
  { plan: 'yearly', trial: true, source: "friend's link" },
  { sku: 'TR-0417', width: 390, list: 'search' },
  { items: 4, coupon: 'NOV10', saved: 12.84 },
  { query_length: 14, results: 38, cold_start: false },
] as const
/** Of the newest one. */
const NEWEST_EVENT = 240
const EVENTS_OF_A_BATCH = 3

/** The events of a batch follow each other. */
export function sampledEvent(number: number, changes: Partial<StoredEvent> = {}): StoredEvent {
  const type = ['track', 'screen', 'revenue'][number % 3]
  const batch = Math.floor(number / EVENTS_OF_A_BATCH)
  const [os, os_version] = SYSTEMS[batch % SYSTEMS.length]
  const receivedMs = Date.parse(NOW) - (NEWEST_EVENT - batch * EVENTS_OF_A_BATCH) * 437
  return {
    batch_id: `019a9b0f-7c1e-7a2b-9c3d-${String(batch).padStart(12, '0')}`,
    app_id: APPS[batch % APPS.length],
    received_at: new Date(receivedMs).toISOString(),
    sdk_version: ['web 2.1.0', 'ios 2.0.4', 'node 2.1.0'][batch % 3],
    node: 'sluice-0',
    index: number % EVENTS_OF_A_BATCH,
    event: {
      type,
      name: NAMES[number % NAMES.length],
      hashed_daily_id: '3f1d9c0ab2e847559d1f4c6b7a80e213',
      hashed_monthly_id: '8a4be0c1d5f24c6f9b3e7d21a0c55f10',
      session_id: `7f0e0bb2-6c3a-4d5e-9a53-${String(batch * 7919).padStart(12, '0')}`,
      user_id: `user-${8812 - ((batch * 977) % 8000)}`,
      timestamp: new Date(receivedMs - 220).toISOString(),
      context: { os, ...(os_version === '' ? {} : { os_version }), app_version: '4.2.0', locale: 'en_GB' },
      properties: PROPERTIES[number % PROPERTIES.length],
      ...(type === 'revenue' ? { revenue: { amount: 53.65, currency: 'EUR' } } : {}),
    },
    ...changes,
  }
}

const REFUSED: readonly { code: string; message: string; app?: string | null }[] = [
  { code: 'validation_failed', message: '' },
  { code: 'invalid_json', message: 'body: not valid JSON at byte 55' },
  { code: 'invalid_app_key', message: 'app_key: not the key of a known application', app: null },
  { code: 'subscription_inactive', message: 'the subscription is canceled, unpaid or paused', app: 'legacy' },
  { code: 'rate_limit_exceeded', message: 'the batch does not fit into what is left of the per-minute event limit' },
]
const WRONG = [
  'events[3].context.os: required',
  'events[0].name: length must be 1 to 200',
  'events[12].timestamp: must be an ISO 8601 date and time',
]

const SHAPES = ['absent', 'string of 0 characters', 'string of 10 characters']

export function refusalOf(number: number, changes: Partial<Refusal> = {}): Refusal {
  const of = REFUSED[number % REFUSED.length]
  const message =
    of.code === 'validation_failed' ? WRONG[Math.floor(number / REFUSED.length) % WRONG.length] : of.message
  return {
    time: new Date(Date.parse(NOW) - number * 731).toISOString(),
    request_id: `${(number * 2_654_435).toString(16).padStart(8, '0')}-11d2-4c3b-9a53-${String(number).padStart(12, '0')}`,
    app_id: of.app === undefined ? APPS[Math.floor(number / REFUSED.length) % APPS.length] : of.app,
    code: of.code,
    reason: null,
    origin: null,
    path: of.code === 'validation_failed' ? message.slice(0, message.indexOf(':')) : null,
    shape: of.code === 'validation_failed' ? SHAPES[Math.floor(number / REFUSED.length) % WRONG.length] : null,
    message,
    sdk_version:
      of.code === 'invalid_app_key' ? null : ['ios 2.0.4', 'ios 2.0.4', 'ios 2.0.3', 'web 1.9.2'][(number * 7) % 4],
    node: `sluice-${number % 3}`,
    ...changes,
  }
}

/** So many, in the shape of a wave. */
function perMinute(count: number, number: number): number[] {
  const shape = wave(20, 18, number + 2).slice(0, 60)
  const whole = shape.reduce((sum, cell) => sum + cell, 0)
  let before = 0
  return shape.map((cell) => {
    const from = Math.round((before / whole) * count)
    before += cell
    return Math.round((before / whole) * count) - from
  })
}

export function groupOf(number: number, changes: Partial<RefusalGroup> = {}): RefusalGroup {
  const { app_id, code: name, reason = null, origin, path, sdk_version, message } = refusalOf(number)
  const count = Math.round(9800 / (number + 1) ** 1.2)
  return {
    app_id,
    code: name,
    reason,
    origin,
    path,
    sdk_version,
    sdk_versions: sdk_version === null ? [null] : [sdk_version, 'ios 2.0.3'],
    message,
    count,
    first_at: '2026-11-22T13:04:11.000Z',
    last_at: '2026-11-22T14:02:30.000Z',
    per_minute: perMinute(count, number),
    ...changes,
  }
}

export function appOf(number: number, changes: Partial<AppUsage> = {}): AppUsage {
  const share = Math.max(0.004, 1.02 - number * 0.06)
  const window = (limit: number, resetsAt: string): AppUsage['minute'] => ({
    used: Math.min(limit, Math.round(limit * share)),
    limit,
    resets_at: resetsAt,
  })
  return {
    app_id: number < APPS.length ? APPS[number] : `app-${String(number).padStart(4, '0')}`,
    name: number < APPS.length ? APPS[number].replaceAll('-', ' ') : `Customer ${number}`,
    plan: ['5m', '1m', '100k'][number % 3],
    subscription: number % 17 === 5 ? 'canceled' : 'active',
    minute: window(1000, '2026-11-22T14:03:00.000Z'),
    day:
      number % 3 === 0
        ? { used: 41_202, limit: null, resets_at: '2026-11-23T00:00:00.000Z' }
        : window(20_000, '2026-11-23T00:00:00.000Z'),
    month: { ...window(5_500_000, '2026-12-01T00:00:00.000Z'), limit: 5_500_000, tolerance_percent: 10 },
    events_per_second: 12 * share,
    last_hour: {
      accepted_events: Math.round(42_000 * share),
      refused: number % 4 === 0 ? { rate_limit_exceeded: 9812 } : {},
    },
    stored_bytes: { last_hour: Math.round(9e6 * share), today: Math.round(2e8 * share), highest_minute_today: 400_000 },
    keys: [
      { key: `ak_${APPS[number % APPS.length].slice(0, 6)}_…c1d`, valid_until: null },
      ...(number % 9 === 2 ? [{ key: 'ak_old_…77e', valid_until: '2026-11-30T00:00:00.000Z' }] : []),
    ],
    ...changes,
  }
}

export const BATCH_ID = '019a9b0f-7c1e-7a2b-9c3d-0123456789ab'

export function foundBatch(changes: Json = {}): Json {
  return {
    found: true,
    batch_id: BATCH_ID,
    app_id: 'shop',
    received_at: '2026-11-22T14:01:22.120Z',
    sdk_version: '2.1.0',
    trace: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
    events: 2,
    keyed: true,
    place: {
      kind: 'stream',
      stream: 'SLUICE_EVENTS',
      subject: 'sluice.events.7',
      sequence: 8_120_441,
      stored_at: '2026-11-22T14:01:22.133Z',
    },
    consumers: [
      { name: 'warehouse', state: 'acknowledged', read_at: '2026-11-22T14:01:23.004Z' },
      { name: 'audit-log', state: 'waiting', read_at: null },
    ],
    record: { v: 1, events: [sampledEvent(2).event, sampledEvent(4).event] },
    ...changes,
  }
}

export function missingBatch(changes: Json = {}): Json {
  return {
    found: false,
    searched_from: '2026-11-22T13:52:31.000Z',
    searched_to: '2026-11-22T14:02:31.000Z',
    queue_reaches_back_to: '2026-11-20T11:02:31.000Z',
    reason: 'stopped',
    complete: false,
    go_on_before: '2026-11-22T13:52:31.001Z',
    ...changes,
  }
}

export const EXPLAINED: Json = {
  status: 400,
  code: 'validation_failed',
  reason: null,
  message: 'events[0].name: required',
  body_bytes: 311,
  events: null,
  app: { app_id: 'shop', name: 'shop', plan: '5m', subscription: 'active' },
  errors: [],
  limits: {
    minute: { used: 812, limit: 1000, ends_at: '2026-11-22T14:03:00.000Z' },
    day: { used: 41_202, limit: null, ends_at: '2026-11-23T00:00:00.000Z' },
    month: { used: 2_004_311, limit: 5_500_000, ends_at: '2026-12-01T00:00:00.000Z', tolerance_percent: 10 },
  },
}

const OFFENDERS: readonly (readonly [path: string, message: string, place: RegExp])[] = [
  ['events[0].name', 'required', /(?<=\[\s*)\{/],
  ['events[1].context.os', 'length must be at least 1', /"os":\s*""/],
  ['events[1].properties.colour', 'at most 500 characters', /"colour":\s*"[^"]*"/],
]

/** As if all of these were wrong with the body. */
function explained(body: string): Json {
  const errors = OFFENDERS.map(([path, message, place]) => {
    const found = place.exec(body)
    if (found === null) return { path, message, start: null, end: null }
    const start = Buffer.byteLength(body.slice(0, found.index))
    return { path, message, start, end: start + Buffer.byteLength(found[0]) }
  })
  return { ...EXPLAINED, errors }
}

const DAYS: UsageByDay = {
  apps: [
    {
      app_id: 'shop',
      days: wave(118_000, 42_000, 7)
        .slice(0, 35)
        .map((events, at) => ({
          day: new Date(Date.parse(NOW) - (34 - at) * 86_400_000).toISOString().slice(0, 10),
          events: Math.round(at === 34 ? events * 0.6 : events),
        })),
    },
  ],
  read_at: NOW,
}

const MONTH_STARTS = '2026-11-01'
const SHOP_DAYS = DAYS.apps[0].days

/** What fits its days. */
export const SHOP: AppUsage = appOf(6, {
  app_id: 'shop',
  name: 'Storefront',
  plan: '5m',
  minute: { used: 106, limit: 15_000, resets_at: '2026-11-22T14:03:00.000Z' },
  day: { used: SHOP_DAYS[34].events, limit: null, resets_at: '2026-11-23T00:00:00.000Z' },
  month: {
    used: SHOP_DAYS.filter(({ day }) => day >= MONTH_STARTS).reduce((sum, { events }) => sum + events, 0),
    limit: 5_500_000,
    resets_at: '2026-12-01T00:00:00.000Z',
    tolerance_percent: 10,
  },
  events_per_second: 1.8,
  last_hour: { accepted_events: 6402, refused: {} },
  keys: [{ key: 'ak_shop_…c1d', valid_until: null }],
})

const READ_KEYS: ReadKeys = {
  read_keys: [
    {
      name: 'web-team',
      expires_at: null,
      last_used_at: '2026-11-22T13:00:00.000Z',
    },
  ],
}

export const ALERTS: Alerts = {
  alerts: [50, 60].map((percent) => ({
    id: String(percent),
    at: percent === 50 ? '2026-11-18T18:02:00.000Z' : '2026-11-22T09:14:00.000Z',
    app_id: 'shop',
    kind: 'step',
    state: 'raised',
    window: 'month',
    percent,
    used: percent * 55_000,
    limit: 5_500_000,
    window_started_at: '2026-11-01T00:00:00.000Z',
    window_ends_at: '2026-12-01T00:00:00.000Z',
    full_at: null,
  })),
  more: false,
}

export const PORTAL: PortalSession = {
  app: { app_id: 'shop', name: 'Storefront', plan: '5m', subscription: 'active' },
  key: { name: 'web-team', expires_at: null },
  degraded_since: null,
}

/** The portal of one app, which has nothing of the operators. */
export function portalDouble(changes: Partial<AppUsage> = {}): ConsoleDouble {
  const double = busyDouble()
  double.portal = PORTAL
  for (const path of ['/api/now', '/api/search', '/api/example', '/api/apps']) double.answers.delete(path)
  double.answers.set('/api/usage', ({ query }) => ok(query['days'] ? DAYS : { ...SHOP, ...changes }))
  /** Of this app, without what is the operators' alone. */
  const own = (path: string, names: readonly string[]): void => {
    const all = double.answers.get(path)
    if (all === undefined) return
    double.answers.set(path, (asked) => {
      const { status, body } = all({ ...asked, query: { ...asked.query, app: 'shop' } })
      const kept = JSON.stringify(body, (name, value: unknown) => (names.includes(name) ? undefined : value))
      return { status, body: JSON.parse(kept) as unknown }
    })
  }
  own('/api/events', ['node', 'searched_back_to', 'skipped'])
  own('/api/refusals', ['node', 'reason'])
  own('/api/batches', ['reason', 'searched_from', 'searched_to', 'queue_reaches_back_to'])
  own(`/api/batches/${BATCH_ID}`, ['place', 'consumers'])
  own('/api/explain', ['reason'])
  return double
}

/** A double with a busy service behind it: answers may be replaced. */
export function busyDouble(changes: Partial<Now> = {}): ConsoleDouble {
  const double = new ConsoleDouble(busyNow(changes))
  const apps = Array.from({ length: 1000 }, (_, number) => appOf(number))
  const refusals = Array.from({ length: 1000 }, (_, number) => refusalOf(number))
  // Each cause once.
  const groups = Array.from({ length: 18 }, (_, number) => groupOf(number)).filter(
    ({ app_id: app }, at) => at < REFUSED.length || (app !== null && app !== 'legacy'),
  )
  const fits = (one: { app_id: string | null; code: string }, query: Readonly<Record<string, string>>): boolean =>
    (!query['app'] || query['app'] === (one.app_id ?? '-')) && (!query['code'] || query['code'] === one.code)
  const nothing = { searched_back_to: null, complete: true, skipped: 0 }
  double.answers.set('/api/now', () => ok(double.now))
  const events = Array.from({ length: 200 }, (_, at) => sampledEvent(NEWEST_EVENT - 1 - at, { node: null }))
  double.answers.set('/api/events', ({ query }) => {
    const fitting = events.filter(({ app_id: app }) => !query['app'] || query['app'] === app)
    return ok({ events: fitting.slice(0, Number(query['limit'] ?? 200)), ...nothing })
  })
  double.answers.set('/api/search', ({ query }) => {
    const found =
      query['q'] === 'user-41' ? [3, 2, 1].map((at) => Object.assign({ kind: 'user' }, sampledEvent(at))) : []
    return ok({ query: query['q'], found, ...nothing })
  })
  double.answers.set('/api/example', () => ok({ port: 8443, tls: true, app_key: 'ak_demo_1' }))
  double.answers.set('/api/refusals', ({ query }) =>
    ok({
      since: AN_HOUR_AGO,
      refusals: refusals
        .filter((one) => fits(one, query) && (query['request_id'] ?? one.request_id) === one.request_id)
        .slice(0, Number(query['limit'] ?? 100)),
      groups: groups.filter((one) => fits(one, query)),
    }),
  )
  double.answers.set('/api/apps', ({ query }) => {
    const fitting = apps.filter(({ app_id: app }) => !query['app'] || query['app'] === app)
    return ok({ apps: fitting.slice(0, Number(query['top'] ?? 1000)), total_apps: apps.length, read_at: NOW })
  })
  for (const { app_id: app } of apps.slice(0, APPS.length)) {
    double.answers.set(`/api/apps/${app}/usage`, () => ok(DAYS))
    double.answers.set(`/api/apps/${app}/read-keys`, () => ok(READ_KEYS))
  }
  double.answers.set('/api/alerts', () => ok(ALERTS))
  double.answers.set(`/api/batches/${BATCH_ID}`, () => ok(foundBatch()))
  double.answers.set('/api/batches', () => ok(missingBatch()))
  double.answers.set('/api/explain', ({ body }) => ok(explained(body)))
  return double
}
