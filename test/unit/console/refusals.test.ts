import { describe, expect, it } from 'vitest'
import { MAX_APPS_WITH_REFUSALS, MAX_REFUSALS_KEPT } from '../../../src/bounds.ts'
import type { Refusal } from '../../../src/console/refusal.ts'
import { Refusals } from '../../../src/console/refusals.ts'

const MINUTE_MS = 60_000
const NOW_MS = Date.parse('2026-11-20T12:00:30Z')

interface Wish {
  readonly atMs?: number
  readonly id?: string
  readonly app?: string | null
  readonly code?: string
  readonly path?: string | null
  readonly sdk?: string | null
}

function add(refusals: Refusals, wish: Wish = {}): void {
  const { atMs = NOW_MS, id = 'id', app = 'shop', code = 'validation_failed', path = null, sdk = null } = wish
  refusals.add(atMs, id, app, code, path, `${code} of ${id}`, sdk)
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

  it('do not change once they were read', () => {
    const refusals = new Refusals()
    add(refusals, { id: 'first' })
    const [first] = refusals.newest()
    for (let n = 0; n < MAX_REFUSALS_KEPT; n++) add(refusals)
    expect(first.request_id).toBe('first')
  })

  it('are told to who watches, as they are listed', () => {
    const refusals = new Refusals()
    const heard: Refusal[] = []
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

  it('have a 503 under no app, since it is not the fault of one', () => {
    const refusals = new Refusals()
    add(refusals, { app: 'shop', code: 'service_overloaded' })
    expect(rowsOf(refusals)).toEqual([[null, 'service_overloaded', null, null, 1]])
    expect(refusals.newest()[0].app_id).toBe('shop')
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
    expect(refusals.takeLines()).toEqual([
      { app_id: 'shop', code: 'validation_failed', count: 2, message: 'validation_failed of b', request_id: 'b' },
      { app_id: null, code: 'invalid_json', count: 1, message: 'invalid_json of a', request_id: 'a' },
    ])
    expect(refusals.takeLines()).toEqual([])
    add(refusals, { id: 'd' })
    expect(refusals.takeLines()).toMatchObject([{ count: 1, request_id: 'd' }])
  })
})
