// One node's budget of one app: its bucket, its share without Redis, and the corrections for the next call.

import { describe, expect, it } from 'vitest'
import type { App } from '../../../../src/apps/app.ts'
import { AppBudget } from '../../../../src/limits/shared/app-budget.ts'
import type { AppReply } from '../../../../src/limits/shared/take.ts'
import { anApp } from '../../apps/apps.ts'

const NOON = Date.UTC(2026, 10, 20, 12) / 60_000

/** What Redis replies at noon of an app that has used so much of each window. */
function replyOf(used: number, reply: Partial<AppReply> = {}): AppReply {
  const windows = { monthUsed: used, dayUsed: used, minuteUsed: used }
  const given = { granted: 0, taken: 0, givenBack: 0, spooled: 0, spooledOfDead: 0, takes: [] }
  return { minute: NOON, cycleMinute: 0, ...windows, ...given, ...reply }
}

/** A budget at noon, after a reply of Redis. */
function aBudget(app: App = anApp(), reply: Partial<AppReply> = {}): AppBudget {
  const budget = new AppBudget(app, 0)
  budget.use(app, NOON, 0)
  budget.apply(replyOf(0, reply))
  return budget
}

const correctionsOf = (budget: AppBudget): [number, number][] => [...budget.corrections]

describe('the bucket of an app', () => {
  it('is requested from 40 requests a second on, with one second of events', () => {
    const budget = aBudget()
    for (let count = 1; count <= 39; count++) budget.countRequest(10, 0)
    expect(budget.refillAt(999)).toBe(0)
    budget.countRequest(10, 999)
    expect(budget.refillAt(999)).toBe(400)
  })

  it('is requested during the second after a fast one, but not after a second without requests', () => {
    const budget = aBudget()
    for (let count = 0; count < 40; count++) budget.countRequest(10, 0)
    budget.countRequest(1, 1000)
    expect(budget.refillAt(1500)).toBe(400)
    expect(budget.refillAt(3000)).toBe(0)
    budget.countRequest(1, 3500)
    expect(budget.refillAt(3500)).toBe(0)
  })

  it('requests only what it does not hold yet', () => {
    const budget = aBudget(anApp(), { granted: 150 })
    for (let count = 0; count < 40; count++) budget.countRequest(10, 0)
    expect(budget.refillAt(0)).toBe(250)
  })

  it('takes whole batches only, and is low below a quarter', () => {
    const budget = aBudget(anApp(), { minuteUsed: 20, granted: 20 })
    expect([budget.spend(0), budget.spend(21)]).toEqual([false, false])
    expect([budget.spend(15), budget.isLow]).toEqual([true, false])
    expect([budget.spend(1), budget.isLow]).toEqual([true, true])
    expect([budget.spend(4), budget.spend(1)]).toEqual([true, false])
    expect(correctionsOf(budget)).toEqual([])
  })

  it('does not show its unspent events as used', () => {
    const budget = aBudget(anApp(), { monthUsed: 70, dayUsed: 60, minuteUsed: 50, granted: 20 })
    expect(budget.usedAt(NOON)).toEqual({ month: 50, day: 40, minute: 30 })
    budget.spend(5)
    expect(budget.usedAt(NOON)).toEqual({ month: 55, day: 45, minute: 35 })
  })

  it('gives its unspent events back to their minute when the next minute begins', () => {
    const budget = aBudget(anApp(), { granted: 20 })
    budget.spend(8)
    budget.use(budget.app, NOON + 1, 60_000)
    expect(budget.spend(1)).toBe(false)
    expect(correctionsOf(budget)).toEqual([[NOON, 12]])
  })

  it('gives its events back when Redis replies from the next minute, and keeps the new grant', () => {
    const budget = aBudget(anApp(), { granted: 20 })
    budget.apply(replyOf(5, { minute: NOON + 1, granted: 5 }))
    expect([budget.tokensMinute, budget.tokens]).toEqual([NOON + 1, 5])
    expect(correctionsOf(budget)).toEqual([[NOON, 20]])
  })

  it('gives back a grant of a minute that has ended', () => {
    const budget = aBudget(anApp(), { minute: NOON + 1, minuteUsed: 9 })
    budget.apply(replyOf(400, { granted: 30 }))
    expect(budget.tokens).toBe(0)
    expect(budget.usedAt(NOON + 1).minute).toBe(9)
    expect(correctionsOf(budget)).toEqual([[NOON, 30]])
  })

  it.each([{ eventsPerMinute: 10 }, { eventsPerDay: 5 }, { eventsPerMonth: 7 }, { billingAnchorMs: 0 }])(
    'is given back when a limit or the anchor changes: %j',
    (change) => {
      const budget = aBudget(anApp(), { granted: 20 })
      budget.use(anApp(change), NOON, 1)
      expect([budget.tokens, correctionsOf(budget)]).toEqual([0, [[NOON, 20]]])
    },
  )

  it('is kept when another member of the record changes', () => {
    const budget = aBudget(anApp(), { granted: 20 })
    budget.use(anApp({ name: 'another' }), NOON, 1)
    expect([budget.tokens, correctionsOf(budget)]).toEqual([20, []])
  })

  it('is given back once, and corrections of one minute add up', () => {
    const budget = aBudget(anApp(), { granted: 20 })
    budget.returnTokens()
    budget.returnTokens()
    budget.correct(NOON, 3)
    expect(correctionsOf(budget)).toEqual([[NOON, 23]])
  })

  it('keeps corrections of at most three minutes back: the audit has counted older ones', () => {
    const budget = aBudget()
    for (let minute = NOON; minute < NOON + 10; minute++) budget.correct(minute, 1)
    expect(budget.corrections.size).toBeLessThanOrEqual(4)
  })
})

describe('the share of a node without Redis', () => {
  it('is what was left at the last reply of Redis, divided by the nodes alive, rounded down', () => {
    const budget = aBudget(anApp({ eventsPerMinute: 100 }), { minuteUsed: 1 })
    expect(budget.takeWithoutRedis(34, NOON, 3)).toBe('rate_limit_exceeded')
    expect(budget.takeWithoutRedis(33, NOON, 3)).toBe(null)
    expect(budget.takeWithoutRedis(1, NOON, 3)).toBe('rate_limit_exceeded')
    expect(budget.takeWithoutRedis(33, NOON + 1, 3)).toBe(null)
  })

  it('is checked for the month, then the day, then the minute', () => {
    const tight = { eventsPerMinute: 30, eventsPerDay: 30, eventsPerMonth: 30 }
    expect(aBudget(anApp(tight)).takeWithoutRedis(11, NOON, 3)).toBe('monthly_limit_exceeded')
    expect(aBudget(anApp({ ...tight, eventsPerMonth: 300 })).takeWithoutRedis(11, NOON, 3)).toBe('daily_limit_exceeded')
    const loose = anApp({ ...tight, eventsPerMonth: 300, eventsPerDay: null })
    expect(aBudget(loose).takeWithoutRedis(11, NOON, 3)).toBe('rate_limit_exceeded')
  })

  it('is zero where the limit was lowered below its usage', () => {
    expect(aBudget(anApp({ eventsPerMonth: 50 }), { monthUsed: 60 }).takeWithoutRedis(1, NOON, 1)).toBe(
      'monthly_limit_exceeded',
    )
  })

  it('charges an empty batch 1 of the minute, and leaves no correction', () => {
    const budget = aBudget(anApp({ eventsPerMinute: 2, eventsPerMonth: 0 }))
    expect([budget.takeWithoutRedis(0, NOON, 1), budget.takeWithoutRedis(0, NOON, 1)]).toEqual([null, null])
    expect(budget.takeWithoutRedis(0, NOON, 1)).toBe('rate_limit_exceeded')
    expect(correctionsOf(budget)).toEqual([])
  })

  it('leaves a correction below zero in the minute of the take', () => {
    const budget = aBudget()
    budget.takeWithoutRedis(5, NOON, 1)
    budget.takeWithoutRedis(6, NOON, 1)
    budget.takeWithoutRedis(7, NOON + 1, 1)
    expect(correctionsOf(budget)).toEqual([
      [NOON, -11],
      [NOON + 1, -7],
    ])
    budget.correct(NOON, 6)
    expect(correctionsOf(budget)[0]).toEqual([NOON, -5])
  })

  it('is counted in its day and cycle, and starts at zero in the next', () => {
    const app = anApp({ eventsPerMinute: 100, eventsPerDay: 100 })
    const budget = aBudget(app, { monthUsed: 40, dayUsed: 40 })
    budget.takeWithoutRedis(60, NOON, 1)
    expect(budget.usedAt(NOON)).toEqual({ month: 100, day: 100, minute: 60 })
    expect(budget.takeWithoutRedis(1, NOON + 1, 1)).toBe('daily_limit_exceeded')
    const midnight = NOON + 12 * 60
    expect(budget.takeWithoutRedis(1, midnight, 1)).toBe(null)
    expect(budget.usedAt(midnight)).toEqual({ month: 101, day: 1, minute: 1 })
    const december = Date.UTC(2026, 11, 1) / 60_000
    budget.turnTo(december)
    expect(budget.usedAt(december)).toEqual({ month: 0, day: 0, minute: 0 })
  })

  it('starts again from the usage in the reply when Redis is back', () => {
    const budget = aBudget(anApp({ eventsPerMinute: 100 }), { minuteUsed: 50 })
    expect(budget.takeWithoutRedis(50, NOON, 1)).toBe(null)
    budget.apply(replyOf(70))
    expect(budget.takeWithoutRedis(31, NOON, 1)).toBe('rate_limit_exceeded')
    expect(budget.takeWithoutRedis(30, NOON, 1)).toBe(null)
  })

  it('is a share of the whole limit for an app that Redis has not replied about', () => {
    const budget = new AppBudget(anApp({ eventsPerMinute: 100 }), 0)
    budget.use(budget.app, NOON, 0)
    expect(budget.takeWithoutRedis(51, NOON, 2)).toBe('rate_limit_exceeded')
    expect(budget.takeWithoutRedis(50, NOON, 2)).toBe(null)
  })
})
