// The memory limiter against two slow and obvious models, which keep every take in a list and sum it up for each
// question.

import assert from 'node:assert/strict'
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { App } from '../../../../src/apps/app.ts'
import { cycleAt } from '../../../../src/apps/plans.ts'
import type { LimitRefusal } from '../../../../src/limits/limiter.ts'
import { MemoryLimiter } from '../../../../src/limits/own/memory-limiter.ts'
import { anApp } from '../../apps/apps.ts'

const START_MS = Date.UTC(2026, 10, 29, 23, 58, 30)
const SECOND_MS = 1000
const MINUTE_MS = 60_000
const DAY_MS = 86_400_000
const ANCHORS = [null, Date.UTC(2026, 0, 31, 23, 59), Date.UTC(2026, 10, 30, 0, 1)]
const APP_IDS = ['a', 'b', 'constructor']

const limits = fc.record({
  eventsPerMinute: fc.constantFrom(20, 40),
  eventsPerDay: fc.constantFrom(null, 50, 90),
  eventsPerMonth: fc.constantFrom(60, 150),
})
const anyApp = fc.nat(APP_IDS.length - 1)
const anyIndex = fc.nat(1000)
const take = fc.record({ kind: fc.constant('take' as const), app: anyApp, cost: fc.integer({ min: 1, max: 15 }) })
const settle = fc.record({ kind: fc.constant('settle' as const), which: anyIndex })
const refund = fc.record({ kind: fc.constant('give back' as const), which: anyIndex })
const forward = fc.constantFrom(0, 1, 10 * SECOND_MS, MINUTE_MS, 3 * MINUTE_MS, DAY_MS, 20 * DAY_MS)
/** A clock that steps back by more was wrong before, and its new time is used. */
const MOST_DISBELIEVED_MS = MINUTE_MS - 1
const backward = fc.constantFrom(-1, -SECOND_MS, -20 * SECOND_MS)

type Windows = readonly [minute: string, day: string, month: string]

/** The windows that hold a time, by name, and when each begins. */
function windowsAt(app: App, timeMs: number): { names: Windows; startsMs: readonly number[] } {
  const minuteMs = timeMs - (timeMs % MINUTE_MS)
  const dayMs = timeMs - (timeMs % DAY_MS)
  const cycle = cycleAt(app.billingAnchorMs, timeMs)
  return {
    names: [`minute ${minuteMs}`, `day ${dayMs}`, `cycle ${cycle.startMs} ${cycle.endMs}`],
    startsMs: [minuteMs, dayMs, cycle.startMs],
  }
}

function shown(limiter: MemoryLimiter, app: App, nowMs: number): number[] {
  const { minute, day, month } = limiter.usage(app, nowMs)
  const view = limiter.view(app, nowMs)
  expect(view.remaining).toBe(Math.max(0, app.eventsPerMinute - minute.used))
  expect(view.resetUnixSeconds * SECOND_MS).toBe(minute.endsAtMs)
  return [minute.used, day.used, month.used]
}

describe('while the process runs', () => {
  interface Taken {
    readonly app: App
    readonly cost: number
    readonly atMs: number
    readonly names: Windows
    /** Per window: taken before the window began, by a clock that had stepped back. */
    readonly early: readonly boolean[]
    /** The newest time then, by which its windows go. */
    readonly newestMs: number
    state: 'in flight' | 'settled' | 'given back'
  }
  const change = fc.record({
    kind: fc.constant('change' as const),
    app: anyApp,
    limits,
    anchor: fc.constantFrom(...ANCHORS),
  })
  const step = fc.record({ kind: fc.constant('step' as const), byMs: fc.oneof(forward, forward, forward, backward) })
  const dump = fc.constant({ kind: 'dump' as const })
  const actions = fc.array(fc.oneof(take, take, take, settle, refund, change, step, dump), { maxLength: 120 })

  it('every take, view and dump equals the sum over all requests, whatever the clock and the records do', () => {
    fc.assert(
      fc.property(actions, (sequence) => {
        const limiter = new MemoryLimiter()
        const apps = APP_IDS.map((appId) =>
          anApp({ appId, eventsPerMinute: 40, eventsPerDay: 90, eventsPerMonth: 150 }),
        )
        const taken: Taken[] = []
        /** Apps whose anchor was moved: their month is known within bounds, since a cycle then opens by whole days. */
        const moved = new Set<string>()
        const since = (appId: string, fromMs: number, counts: (one: Taken) => boolean) =>
          taken
            .filter((one) => one.app.appId === appId && one.newestMs >= fromMs && counts(one))
            .reduce((total, one) => total + one.cost, 0)
        const most = (appId: string, cycleMs: number) => since(appId, cycleMs - (cycleMs % DAY_MS), () => true)
        limiter.view(apps[0], START_MS)
        let nowMs = START_MS
        let newestMs = START_MS
        const sum = (appId: string, window: number, name: string, counts: (one: Taken) => boolean) =>
          taken
            .filter((one) => one.app.appId === appId && one.names[window] === name && counts(one))
            .reduce((total, one) => total + one.cost, 0)
        const spent = (app: App) =>
          windowsAt(app, newestMs).names.map((name, window) =>
            sum(app.appId, window, name, (one) => one.state !== 'given back' || one.early[window]),
          )

        for (const action of sequence) {
          if (action.kind === 'step') {
            // Several small steps back add up to a large one, which would reset the windows.
            nowMs = Math.max(nowMs + action.byMs, newestMs - MOST_DISBELIEVED_MS)
            newestMs = Math.max(newestMs, nowMs)
          } else if (action.kind === 'change') {
            if (action.anchor !== apps[action.app].billingAnchorMs) moved.add(apps[action.app].appId)
            apps[action.app] = { ...apps[action.app], ...action.limits, billingAnchorMs: action.anchor }
          } else if (action.kind === 'take') {
            const app = apps[action.app]
            const [minute, day, exact] = spent(app).map((used) => used + action.cost)
            const month = moved.has(app.appId) ? limiter.usage(app, nowMs).month.used + action.cost : exact
            let expected: LimitRefusal | number = nowMs
            if (month > app.eventsPerMonth) expected = 'monthly_limit_exceeded'
            else if (day > (app.eventsPerDay ?? Number.POSITIVE_INFINITY)) expected = 'daily_limit_exceeded'
            else if (minute > app.eventsPerMinute) expected = 'rate_limit_exceeded'
            assert.equal(limiter.take(app, action.cost, nowMs), expected)
            if (typeof expected === 'string') continue
            const { names, startsMs } = windowsAt(app, newestMs)
            const early = startsMs.map((startMs) => nowMs < startMs)
            taken.push({ app, cost: action.cost, atMs: nowMs, names, early, newestMs, state: 'in flight' })
          } else if (action.kind === 'dump') {
            limiter.view(apps[0], nowMs)
            for (const dumped of JSON.parse(JSON.stringify(limiter.dump())).apps) {
              const durable = (window: number) => (one: Taken) => one.state === 'settled' || one.early[window]
              const { names } = windowsAt(anApp(), newestMs)
              assert.equal(dumped.minuteUsed, sum(dumped.appId, 0, names[0], durable(0)))
              assert.equal(dumped.dayUsed, sum(dumped.appId, 1, names[1], durable(1)))
              for (const { startMs, endMs, used } of dumped.cycles) {
                if (moved.has(dumped.appId)) assert.ok(used <= most(dumped.appId, startMs))
                else assert.equal(used, sum(dumped.appId, 2, `cycle ${startMs} ${endMs}`, durable(2)))
              }
            }
          } else {
            const inFlight = taken.filter((one) => one.state === 'in flight')
            if (inFlight.length === 0) continue
            const one = inFlight[action.which % inFlight.length]
            if (action.kind === 'settle') {
              limiter.commit(one.app, one.cost, one.atMs)
              one.state = 'settled'
            } else {
              limiter.refund(one.app, one.cost, one.atMs, nowMs)
              one.state = 'given back'
            }
          }
          for (const app of apps) {
            const is = shown(limiter, app, nowMs)
            if (!moved.has(app.appId)) {
              expect(is).toEqual(spent(app))
              continue
            }
            expect(is.slice(0, 2)).toEqual(spent(app).slice(0, 2))
            const { startMs } = cycleAt(app.billingAnchorMs, newestMs)
            expect(is[2]).toBeGreaterThanOrEqual(since(app.appId, startMs, ({ state }) => state !== 'given back'))
            expect(is[2]).toBeLessThanOrEqual(most(app.appId, startMs))
          }
        }
      }),
      { numRuns: 800 },
    )
  })
})

describe('across crashes', () => {
  interface Taken {
    readonly app: App
    readonly cost: number
    readonly atMs: number
  }
  const snapshot = fc.constant({ kind: 'snapshot' as const })
  const crash = fc.record({
    kind: fc.constant('crash' as const),
    /** Of those in flight, how many had reached the disk unnoticed. */
    unnoticed: fc.nat(3),
    awayMs: fc.constantFrom(0, SECOND_MS, MINUTE_MS, DAY_MS),
    clockGiven: fc.boolean(),
  })
  const change = fc.record({ kind: fc.constant('change' as const), app: anyApp, limits })
  const step = fc.record({ kind: fc.constant('step' as const), byMs: forward })
  const actions = fc.array(fc.oneof(take, take, take, settle, refund, change, step, snapshot, crash), {
    maxLength: 120,
  })

  it('durable usage is kept and counted once, and usage in flight is dropped', () => {
    fc.assert(
      fc.property(actions, (sequence) => {
        let limiter = new MemoryLimiter()
        const apps = APP_IDS.map((appId, index) =>
          anApp({ appId, billingAnchorMs: ANCHORS[index], eventsPerDay: 90, eventsPerMonth: 150 }),
        )
        const journal: Taken[] = []
        let inFlight: Taken[] = []
        let saved: { readonly usage: string; readonly position: number } | null = null
        let nowMs = START_MS

        for (const action of sequence) {
          if (action.kind === 'step') {
            nowMs += action.byMs
          } else if (action.kind === 'change') {
            apps[action.app] = { ...apps[action.app], ...action.limits }
          } else if (action.kind === 'take') {
            const app = apps[action.app]
            if (typeof limiter.take(app, action.cost, nowMs) === 'number') {
              inFlight.push({ app, cost: action.cost, atMs: nowMs })
            }
          } else if (action.kind === 'snapshot') {
            saved = { usage: JSON.stringify(limiter.dump()), position: journal.length }
          } else if (action.kind === 'crash') {
            journal.push(...inFlight.slice(0, action.unnoticed))
            inFlight = []
            nowMs += action.awayMs
            limiter = new MemoryLimiter()
            if (saved !== null) limiter.restore(JSON.parse(saved.usage), action.clockGiven ? nowMs : undefined)
            for (const { app, cost, atMs } of journal.slice(saved?.position ?? 0)) {
              limiter.addUsage(app, app.appId, cost, atMs)
            }
          } else if (inFlight.length > 0) {
            const [one] = inFlight.splice(action.which % inFlight.length, 1)
            if (action.kind === 'settle') {
              limiter.commit(one.app, one.cost, one.atMs)
              journal.push(one)
            } else {
              limiter.refund(one.app, one.cost, one.atMs, nowMs)
            }
          }
          for (const app of apps) {
            const spent = windowsAt(app, nowMs).names.map((name, window) =>
              [...journal, ...inFlight]
                .filter((one) => one.app.appId === app.appId && windowsAt(one.app, one.atMs).names[window] === name)
                .reduce((total, one) => total + one.cost, 0),
            )
            expect(shown(limiter, app, nowMs)).toEqual(spent)
          }
        }
      }),
      { numRuns: 500 },
    )
  })
})
