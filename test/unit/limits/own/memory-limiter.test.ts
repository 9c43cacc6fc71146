// What the contract of every admission (test/integration/admission-contract.test.ts) and the models of the property test do not
// show: clocks that are wrong for long, anchors that move, days, dumps and what a caller must not do.

import { describe, expect, it } from 'vitest'
import { trialView } from '../../../../src/apps/plans.ts'
import type { LimiterDump } from '../../../../src/limits/own/limiter-dump.ts'
import { MemoryLimiter } from '../../../../src/limits/own/memory-limiter.ts'
import { anApp } from '../../apps/apps.ts'

const NOON_MS = Date.UTC(2026, 10, 20, 12)
const MINUTE_MS = 60_000
const DAY_MS = 86_400_000

describe('a take', () => {
  it('of an empty batch costs 1 of the minute; a negative count throws', () => {
    const limiter = new MemoryLimiter()
    expect(limiter.take(anApp({ eventsPerMonth: 0 }), 0, NOON_MS)).toBe(NOON_MS)
    for (const events of [-1, Number.NaN]) expect(() => limiter.take(anApp(), events, NOON_MS)).toThrow('cannot hold')
    expect(limiter.usage(anApp(), NOON_MS)).toMatchObject({
      minute: { used: 1 },
      day: { used: 0 },
      month: { used: 0 },
    })
  })
})

describe('giving back', () => {
  it('throws for more than is in flight', () => {
    const limiter = new MemoryLimiter()
    limiter.take(anApp(), 10, NOON_MS)
    limiter.commit(anApp(), 10, NOON_MS)
    expect(() => limiter.refund(anApp(), 10, NOON_MS, NOON_MS)).toThrow('in flight')
  })
})

describe('a clock that steps back', () => {
  it('by a minute or more resets the windows, so that apps do not stay in one until it has caught up', () => {
    const limiter = new MemoryLimiter()
    const app = anApp({ eventsPerMinute: 10 })
    expect(limiter.take(app, 10, NOON_MS + DAY_MS)).toBeTypeOf('number')
    expect(limiter.take(app, 10, NOON_MS)).toBeTypeOf('number')
    expect(limiter.take(app, 1, NOON_MS)).toBe('rate_limit_exceeded')
    expect(limiter.take(app, 10, NOON_MS + 60_000)).toBeTypeOf('number')
  })

  it.each([
    ['back and right again', -2],
    ['ahead and right again', 2],
    ['an hour ahead and right again', 60],
    ['a day back and right again', -1440],
  ])('(%s) gives no minute and no day out twice', (_, minutes) => {
    const limiter = new MemoryLimiter()
    const app = anApp({ eventsPerMinute: 200, eventsPerDay: 300 })
    const wrongMs = NOON_MS + minutes * MINUTE_MS
    const taken = (events: number, nowMs: number): boolean => {
      const takenAtMs = limiter.take(app, events, nowMs)
      if (typeof takenAtMs === 'number') limiter.commit(app, events, takenAtMs)
      return typeof takenAtMs === 'number'
    }
    expect(taken(200, NOON_MS)).toBe(true)
    expect(taken(30, wrongMs)).toBe(true)
    expect(limiter.usage(app, NOON_MS).minute.used).toBe(200)
    expect(limiter.view(app, NOON_MS).remaining).toBe(0)
    expect(taken(1, NOON_MS + 1)).toBe(false)
    const onDay = Math.abs(minutes) < 720 ? 230 : 200
    expect(limiter.usage(app, NOON_MS + 2).day.used).toBe(onDay)
    expect(limiter.dump().apps[0]).toMatchObject({ minuteUsed: 200, dayUsed: onDay })
    expect(limiter.usage(app, wrongMs).minute.used).toBe(30)
    expect(taken(171, wrongMs)).toBe(false)
    expect(limiter.usage(app, NOON_MS + 3).minute.used).toBe(200)
    expect(taken(300 - onDay, NOON_MS + 10 * MINUTE_MS)).toBe(true)
    expect(taken(1, NOON_MS + 10 * MINUTE_MS)).toBe(false)
  })

  it('and forward again, while requests are in flight, ends none of them with an error', () => {
    const limiter = new MemoryLimiter()
    const app = anApp()
    limiter.take(app, 5, NOON_MS)
    limiter.take(app, 1, NOON_MS - 2 * MINUTE_MS)
    limiter.take(app, 2, NOON_MS + 1)
    limiter.refund(app, 5, NOON_MS, NOON_MS + 2)
    limiter.commit(app, 1, NOON_MS - 2 * MINUTE_MS)
    limiter.commit(app, 2, NOON_MS + 1)
    expect(limiter.usage(app, NOON_MS + 3).minute.used).toBeGreaterThanOrEqual(2)
  })

  it('by a minute or more keeps the count of the month', () => {
    const limiter = new MemoryLimiter()
    const app = anApp({ eventsPerMonth: 10 })
    expect(limiter.take(app, 10, NOON_MS + DAY_MS)).toBeTypeOf('number')
    expect(limiter.take(app, 1, NOON_MS)).toBe('monthly_limit_exceeded')
  })
})

describe('a changed record', () => {
  it('with a new anchor opens no new month, and neither does changing back', () => {
    const limiter = new MemoryLimiter()
    const old = anApp({ eventsPerMonth: 100 })
    const moved = { ...old, billingAnchorMs: NOON_MS }
    expect(limiter.take(old, 90, NOON_MS)).toBeTypeOf('number')
    expect(limiter.usage(moved, NOON_MS).month.used).toBe(90)
    expect(limiter.take(moved, 11, NOON_MS)).toBe('monthly_limit_exceeded')
    expect(limiter.take(moved, 10, NOON_MS)).toBeTypeOf('number')
    expect(limiter.usage(old, NOON_MS).month.used).toBe(100)
    expect(limiter.take(old, 1, NOON_MS)).toBe('monthly_limit_exceeded')
  })

  it('with a new anchor counts the days of the new cycle, the first one whole, and no earlier ones', () => {
    const limiter = new MemoryLimiter()
    const old = anApp({ eventsPerMonth: 100 })
    for (let day = 0; day < 5; day++) limiter.take(old, 10, NOON_MS + day * DAY_MS)
    const nowMs = NOON_MS + 5 * DAY_MS
    const anchored = (days: number) => ({ ...old, billingAnchorMs: NOON_MS + days * DAY_MS + 1 })
    expect(limiter.usage(anchored(3), nowMs).month.used).toBe(20)
    expect(limiter.usage(anchored(-1), nowMs).month.used).toBe(50)
    // It began after the last event.
    expect(limiter.usage(anchored(4), nowMs).month.used).toBe(0)
  })

  it.each([
    ['with its days', (dump: LimiterDump) => dump],
    [
      'made by 0.3',
      (dump: LimiterDump) => ({
        ...dump,
        apps: dump.apps.map(({ appId, minuteUsed, dayUsed, cycles }) => ({ appId, minuteUsed, dayUsed, cycles })),
      }),
    ],
  ])('with a new anchor after a restart opens no new month either, from a dump %s', (_, dumped) => {
    const live = new MemoryLimiter()
    const old = anApp({ eventsPerMonth: 100 })
    for (let day = 0; day < 5; day++) {
      const atMs = NOON_MS + day * DAY_MS
      live.take(old, 10, atMs)
      live.commit(old, 10, atMs)
    }
    const restarted = new MemoryLimiter()
    const nowMs = NOON_MS + 5 * DAY_MS
    restarted.restore(JSON.parse(JSON.stringify(dumped(live.dump()))), nowMs)
    // A record of yesterday that the dump does not have.
    restarted.addUsage(old, old.appId, 5, nowMs - DAY_MS)
    const moved = { ...old, billingAnchorMs: NOON_MS }
    expect(restarted.usage(moved, nowMs).month.used).toBe(55)
    expect(restarted.take(moved, 46, nowMs)).toBe('monthly_limit_exceeded')
    expect(restarted.take(moved, 45, nowMs)).toBeTypeOf('number')
  })

  it('with a new anchor that gives the same cycle changes nothing', () => {
    const limiter = new MemoryLimiter()
    const old = anApp({ eventsPerMonth: 100 })
    limiter.take(old, 90, NOON_MS)
    expect(limiter.take({ ...old, billingAnchorMs: 0 }, 11, NOON_MS)).toBe('monthly_limit_exceeded')
  })

  it('keeps a bounded number of cycles, however often the anchor moves', () => {
    const limiter = new MemoryLimiter()
    for (let day = 1; day <= 20; day++) limiter.take(anApp({ billingAnchorMs: day * DAY_MS }), 1, NOON_MS)
    expect(limiter.dump().apps[0].cycles).toHaveLength(4)
  })
})

describe('the view', () => {
  it('shows full limits for an unknown app, and keeps nothing of it', () => {
    const limiter = new MemoryLimiter()
    expect(limiter.view(anApp(), NOON_MS + 1)).toEqual({
      limit: 500,
      remaining: 500,
      resetUnixSeconds: NOON_MS / 1000 + 60,
    })
    expect(limiter.usage(anApp({ eventsPerDay: 9 }), NOON_MS)).toEqual({
      atMs: NOON_MS,
      minute: { limit: 500, used: 0, endsAtMs: NOON_MS + MINUTE_MS },
      day: { limit: 9, used: 0, endsAtMs: NOON_MS + DAY_MS / 2 },
      month: { limit: 110_000, used: 0, endsAtMs: Date.UTC(2026, 11, 1) },
    })
    expect(limiter.dump().apps).toEqual([])
  })

  it('shows the full trial plan before the app is known', () => {
    expect(trialView(NOON_MS + 59_999)).toEqual({ limit: 200, remaining: 200, resetUnixSeconds: NOON_MS / 1000 + 60 })
    expect(trialView(NOON_MS + 60_000).resetUnixSeconds).toBe(NOON_MS / 1000 + 120)
  })
})

describe('usage by day', () => {
  const TODAY = Math.floor(NOON_MS / DAY_MS)
  const MIDNIGHT_MS = (TODAY + 1) * DAY_MS
  const again = (limiter: MemoryLimiter, nowMs: number) => {
    const restarted = new MemoryLimiter()
    restarted.restore(JSON.parse(JSON.stringify(limiter.dump())), nowMs)
    return restarted
  }

  it('goes 35 days back, today included, through restarts', () => {
    let limiter = new MemoryLimiter()
    const app = anApp()
    for (let day = 0; day < 40; day++) {
      limiter.commit(app, day + 1, limiter.take(app, day + 1, NOON_MS + day * DAY_MS) as number)
      if (day % 3 === 0) limiter = again(limiter, NOON_MS + day * DAY_MS + 1)
    }
    const days = limiter.days('demo', NOON_MS + 39 * DAY_MS)
    expect([...days].toSorted(([one], [other]) => one - other)).toEqual(
      Array.from({ length: 35 }, (_, at) => [TODAY + 5 + at, at + 6]),
    )
    expect(limiter.days('other', NOON_MS)).toEqual(new Map())
  })

  it('has on its day what was taken right before midnight, and not what was given back after it', () => {
    const limiter = new MemoryLimiter()
    const app = anApp()
    const taken = [3, 5, 7].map((events) => limiter.take(app, events, MIDNIGHT_MS - 1) as number)
    limiter.take(app, 1, MIDNIGHT_MS)
    // What is in flight is in the journal or nowhere.
    expect(again(limiter, MIDNIGHT_MS).days('demo', MIDNIGHT_MS)).toEqual(new Map())
    limiter.commit(app, 3, taken[0])
    limiter.refund(app, 5, taken[1], MIDNIGHT_MS + 1)
    expect(limiter.days('demo', MIDNIGHT_MS + 1).get(TODAY)).toBe(3)
    expect(
      again(limiter, MIDNIGHT_MS + 1)
        .days('demo', MIDNIGHT_MS + 1)
        .get(TODAY),
    ).toBe(3)
  })

  it('begins with the upgrade from 0.3, which knew a sum and no days', () => {
    const old = { appId: 'demo', minuteUsed: 0, dayUsed: 20, cycles: [{ startMs: 0, endMs: 2 * NOON_MS, used: 500 }] }
    const limiter = new MemoryLimiter()
    limiter.restore({ version: 1, newestMs: NOON_MS, apps: [old] }, NOON_MS)
    expect(limiter.days('demo', NOON_MS).get(TODAY)).toBe(20)
    const app = anApp()
    limiter.commit(app, 4, limiter.take(app, 4, MIDNIGHT_MS) as number)
    const restarted = again(again(limiter, MIDNIGHT_MS + 1), MIDNIGHT_MS + 1)
    expect(restarted.days('demo', MIDNIGHT_MS + 1)).toEqual(
      new Map([
        [TODAY, 20],
        [TODAY + 1, 4],
      ]),
    )
  })
})

describe('a dump', () => {
  it('leaves out windows that have ended, and apps with no open window', () => {
    const limiter = new MemoryLimiter()
    limiter.take(anApp(), 5, NOON_MS)
    limiter.commit(anApp(), 5, NOON_MS)
    limiter.take(anApp({ appId: 'other' }), 1, NOON_MS + DAY_MS)
    expect(limiter.dump().apps[0]).toMatchObject({ appId: 'demo', minuteUsed: 0, dayUsed: 0, cycles: [{ used: 5 }] })
    limiter.view(anApp(), NOON_MS + 40 * DAY_MS)
    expect(limiter.dump().apps).toEqual([])
  })

  it('of yesterday fills no minute and no day of today', () => {
    const limiter = new MemoryLimiter()
    limiter.commit(anApp(), 7, limiter.take(anApp(), 7, NOON_MS) as number)
    const restored = new MemoryLimiter()
    restored.restore(limiter.dump(), NOON_MS + DAY_MS)
    const { minute, day, month } = restored.usage(anApp(), NOON_MS + DAY_MS)
    expect([minute.used, day.used, month.used]).toEqual([0, 0, 7])
  })

  it('of a clock that was years ahead does not close the windows of a right clock', () => {
    const limiter = new MemoryLimiter()
    limiter.take(anApp(), 500, NOON_MS + 4000 * DAY_MS)
    limiter.commit(anApp(), 500, NOON_MS + 4000 * DAY_MS)
    const restored = new MemoryLimiter()
    restored.restore(limiter.dump(), NOON_MS)
    expect(restored.dump().apps).toMatchObject([{ minuteUsed: 0, dayUsed: 0, cycles: [] }])
    expect(restored.take(anApp(), 500, NOON_MS)).toBeTypeOf('number')
    expect(restored.usage(anApp(), NOON_MS).minute.endsAtMs).toBe(NOON_MS + MINUTE_MS)
  })

  it('of another form is refused with an error that names the version', () => {
    const good = new MemoryLimiter().dump()
    const app = { appId: 'demo', minuteUsed: 0, dayUsed: 0, cycles: [{ startMs: 0, endMs: 1, used: 1 }] }
    const others: unknown[] = [
      null,
      1,
      [],
      {},
      { ...good, version: 2 },
      { ...good, newestMs: null },
      { ...good, apps: {} },
    ]
    const badApps = [null, { ...app, appId: 1 }, { ...app, minuteUsed: -1 }, { ...app, dayUsed: 0.5 }]
    badApps.push({ ...app, cycles: null as never }, { ...app, cycles: [{ startMs: 0, endMs: 1, used: '1' as never }] })
    for (const bad of badApps) others.push({ ...good, apps: [bad] })
    for (const other of others) {
      expect(() => new MemoryLimiter().restore(other)).toThrow('not a dump of the limits')
    }
    expect(() => new MemoryLimiter().restore({ ...good, apps: [app] })).not.toThrow()
  })
})

describe('usage added from the journal', () => {
  it('of an app that no longer exists counts in its last cycle, or else in the calendar month', () => {
    const app = anApp({ billingAnchorMs: NOON_MS - DAY_MS })
    const before = new MemoryLimiter()
    before.take(app, 5, NOON_MS)
    before.commit(app, 5, NOON_MS)
    const limiter = new MemoryLimiter()
    limiter.restore(before.dump(), NOON_MS)
    limiter.addUsage(undefined, 'demo', 6, NOON_MS)
    limiter.addUsage(undefined, 'other', 7, NOON_MS)
    expect(limiter.usage(app, NOON_MS).month.used).toBe(11)
    expect(limiter.usage(anApp({ appId: 'other' }), NOON_MS).month.used).toBe(7)
  })
})
