// Answers of the admin API for the console's tests and pictures: a busy service, and ways in which it can be ill.

import { CODES, REASONS } from '../../src/console/codes.ts'
import type { AppUsage, Now, Refusal, RefusalGroup, SampledEvent } from '../../src/console/web/api-types.ts'
import { ConsoleDouble, type Json, ok } from './console-double.ts'

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
  const nowMs = Date.now()
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
      refused_per_second: { rate_limit_exceeded: 31, validation_failed: 5.4, invalid_app_key: 0.6 },
      replays_per_second: 2.2,
    },
    latency_seconds: { p50: 0.0021, p99: 0.0061 },
    ring: { used_bytes: 2_013_265, size_bytes: 67_108_864, requests: 14 },
    parser_queue: 0,
    parts: [
      { part: 'queue', kind: 'jetstream', ...UP, latency_seconds: 0.0011, text: 'NATS JetStream' },
      { part: 'limits', kind: 'redis', ...UP, latency_seconds: 0.0004, text: 'in Redis' },
      { part: 'apps', kind: 'bucket', ...UP, latency_seconds: null, text: 'in NATS' },
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
      step_seconds: STEP_MS / 1000,
      from: new Date(Math.floor(nowMs / STEP_MS) * STEP_MS - CELLS * STEP_MS).toISOString(),
      accepted_events_per_second: wave(12_000, 1800),
      refused_ours_per_second: wave(0, 0),
      refused_client_per_second: wave(6, 3, 5),
      refused_limits_per_second: refused,
      p99_seconds: wave(0.0062, 0.0015, 3),
      slowest_consumer_lag_seconds: wave(1.5, 0.8, 4),
    },
    ...changes,
  }
  return { ...now }
}

const NAMES = ['checkout_started', 'product_viewed', 'purchase', 'home', 'search', 'signup_completed', 'cart']
const APPS = ['shop', 'news-reader-for-tablets', 'checkout', 'games', 'maps']

export function sampledEvent(number: number, changes: Partial<SampledEvent> = {}): SampledEvent {
  const type = ['track', 'screen', 'revenue'][number % 3]
  return {
    batch_id: `019a9b0f-7c1e-7a2b-9c3d-${String(number).padStart(12, '0')}`,
    app_id: APPS[number % APPS.length],
    received_at: new Date(Date.UTC(2026, 10, 22, 14, 2, 31) + number * 37).toISOString(),
    sdk_version: '2.1.0',
    node: 'sluice-0',
    index: 0,
    event: {
      type,
      name: NAMES[number % NAMES.length],
      hashed_daily_id: '3f1d9c0ab2e847559d1f4c6b7a80e213',
      hashed_monthly_id: '8a4be0c1d5f24c6f9b3e7d21a0c55f10',
      session_id: `7f0e0bb2-6c3a-4d5e-9a53-${String(number * 7919).padStart(12, '0')}`,
      timestamp: '2026-11-22T14:02:30.911Z',
      context: { os: 'ios', os_version: '19.1', app_version: '4.2.0', locale: 'en_GB', device_type: 'iPhone17,2' },
      properties: { plan: 'yearly', trial: true, source: "friend's link" },
      ...(type === 'revenue' ? { revenue: { amount: 9.99, currency: 'EUR' } } : {}),
    },
    ...changes,
  }
}

const REFUSED = [
  { code: 'validation_failed', message: '' },
  { code: 'invalid_json', message: 'body: not valid JSON at byte 55' },
  { code: 'invalid_app_key', message: 'app_key: not the key of a known application' },
  { code: 'subscription_inactive', message: 'the subscription is canceled, unpaid or paused' },
]
const WRONG = [
  'events[3].context.os: required',
  'events[0].name: length must be 1 to 200',
  'events[12].timestamp: must be an ISO 8601 date and time',
]

export function refusalOf(number: number, changes: Partial<Refusal> = {}): Refusal {
  const of = REFUSED[number % REFUSED.length]
  const message = of.code === 'validation_failed' ? WRONG[number % WRONG.length] : of.message
  return {
    time: new Date(Date.UTC(2026, 10, 22, 14, 2, 31) - number * 731).toISOString(),
    request_id: `${(number * 2_654_435).toString(16).padStart(8, '0')}-11d2-4c3b-9a53-${String(number).padStart(12, '0')}`,
    app_id: of.code === 'invalid_app_key' ? null : APPS[number % APPS.length],
    code: of.code,
    reason: null,
    origin: null,
    path: of.code === 'validation_failed' ? message.slice(0, message.indexOf(':')) : null,
    message,
    sdk_version: of.code === 'invalid_app_key' ? null : '2.1.0',
    node: `sluice-${number % 3}`,
    ...changes,
  }
}

export function groupOf(number: number, changes: Partial<RefusalGroup> = {}): RefusalGroup {
  const { app_id, code: name, reason, origin, path, sdk_version } = refusalOf(number)
  return {
    app_id,
    code: name,
    reason,
    origin,
    path,
    sdk_version,
    sdk_versions: [sdk_version],
    count: Math.round(98_000 / (number + 1) ** 1.7),
    first_at: '2026-11-22T13:04:11.000Z',
    last_at: '2026-11-22T14:02:30.000Z',
    per_minute: wave(20, 18, number + 2)
      .slice(0, 60)
      .map(Math.round),
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
    month: { ...window(5_500_000, '2026-12-01T00:00:00.000Z'), tolerance_percent: 10 },
    events_per_second: 12 * share,
    last_hour: {
      accepted_events: Math.round(42_000 * share),
      refused: number % 4 === 0 ? { rate_limit_exceeded: 9812 } : {},
    },
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

/** A double with a busy service behind it: answers may be replaced. */
export function busyDouble(changes: Partial<Now> = {}): ConsoleDouble {
  const double = new ConsoleDouble(busyNow(changes))
  const apps = Array.from({ length: 1000 }, (_, number) => appOf(number))
  const refusals = Array.from({ length: 1000 }, (_, number) => refusalOf(number))
  const groups = Array.from({ length: 18 }, (_, number) => groupOf(number))
  const fits = (one: { app_id: string | null; code: string }, query: Readonly<Record<string, string>>): boolean =>
    (!query['app'] || query['app'] === (one.app_id ?? '-')) && (!query['code'] || query['code'] === one.code)
  const nothing = { searched_back_to: null, complete: true, skipped: 0 }
  double.answers.set('/api/now', () => ok(double.now))
  double.answers.set('/api/events', () => ok({ events: [], ...nothing }))
  double.answers.set('/api/search', ({ query }) => {
    const found =
      query['q'] === 'user-41' ? [3, 2, 1].map((at) => Object.assign({ kind: 'user' }, sampledEvent(at))) : []
    return ok({ query: query['q'], found, ...nothing })
  })
  double.answers.set('/api/example', () => ok({ port: 8443, tls: true, app_key: 'ak_demo_1' }))
  double.answers.set('/api/codes', () => ok({ codes: CODES, reasons: REASONS }))
  double.answers.set('/api/refusals', ({ query }) =>
    ok({
      refusals: refusals
        .filter((one) => fits(one, query) && (query['request_id'] ?? one.request_id) === one.request_id)
        .slice(0, Number(query['limit'] ?? 100)),
      groups: groups.filter((one) => fits(one, query)),
    }),
  )
  double.answers.set('/api/apps', () => ok({ apps, total_apps: apps.length, read_at: '2026-11-22T14:02:31.000Z' }))
  double.answers.set(`/api/batches/${BATCH_ID}`, () => ok(foundBatch()))
  double.answers.set('/api/batches', () => ok(missingBatch()))
  double.answers.set('/api/explain', ({ body }) => ok(explained(body)))
  return double
}
