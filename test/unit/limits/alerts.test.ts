// Which alerts an app's use gives rise to, each once, whatever happens between two looks.

import { describe, expect, it } from 'vitest'
import { cycleAt } from '../../../src/apps/plans.ts'
import type { Alert } from '../../../src/contract/alert.ts'
import { joinAlerts, parseAlerts } from '../../../src/contract/alert.ts'
import { type AlertLimits, decideAlerts, isStanding, type StandingAlerts } from '../../../src/limits/alerts.ts'

const DAY_MS = 86_400_000
const HOUR_MS = 3_600_000
const NOON_MS = Date.UTC(2026, 10, 20, 12)
const TODAY = Math.floor(NOON_MS / DAY_MS)
const MIDNIGHT_MS = (TODAY + 1) * DAY_MS
const ALONE: AlertLimits = { alertSteps: [50, 80, 100], eventsPerDay: 100, eventsPerMonth: 1e9, billingAnchorMs: null }

/** An app, and whoever looks at it. */
class Stage {
  standing: StandingAlerts | null = null
  limits = ALONE
  readonly days = new Map<number, number>()
  readonly late = new Map<number, number>()

  use(events: number, day = TODAY): void {
    this.days.set(day, (this.days.get(day) ?? 0) + events)
  }

  /** Of a day that is over. */
  useLate(events: number, day: number): void {
    this.use(events, day)
    this.late.set(day, (this.late.get(day) ?? 0) + events)
  }

  /** What is decided, in short. `isForgotten`: what stands was not stored. */
  look(nowMs = NOON_MS, isForgotten = false): string[] {
    return this.decide(nowMs, isForgotten).map(({ kind, state, window, percent }) =>
      [state, kind === 'step' ? `${window} ${percent}` : 'forecast'].join(' '),
    )
  }

  decide(nowMs = NOON_MS, isForgotten = false): readonly Alert[] {
    const { billingAnchorMs } = this.limits
    const cycle = cycleAt(billingAnchorMs, nowMs)
    const before = cycleAt(billingAnchorMs, cycle.startMs - 1)
    const sum = (startMs: number, endMs: number): number => {
      const inside = [...this.days].filter(([day]) => day * DAY_MS >= startMs && day * DAY_MS < endMs)
      return inside.reduce((total, [, events]) => total + events, 0)
    }
    const { standing, alerts } = decideAlerts('demo', this.limits, this.standing, {
      nowMs,
      days: this.days,
      month: { ...cycle, used: sum(cycle.startMs, cycle.endMs) },
      lastMonth: { ...before, used: sum(before.startMs, before.endMs) },
      late: this.late,
    })
    this.late.clear()
    // As it is stored.
    if (!isForgotten) this.standing = JSON.parse(JSON.stringify(standing)) as StandingAlerts
    return alerts
  }
}

describe('steps', () => {
  it('are raised once each, those that were passed at once too, and the next ones as they come', () => {
    const stage = new Stage()
    expect(stage.look()).toEqual([])
    stage.use(49)
    expect(stage.look()).toEqual([])
    stage.use(31)
    expect(stage.look()).toEqual(['raised day 50', 'raised day 80'])
    expect(stage.look()).toEqual([])
    stage.use(20)
    expect(stage.look(NOON_MS + 1)).toEqual(['raised day 100'])
    expect(stage.look(NOON_MS + 2)).toEqual([])
  })

  it('are cleared by one alert when the day turns, and raised again in the next one, under other ids', () => {
    const stage = new Stage()
    stage.use(85)
    const first = stage.decide()
    const cleared = stage.decide(MIDNIGHT_MS + 1000)
    expect(cleared.map(({ state, percent, used }) => [state, percent, used])).toEqual([['cleared', 50, 0]])
    stage.use(85, TODAY + 1)
    const next = stage.decide(MIDNIGHT_MS + HOUR_MS)
    expect(next.map(({ state, percent }) => [state, percent])).toEqual([
      ['raised', 50],
      ['raised', 80],
    ])
    const ids = [...first, ...cleared, ...next].map(({ id }) => id)
    expect(new Set(ids).size).toBe(5)
  })

  it('that were passed right before midnight, or in days in which nobody looked, are raised all the same', () => {
    const stage = new Stage()
    expect(stage.look()).toEqual([])
    stage.use(60)
    stage.use(90, TODAY + 2)
    expect(stage.look(MIDNIGHT_MS + 2 * DAY_MS)).toEqual([
      'raised day 50',
      'cleared day 50',
      'raised day 50',
      'raised day 80',
      'cleared day 50',
    ])
    const late = new Stage()
    late.use(60)
    expect(late.look(MIDNIGHT_MS + 5000), 'an app that began right before midnight').toEqual([
      'raised day 50',
      'cleared day 50',
    ])
  })

  it('are raised and cleared for a day or month whose events came when it was long over, each once', () => {
    const stage = new Stage()
    stage.limits = { ...ALONE, eventsPerMonth: 100 }
    const lastDay = Math.floor(Date.UTC(2026, 9, 31, 12) / DAY_MS)
    expect(stage.look()).toEqual([])
    stage.useLate(30, lastDay)
    expect(stage.look()).toEqual([])
    stage.useLate(30, lastDay)
    const late = stage.decide()
    expect(late.map(({ state, window, percent }) => `${state} ${window} ${percent}`)).toEqual([
      'raised day 50',
      'cleared day 50',
      'raised month 50',
      'cleared month 50',
    ])
    expect(late[0]).toMatchObject({ used: 60, window_started_at: new Date(lastDay * DAY_MS).toISOString() })
    expect(late[2]).toMatchObject({ used: 60, window_started_at: '2026-10-01T00:00:00.000Z' })
    expect(stage.look()).toEqual([])
    stage.useLate(25, lastDay)
    const more = stage.decide()
    expect(more.filter(({ state }) => state === 'raised').map(({ window, percent }) => [window, percent])).toEqual([
      ['day', 80],
      ['month', 80],
    ])
    const cleared = (alerts: readonly Alert[]): string[] =>
      alerts.filter(({ state }) => state === 'cleared').map(({ id }) => id)
    expect(cleared(more), 'told again, and not twice').toEqual(cleared(late))
  })

  it('have the same ids whoever decides them again, having forgotten what stood', () => {
    const stage = new Stage()
    stage.use(85)
    const ids = (nowMs: number): string[] => stage.decide(nowMs, true).map(({ id }) => id)
    expect(ids(NOON_MS)).toEqual(ids(NOON_MS + HOUR_MS))
    stage.look()
    const turn = (nowMs: number): string[] => stage.decide(nowMs, true).map(({ id }) => id)
    expect(turn(MIDNIGHT_MS)).toEqual(turn(MIDNIGHT_MS + HOUR_MS))
  })

  it('are cleared by a larger limit and raised again by a smaller one, as other alerts', () => {
    const stage = new Stage()
    stage.use(85)
    const first = stage.decide()
    stage.limits = { ...ALONE, eventsPerDay: 150 }
    expect(stage.look(), '56%').toEqual(['cleared day 80'])
    expect(stage.look()).toEqual([])
    stage.limits = { ...ALONE, eventsPerDay: 1000 }
    expect(stage.look()).toEqual(['cleared day 50'])
    stage.limits = ALONE
    const again = stage.decide()
    expect(again.map(({ percent }) => percent)).toEqual([50, 80])
    expect(again.map(({ id }) => id)).not.toContain(first[0].id)
    stage.limits = { ...ALONE, eventsPerDay: null }
    expect(stage.decide().map(({ state, limit }) => [state, limit])).toEqual([['cleared', null]])
  })

  it('of an app are its own, and none where it wants none', () => {
    const stage = new Stage()
    stage.limits = { ...ALONE, alertSteps: [] }
    stage.use(100)
    expect(stage.look()).toEqual([])
    stage.limits = { ...ALONE, alertSteps: [10, 90] }
    expect(stage.look()).toEqual(['raised day 10', 'raised day 90'])
    // A step that is taken off the list stands until the use is below it.
    stage.limits = { ...ALONE, alertSteps: [10] }
    expect(stage.look()).toEqual([])
  })

  it('of the month go on where the cycle is moved, and begin anew when it turns', () => {
    const stage = new Stage()
    stage.limits = { ...ALONE, eventsPerDay: null, eventsPerMonth: 100 }
    stage.use(60, TODAY - 2)
    stage.use(22)
    expect(stage.look()).toEqual(['raised month 50', 'raised month 80', 'raised forecast'])
    stage.limits = { ...stage.limits, billingAnchorMs: (TODAY - 5) * DAY_MS }
    expect(stage.look(), 'moved, with the same use').toEqual([])
    const { endMs } = cycleAt(stage.limits.billingAnchorMs, NOON_MS)
    stage.use(18, TODAY + 5)
    expect(stage.look(endMs + 1000), 'the rest of the old cycle was used unseen').toEqual([
      'raised month 100',
      'cleared forecast',
      'cleared month 50',
    ])
  })

  it('wait where the clock was set back, and are not raised twice when it is right again', () => {
    const stage = new Stage()
    stage.use(60, TODAY + 1)
    expect(stage.look(MIDNIGHT_MS + 1000)).toEqual(['raised day 50'])
    expect(stage.look(NOON_MS)).toEqual([])
    expect(stage.look(MIDNIGHT_MS + 2000)).toEqual([])
  })
})

describe('the forecast', () => {
  const month = (eventsPerMonth: number): Stage => {
    const stage = new Stage()
    stage.limits = { ...ALONE, alertSteps: [100], eventsPerDay: null, eventsPerMonth }
    return stage
  }

  it('is raised once where the room ends within 48 hours, says when, and is cleared from 72 hours on', () => {
    const stage = month(1000)
    stage.use(200, TODAY - 1)
    stage.use(100)
    // 200 a day of 24 hours: half of yesterday, and today.
    const [raised, ...others] = stage.decide()
    expect(others).toEqual([])
    expect(raised).toBeUndefined()
    stage.use(140)
    const [forecast] = stage.decide()
    expect(forecast).toMatchObject({ kind: 'forecast', state: 'raised', percent: null, used: 440 })
    expect(Date.parse(forecast.full_at ?? '') - NOON_MS).toBeCloseTo((560 / 340) * DAY_MS, -2)
    expect(stage.look()).toEqual([])
    stage.limits = { ...stage.limits, eventsPerMonth: 1300 }
    expect(stage.look(), '61 hours: it stands').toEqual([])
    stage.limits = { ...stage.limits, eventsPerMonth: 3000 }
    expect(stage.look()).toEqual(['cleared forecast'])
    stage.limits = { ...stage.limits, eventsPerMonth: 1000 }
    expect(stage.decide()[0].id).not.toBe(forecast.id)
  })

  it('is none where the cycle ends before the room does, or where there is no room', () => {
    const stage = month(1000)
    const lastDayMs = Date.UTC(2026, 10, 30, 12)
    stage.use(600, Math.floor(lastDayMs / DAY_MS))
    expect(stage.look(lastDayMs)).toEqual([])
    const full = month(1000)
    full.use(1000)
    expect(full.look()).toEqual(['raised month 100'])
  })
})

describe('the alerts of an app', () => {
  it('are kept once each for 35 days, with the time at which they were told first', () => {
    const stage = new Stage()
    stage.use(85)
    const first = stage.decide(NOON_MS, true)
    const again = stage.decide(NOON_MS + HOUR_MS, true)
    expect(joinAlerts(first, again, NOON_MS)).toEqual(first)
    expect(joinAlerts(first, [], NOON_MS + 35 * DAY_MS)).toEqual(first)
    expect(joinAlerts(first, [], NOON_MS + 35 * DAY_MS + 1)).toEqual([])
  })

  it('are read from what was stored, and not from what is damaged', () => {
    const stage = new Stage()
    stage.use(85)
    const alerts = stage.decide()
    expect(parseAlerts(JSON.stringify([...alerts, null, { id: 5 }]))).toEqual(alerts)
    for (const text of ['', '{', '{}', 'null']) expect(parseAlerts(text)).toEqual([])
    expect(isStanding(stage.standing)).toBe(true)
    for (const value of [null, {}, { day: {}, month: {} }, 'x']) expect(isStanding(value)).toBe(false)
  })
})
