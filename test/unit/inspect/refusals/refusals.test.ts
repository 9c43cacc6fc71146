import { describe, expect, it } from 'vitest'
import {
  MAX_APPS_WITH_KEPT_REFUSALS,
  MAX_APPS_WITH_REFUSALS,
  MAX_REFUSALS_KEPT,
  MAX_REFUSALS_KEPT_PER_APP,
} from '../../../../src/contract/bounds.ts'
import type { OverloadReason, RefusalReason } from '../../../../src/contract/outcome.ts'
import type { OwnRefusal } from '../../../../src/inspect/refusals/refusal.ts'
import { Refusals } from '../../../../src/inspect/refusals/refusals.ts'
import { refusalForApp } from '../../../../src/inspect/scope.ts'
import { aRefusal } from '../reports.ts'

const MINUTE_MS = 60_000
const NOW_MS = Date.parse('2026-11-20T12:00:30Z')

interface Wish {
  readonly atMs?: number
  readonly id?: string
  readonly app?: string | null
  readonly code?: string
  readonly reason?: RefusalReason
  readonly path?: string | null
  readonly sdk?: string | null
}

function add(refusals: Refusals, wish: Wish = {}): void {
  const { atMs = NOW_MS, id = 'id', app = 'shop', reason = null, path = null, sdk = null } = wish
  const code = wish.code ?? (reason === null ? 'validation_failed' : 'service_overloaded')
  const what = { time_ms: atMs, request_id: id, app_id: app, code, reason, path, sdk_version: sdk }
  refusals.add(aRefusal({ ...what, message: `${code} of ${id}` }))
}

function rowsOf(refusals: Refusals, nowMs = NOW_MS) {
  return refusals.rows(nowMs).map(({ app_id, code, path, sdk_version, count }) => {
    return [app_id, code, path, sdk_version, count]
  })
}

describe('the newest refusals', () => {
  it('are kept up to 1,000, newest first', () => {
    const refusals = new Refusals()
    for (let n = 0; n < 3; n++) add(refusals, { id: String(n) })
    expect(refusals.newest().map(({ request_id }) => request_id)).toEqual(['2', '1', '0'])
    for (let n = 3; n < 2500; n++) add(refusals, { id: String(n) })
    const ids = refusals.newest().map(({ request_id }) => Number(request_id))
    expect(ids).toEqual(Array.from({ length: MAX_REFUSALS_KEPT }, (_, age) => 2499 - age))
  })

  it('are kept of each app up to 50, whatever others have', () => {
    const refusals = new Refusals()
    const idsOf = (app: string | null) => refusals.newestOf(app).map(({ request_id }) => request_id)
    for (let n = 0; n < 60; n++) add(refusals, { app: 'quiet', id: `quiet-${n}` })
    add(refusals, { app: null, id: 'nobody' })
    expect(refusals.withId('quiet-3')).toMatchObject({ app_id: 'quiet', request_id: 'quiet-3' })
    // Those of one app, while the newest of all still have them, are all that there are.
    expect(idsOf('quiet')).toHaveLength(60)
    for (let n = 0; n < 5000; n++) add(refusals, { app: 'loud', id: `loud-${n}` })
    expect(idsOf('quiet')).toEqual(Array.from({ length: MAX_REFUSALS_KEPT_PER_APP }, (_, age) => `quiet-${59 - age}`))
    expect(idsOf(null)).toEqual(['nobody'])
    expect(idsOf('loud')).toHaveLength(MAX_REFUSALS_KEPT)
    expect(idsOf('other')).toEqual([])
    expect(refusals.withId('quiet-10')).toMatchObject({ app_id: 'quiet', request_id: 'quiet-10' })
    expect(refusals.withId('nobody')).toMatchObject({ app_id: null })
    expect(refusals.withId('loud-4000')).toMatchObject({ app_id: 'loud' })
    for (const gone of ['quiet-9', 'loud-3999', 'other']) expect(refusals.withId(gone)).toBeNull()
  })

  it('are kept of the 2,000 apps that were refused last', () => {
    const refusals = new Refusals()
    add(refusals, { app: 'first' })
    for (let n = 1; n < MAX_APPS_WITH_KEPT_REFUSALS; n++) {
      add(refusals, { app: `app-${n}`, id: `of-${n}` })
      if (n === 1500) add(refusals, { app: 'first', id: 'again' })
    }
    for (let n = 0; n < 1000; n++) add(refusals, { app: `late-${n}`, id: `late-${n}` })
    expect(refusals.newestOf('first').map(({ request_id }) => request_id)).toEqual(['again', 'id'])
    expect(refusals.newestOf('app-999')).toEqual([])
    expect(refusals.withId('of-999')).toBeNull()
    // Where an app had been, the entries are another's now.
    expect(refusals.newestOf('late-0').map(({ request_id }) => request_id)).toEqual(['late-0'])
    expect(refusals.newestOf('app-1001').map(({ request_id }) => request_id)).toEqual(['of-1001'])
  })

  it('do not change once they were read', () => {
    const refusals = new Refusals()
    add(refusals, { id: 'first' })
    const [first] = refusals.newest()
    for (let n = 0; n < MAX_REFUSALS_KEPT; n++) add(refusals)
    expect(first.request_id).toBe('first')
  })

  it('are told to who watches, as they are listed', () => {
    const refusals = new Refusals()
    const heard: OwnRefusal[] = []
    refusals.onRefused = (refusal) => heard.push(refusal)
    add(refusals, { id: 'one', app: null, sdk: '2' })
    expect(heard).toEqual(refusals.newest())
    add(refusals, { id: 'two' })
    expect(heard.map(({ request_id }) => request_id)).toEqual(['one', 'two'])
  })
})

describe('the counts of the last hour', () => {
  it('are by app, code, path and SDK version, the most frequent first; items of arrays are alike', () => {
    const refusals = new Refusals()
    add(refusals, { path: 'events[0].name', sdk: '1' })
    add(refusals, { path: 'events[99].name', sdk: '1' })
    add(refusals, { path: 'events[0].name', sdk: '2' })
    for (let n = 0; n < 3; n++) add(refusals, { app: null, code: 'not_found' })
    expect(rowsOf(refusals)).toEqual([
      [null, 'not_found', null, null, 3],
      ['shop', 'validation_failed', 'events[*].name', '1', 2],
      ['shop', 'validation_failed', 'events[*].name', '2', 1],
    ])
  })

  it('have 503s by their reason, under their app where it is known', () => {
    const refusals = new Refusals()
    for (let n = 0; n < 3; n++) add(refusals, { app: null, reason: 'ring_full' })
    for (let n = 0; n < 2; n++) add(refusals, { app: 'shop', reason: 'nats_away' })
    add(refusals, { app: 'shop', reason: 'in_doubt' })
    expect(refusals.rows(NOW_MS)).toMatchObject([
      { app_id: null, code: 'service_overloaded', reason: 'ring_full', count: 3 },
      { app_id: 'shop', code: 'service_overloaded', reason: 'nats_away', count: 2 },
      { app_id: 'shop', code: 'service_overloaded', reason: 'in_doubt', count: 1 },
    ])
    expect(refusals.newest()[0]).toMatchObject({ app_id: 'shop', reason: 'in_doubt' })
  })

  it('have 503s of more than 200 apps under no app, and no app gives way for one', () => {
    const refusals = new Refusals()
    for (let n = 0; n < MAX_APPS_WITH_REFUSALS; n++) add(refusals, { app: `app-${n}` })
    for (let n = 0; n < 3000; n++) add(refusals, { app: `other-${n}`, reason: 'ring_full' })
    const rows = refusals.rows(NOW_MS)
    expect(rows).toHaveLength(MAX_APPS_WITH_REFUSALS + 1)
    expect(rows[0]).toMatchObject({ app_id: null, reason: 'ring_full', count: 3000 })
    // An hour later the lines of the log make room.
    const laterMs = NOW_MS + 61 * MINUTE_MS
    refusals.takeLines(laterMs)
    add(refusals, { app: 'other-1', reason: 'ring_full', atMs: laterMs })
    expect(refusals.rows(laterMs)).toMatchObject([{ app_id: 'other-1', reason: 'ring_full', count: 1 }])
  })

  it('are forgotten minute by minute', () => {
    const refusals = new Refusals()
    add(refusals, { atMs: NOW_MS })
    add(refusals, { atMs: NOW_MS + 1000 })
    add(refusals, { atMs: NOW_MS + 2 * MINUTE_MS })
    const [row] = refusals.rows(NOW_MS + 2 * MINUTE_MS)
    expect(row).toMatchObject({ count: 3, first_ms: NOW_MS, last_ms: NOW_MS + 2 * MINUTE_MS })
    expect(row.per_minute).toEqual([...Array.from({ length: 57 }, () => 0), 2, 0, 1])
    const [late] = refusals.rows(NOW_MS + 60 * MINUTE_MS)
    expect(late).toMatchObject({ count: 1, first_ms: NOW_MS - 30_000 + 2 * MINUTE_MS })
    expect(refusals.rows(NOW_MS + 62 * MINUTE_MS)).toEqual([])
  })

  it('agree with a plain count, whatever the times', () => {
    const refusals = new Refusals()
    const times: number[] = []
    let nowMs = NOW_MS
    for (let n = 0; n < 2000; n++) {
      nowMs += (n % 7) * 17_000
      times.push(nowMs)
      add(refusals, { atMs: nowMs })
      const fromMinute = Math.floor(nowMs / MINUTE_MS) - 59
      const inHour = times.filter((atMs) => Math.floor(atMs / MINUTE_MS) >= fromMinute)
      const [row] = refusals.rows(nowMs)
      expect(row.count).toBe(inHour.length)
      expect(row.per_minute.reduce((sum, count) => sum + count, 0)).toBe(inHour.length)
    }
  })

  it('go on where the clock is set back, by seconds and by days', () => {
    const refusals = new Refusals()
    add(refusals, { atMs: NOW_MS })
    add(refusals, { atMs: NOW_MS - 10 * MINUTE_MS })
    expect(rowsOf(refusals, NOW_MS - 10 * MINUTE_MS)[0]?.at(-1)).toBe(2)
    add(refusals, { atMs: NOW_MS - 5000 * MINUTE_MS })
    expect(rowsOf(refusals, NOW_MS - 5000 * MINUTE_MS)[0]?.at(-1)).toBe(1)
  })

  it('are of at most 20 groups an app; what is beyond counts with its code alone', () => {
    const refusals = new Refusals()
    for (let n = 0; n < 100; n++) add(refusals, { sdk: `1.${n}` })
    add(refusals, { sdk: '1.5' })
    const rows = rowsOf(refusals)
    expect(rows).toHaveLength(21)
    expect(rows[0]).toEqual(['shop', 'validation_failed', null, null, 80])
    expect(rows[1]).toEqual(['shop', 'validation_failed', null, '1.5', 2])
    // After an hour without them, others have their place.
    add(refusals, { sdk: '2', atMs: NOW_MS + 61 * MINUTE_MS })
    expect(rowsOf(refusals, NOW_MS + 61 * MINUTE_MS)).toEqual([['shop', 'validation_failed', null, '2', 1]])
  })

  it('are of the 200 apps with the most, and of none', () => {
    const refusals = new Refusals()
    add(refusals, { app: null })
    for (let n = 0; n < MAX_APPS_WITH_REFUSALS; n++) {
      for (let times = 0; times < 3; times++) add(refusals, { app: `big-${n}` })
    }
    for (let n = 0; n < 1000; n++) add(refusals, { app: `small-${n}` })
    const apps = refusals.rows(NOW_MS).map(({ app_id }) => app_id)
    expect(apps).toHaveLength(MAX_APPS_WITH_REFUSALS + 1)
    expect(apps).toContain(null)
    expect(apps.filter((app) => app?.startsWith('big-'))).toHaveLength(MAX_APPS_WITH_REFUSALS - 1)
    expect(apps).toContain('small-999')
  })

  it('keep an app that is refused again while thousands of others are refused once', () => {
    const refusals = new Refusals()
    for (let n = 0; n < 5000; n++) {
      add(refusals, { app: `once-${n}` })
      if (n % MAX_APPS_WITH_REFUSALS < 2) add(refusals, { app: 'again' })
    }
    const rows = refusals.rows(NOW_MS)
    expect(rows[0]).toMatchObject({ app_id: 'again', count: 50 })
    expect(new Set(rows.map(({ app_id }) => app_id)).size).toBe(MAX_APPS_WITH_REFUSALS)
  })
})

describe('the lines of the log', () => {
  it('are one for each app and code since the last time, with the first message and id, the most frequent first', () => {
    const refusals = new Refusals()
    add(refusals, { id: 'a', code: 'invalid_json', app: null })
    add(refusals, { id: 'b' })
    add(refusals, { id: 'c', sdk: '2' })
    expect(refusals.takeLines(NOW_MS)).toEqual([
      {
        app_id: 'shop',
        code: 'validation_failed',
        reason: null,
        origin: null,
        count: 2,
        message: 'validation_failed of b',
        request_id: 'b',
      },
      {
        app_id: null,
        code: 'invalid_json',
        reason: null,
        origin: null,
        count: 1,
        message: 'invalid_json of a',
        request_id: 'a',
      },
    ])
    expect(refusals.takeLines(NOW_MS)).toEqual([])
    add(refusals, { id: 'd' })
    expect(refusals.takeLines(NOW_MS)).toMatchObject([{ count: 1, request_id: 'd' }])
  })

  it('have 503s first, one line for each reason, whatever the apps', () => {
    const refusals = new Refusals()
    for (let n = 0; n < 5; n++) add(refusals)
    add(refusals, { app: 'a', reason: 'nats_away', id: 'x' })
    add(refusals, { app: 'b', reason: 'nats_away' })
    add(refusals, { app: null, reason: 'ring_full' })
    expect(refusals.takeLines(NOW_MS)).toMatchObject([
      { app_id: null, code: 'service_overloaded', reason: 'nats_away', count: 2, request_id: 'x' },
      { app_id: null, code: 'service_overloaded', reason: 'ring_full', count: 1 },
      { app_id: 'shop', count: 5 },
    ])
    expect(refusals.takeLines(NOW_MS)).toEqual([])
  })
})

it('a reason of a 503 is new where it did not appear for a minute', () => {
  const refusals = new Refusals()
  const appeared: unknown[] = []
  refusals.onOverload = ({ reason, request_id: id }) => appeared.push([reason, id])
  const at = (seconds: number, reason: OverloadReason) =>
    add(refusals, { atMs: NOW_MS + seconds * 1000, reason, id: `${seconds}` })
  at(0, 'nats_away')
  at(1, 'nats_away')
  at(2, 'in_doubt')
  // It goes on: only the lines of the minute say so.
  for (let seconds = 3; seconds < 300; seconds += 50) at(seconds, 'nats_away')
  refusals.takeLines(NOW_MS + 60_000)
  add(refusals, { atMs: NOW_MS + 61_000 })
  at(330, 'in_doubt')
  at(330, 'nats_away')
  expect(appeared).toEqual([
    ['nats_away', '0'],
    ['in_doubt', '2'],
    ['in_doubt', '330'],
    ['nats_away', '330'],
  ])
})

describe('a 429 for its bytes', () => {
  const over = { code: 'rate_limit_exceeded', sdk: '1.0.0' } as const

  it('is a cause and a line of its own beside one for its events, and no 503', () => {
    const refusals = new Refusals()
    let overloads = 0
    refusals.onOverload = () => void overloads++
    add(refusals, over)
    for (let n = 0; n < 2; n++) add(refusals, { ...over, reason: 'bytes' })
    expect(refusals.rows(NOW_MS)).toMatchObject([
      { app_id: 'shop', code: 'rate_limit_exceeded', reason: 'bytes', count: 2 },
      { app_id: 'shop', code: 'rate_limit_exceeded', reason: null, count: 1 },
    ])
    expect(refusals.takeLines(NOW_MS)).toMatchObject([
      { app_id: 'shop', reason: 'bytes', count: 2 },
      { app_id: 'shop', reason: null, count: 1 },
    ])
    expect(overloads).toBe(0)
  })

  it('is told to its developers as to the client, and a 503 without its reason', () => {
    const refusal = { ...aRefusal({ code: 'rate_limit_exceeded', reason: 'bytes' }), time: '', node: 'n' }
    expect(refusalForApp(refusal)).toMatchObject({ code: 'rate_limit_exceeded', reason: 'bytes' })
    const overload = { ...aRefusal({ code: 'service_overloaded', reason: 'ring_full' }), time: '', node: 'n' }
    expect(Object.keys(refusalForApp(overload))).not.toContain('reason')
  })
})
