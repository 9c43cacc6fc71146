// What the load scripts draw and count with: Zipf's law, the fleet, backoff, and the windows of the queue.

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { waitSeconds } from '../../../load/k6/shared/backoff.js'
import { createFleetPicker, makeFleet, waveRates } from '../../../load/k6/shared/fleet.js'
import { enforcedMonth, limitRecords, windowEndSeconds } from '../../../load/k6/shared/limit-apps.js'
import { createPicker, zipfShares } from '../../../load/k6/shared/zipf.js'
import { createRng } from '../../../load/payloads.js'
import { AcceptedEvents, windowsOverLimit } from '../../../load/run/verify-limits.js'
import { faultsOfFleet } from '../../../load/run/verify-mixed.js'
import { appOf, checkRecords } from '../../../src/apps/app-record.ts'
import { cycleAt } from '../../../src/apps/plans.ts'

const FLEET = { seed: 7, apps: 200, exponent: 1, requestsPerSecond: 100, minutes: 2 }

describe('Zipf’s law', () => {
  test('the second sends half of what the first sends, and the shares are a whole', () => {
    const shares = zipfShares(100, 1)
    expect(shares[1] / shares[0]).toBeCloseTo(0.5)
    expect(shares.reduce((sum, share) => sum + share, 0)).toBeCloseTo(1)
    expect(new Set(zipfShares(5, 0)).size).toBe(1)
  })

  test('a picker draws each index for as much of the line as its share', () => {
    const shares = fc.array(fc.integer({ min: 1, max: 50 }), { minLength: 1, maxLength: 40 })
    fc.assert(
      fc.property(shares, fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }), (list, random) => {
        const total = list.reduce((sum, share) => sum + share, 0)
        let [naive, sum] = [0, list[0]]
        while (sum <= random * total) sum += list[++naive]
        expect(createPicker(list)(random)).toBe(naive)
      }),
    )
  })
})

describe('the fleet', () => {
  test('is the same for the same seed, and its records are what the service takes', () => {
    const fleet = makeFleet(FLEET)
    expect(makeFleet(FLEET)).toEqual(fleet)
    const apps = fleet.flatMap(({ record }) => (record === null ? [] : [record]))
    expect(checkRecords({ apps })).toMatchObject({ kind: 'records' })
    expect(new Set(fleet.map(({ kind }) => kind)).size).toBe(7)
  })

  test('keeps apps within their limits under them, and sends the others beyond', () => {
    const fleet = makeFleet(FLEET)
    const known = checkRecords({ apps: fleet.flatMap(({ record }) => (record === null ? [] : [record])) })
    if (known.kind !== 'records') throw new Error('the fleet has bad records')
    const limits = new Map(known.records.map(appOf).map((app) => [app.appKey, app]))
    const pick = createFleetPicker(fleet)
    const rng = createRng(3)
    for (let round = 0; round < 20; round++) {
      const sent = new Map<string, number>()
      for (let turn = 0; turn < FLEET.requestsPerSecond * 60; turn++) {
        const { app, events } = pick(rng)
        sent.set(app.appKey, (sent.get(app.appKey) ?? 0) + events)
      }
      for (const { appKey, kind } of fleet) {
        const perMinute = limits.get(appKey)?.eventsPerMinute ?? Number.POSITIVE_INFINITY
        if (kind === 'within') expect(sent.get(appKey) ?? 0, appKey).toBeLessThanOrEqual(perMinute)
      }
      const over = fleet.find(({ kind }) => kind === 'minute')
      const perMinute = limits.get(over?.appKey ?? '')?.eventsPerMinute ?? 0
      expect(sent.get(over?.appKey ?? '') ?? 0).toBeGreaterThan(perMinute)
    }
  })

  test('a queue with events of an app that may not send is found out', () => {
    const fleet = makeFleet(FLEET)
    const idOf = (wanted: string): string => fleet.find(({ kind }) => kind === wanted)?.record?.app_id ?? 'none'
    const accepted = new AcceptedEvents()
    const add = (app_id: string): void =>
      accepted.add({ app_id, received_at: '2026-11-21T12:00:00.000Z', events: [{}] })
    add(idOf('within'))
    expect(faultsOfFleet(accepted, fleet, { isFresh: true })).toEqual([])
    for (const kind of ['inactive', 'expired']) add(idOf(kind))
    add('somebody')
    expect(faultsOfFleet(accepted, fleet, { isFresh: true })).toHaveLength(3)
  })

  test('rises and falls between its two rates', () => {
    const rates = waveRates({ low: 30, high: 100, waves: 3 })
    expect(rates).toHaveLength(24)
    expect([Math.min(...rates), Math.max(...rates)]).toEqual([30, 100])
    expect(rates[7]).toBe(30)
    expect(rates[3]).toBe(100)
  })
})

describe('backoff', () => {
  test('never comes back sooner than it was told, and never later than its ceiling', () => {
    const attempts = fc.integer({ min: 0, max: 60 })
    fc.assert(
      fc.property(attempts, fc.integer({ min: 0, max: 60 }), fc.nat(), (attempt, retryAfterSeconds, seed) => {
        const waited = waitSeconds({ attempt, retryAfterSeconds, rng: createRng(seed) })
        expect(waited).toBeGreaterThanOrEqual(retryAfterSeconds)
        expect(waited).toBeLessThanOrEqual(retryAfterSeconds + Math.min(5, 0.1 * 2 ** attempt))
      }),
    )
  })
})

describe('windows of the queue', () => {
  const limits = [{ appId: 'a', perMinute: 3, perDay: 4, perMonth: 5 }]
  const filled = (...times: string[]): AcceptedEvents => {
    const accepted = new AcceptedEvents()
    for (const received_at of times) accepted.add({ app_id: 'a', received_at, events: [{}] })
    return accepted
  }

  test('are full and not over at their limit', () => {
    const list = ['12:00:00', '12:00:59.999', '12:00:30', '12:01:00'].map((time) => `2026-11-20T${time}Z`)
    expect(windowsOverLimit(filled(...list, '2026-11-21T00:00:00Z'), limits)).toEqual([])
  })

  test('are found where they are over it, each by itself', () => {
    const times = ['12:00:00', '12:00:10', '12:00:20', '12:00:30', '13:00:00'].map((time) => `2026-11-20T${time}Z`)
    expect(windowsOverLimit(filled(...times, '2026-11-21T00:00:00Z'), limits)).toEqual([
      'a: 4 events of 3 in the minute 2026-11-20T12:00',
      'a: 5 events of 4 on 2026-11-20',
      'a: 6 events of 5 in the month',
    ])
  })

  test('a record without a time is not passed over', () => {
    expect(() => filled('yesterday')).toThrow('no time')
  })

  test('end where the service says that they end', () => {
    const read = checkRecords({ apps: limitRecords(300) })
    if (read.kind !== 'records') throw new Error('the limited apps have bad records')
    const apps = read.records.map(appOf)
    const moments = fc.integer({ min: Date.UTC(2026, 0, 1), max: Date.UTC(2030, 0, 1) })
    fc.assert(
      fc.property(moments, (nowMs) => {
        for (const [index, record] of limitRecords(300).entries()) {
          const { endMs } = cycleAt(apps[index].billingAnchorMs, nowMs)
          expect(windowEndSeconds(record, 'monthly_limit_exceeded', nowMs)).toBe(endMs / 1000)
        }
      }),
    )
    for (const [index, record] of limitRecords(300).entries()) {
      if (record.events_per_month !== undefined) expect(enforcedMonth(record)).toBe(apps[index].eventsPerMonth)
    }
  })
})
