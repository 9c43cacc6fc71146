// The audit's totals, compared with a plain sum over the same stream.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { encodeTotals } from '../../../src/audit/app-totals.ts'
import { PartitionTotals, type SavedTotals } from '../../../src/audit/totals.ts'
import type { RecordCost } from '../../../src/contract/record/cost-header.ts'

const DAY = 1440
/** A midnight. */
const FIRST_MINUTE = 20_400 * DAY
const CYCLE_MINUTES = 3 * DAY
const CREATED = '2026-11-20T00:00:00Z'

interface Message {
  readonly sequence: number
  readonly timeUs: number
  readonly costs: readonly RecordCost[]
}

/** The stream, an auditor, and the entry in the bucket. */
class Stage {
  readonly stream: Message[] = []
  minute = FIRST_MINUTE + 2 * DAY
  totals = new PartitionTotals(CREATED, null)
  saved: SavedTotals | null = null
  #next = 1

  get closable(): number {
    return this.minute - 2
  }

  store(costs: readonly RecordCost[]): void {
    const sequence = this.stream.length + 1
    this.stream.push({ sequence, timeUs: sequence * 1000, costs })
  }

  /** Closes minutes and saves only after reading the whole stream. */
  round(atMost: number, isSaved: boolean): boolean {
    for (const { sequence, timeUs, costs } of this.stream.slice(this.#next - 1, this.#next - 1 + atMost)) {
      this.totals.read({ sequence, timeUs }, costs, this.closable)
      this.#next = sequence + 1
    }
    if (this.#next <= this.stream.length) return false
    this.totals.close(this.closable)
    if (isSaved) this.saved = JSON.parse(JSON.stringify(this.totals.save())) as SavedTotals
    return true
  }

  /** Another auditor takes over. */
  reload(): void {
    this.totals = new PartitionTotals(CREATED, this.saved)
    this.#next = this.saved?.from ?? 1
  }
}

const sumOf = (costs: readonly RecordCost[]): number => costs.reduce((sum, { events }) => sum + events, 0)

function checkExact(stage: Stage): void {
  const all = stage.stream.flatMap(({ costs }) => costs).filter(({ minute }) => minute <= stage.totals.minute)
  expect([...stage.totals.apps.keys()].toSorted()).toEqual([...new Set(all.map(({ appId }) => appId))].toSorted())
  for (const [appId, totals] of stage.totals.apps) {
    const ofApp = all.filter((cost) => cost.appId === appId)
    const days = new Map<number, number>()
    for (const { minute, events } of ofApp) {
      const day = Math.floor(minute / DAY)
      days.set(day, (days.get(day) ?? 0) + events)
    }
    expect(totals.days).toEqual(days)
    const newest = Math.max(...ofApp.map(({ minute }) => minute))
    expect(totals.newest).toBe(newest)
    for (const [first, sum] of totals.cycles) {
      const exact = sumOf(ofApp.filter(({ minute }) => minute >= first))
      const withFirstDay = sumOf(ofApp.filter(({ minute }) => minute >= Math.floor(first / DAY) * DAY))
      if (first % DAY === 0) expect(sum).toBe(exact)
      expect(sum).toBeGreaterThanOrEqual(exact)
      expect(sum).toBeLessThanOrEqual(withFirstDay)
    }
    const { base, days: daysText } = encodeTotals(totals)
    expect(totals.cycles.get(totals.cycle)).toBeTypeOf('number')
    const newestDay = Math.floor(newest / DAY)
    expect(base).toBe(
      `${totals.cycle} ${totals.cycles.get(totals.cycle)} ${newest} ${newestDay} ${days.get(newestDay)}`,
    )
    const total = daysText.split(' ').map((word) => word.split(':').map(Number) as [number, number])
    expect(new Map(total)).toEqual(days)
  }
}

/** Anchors at midnight, and in the middle of a day. */
const OFFSETS = [0, DAY, 700]
const aRecord = fc.record({
  appId: fc.constantFrom('one', 'two'),
  events: fc.integer({ min: 1, max: 100 }),
  /** Minutes before the current one. */
  ago: fc.oneof(fc.integer({ min: 0, max: 3 }), fc.integer({ min: 0, max: 1500 })),
  isMoved: fc.boolean(),
})
const aStep = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('store' as const),
      records: fc.array(aRecord, { minLength: 1, maxLength: 4 }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant('pass' as const), minutes: fc.constantFrom(1, 1, 2, 700, DAY) }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('round' as const),
      atMost: fc.constantFrom(1, 3, 1000),
      isSaved: fc.boolean(),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('reload' as const) }) },
)

describe('the totals of a partition', () => {
  it('equal a sum over the stream, with minutes in any order, a new auditor at any point, and anchors that move', () => {
    const anchors = fc.tuple(fc.constantFrom(...OFFSETS), fc.constantFrom(...OFFSETS))
    fc.assert(
      fc.property(fc.array(aStep, { maxLength: 60 }), anchors, (steps, offsets) => {
        const stage = new Stage()
        for (const step of steps) {
          if (step.kind === 'store') {
            const costs = step.records.map(({ appId, events, ago, isMoved }) => {
              const minute = stage.minute - ago
              const offset = FIRST_MINUTE + offsets[Number(isMoved)]
              const cycleMinute = offset + Math.floor((minute - offset) / CYCLE_MINUTES) * CYCLE_MINUTES
              return { minute, cycleMinute, appId, events }
            })
            stage.store(costs)
          } else if (step.kind === 'pass') stage.minute += step.minutes
          else if (step.kind === 'reload') stage.reload()
          else if (stage.round(step.atMost, step.isSaved)) checkExact(stage)
        }
        stage.minute += 10
        expect(stage.round(1000, true)).toBe(true)
        checkExact(stage)
        stage.reload()
        expect(stage.round(1000, true)).toBe(true)
        checkExact(stage)
      }),
      { numRuns: 1000 },
    )
  })

  const cost = (minute: number, events: number, cycleMinute = FIRST_MINUTE): RecordCost => {
    return { minute, cycleMinute, appId: 'one', events }
  }
  const baseOf = (totals: PartitionTotals): string => encodeTotals(totals.apps.get('one')!).base

  it('count no open minute, which a new auditor reads again', () => {
    const totals = new PartitionTotals(CREATED, null)
    const minute = FIRST_MINUTE + 10
    totals.read({ sequence: 1, timeUs: 1 }, [cost(minute - 1, 3)], minute - 1)
    totals.read({ sequence: 2, timeUs: 2 }, [cost(minute - 1, 4), cost(minute, 5)], minute - 1)
    totals.read({ sequence: 3, timeUs: 3 }, [], minute - 1)
    totals.close(minute - 1)
    const saved = totals.save()
    expect(saved).toMatchObject({ sequence: 3, timeUs: 3, minute: minute - 1, from: 2 })
    const next = new PartitionTotals(CREATED, saved)
    next.read({ sequence: 2, timeUs: 2 }, [cost(minute - 1, 4), cost(minute, 5)], minute)
    next.read({ sequence: 3, timeUs: 3 }, [], minute)
    next.close(minute)
    expect(baseOf(next)).toBe(`${FIRST_MINUTE} 12 ${minute} ${FIRST_MINUTE / DAY} 12`)
    expect(next.save().from).toBe(4)
  })

  it('know a message that was stored after its minute was closed, and count it', () => {
    const totals = new PartitionTotals(CREATED, null)
    const minute = FIRST_MINUTE + 10
    expect(totals.read({ sequence: 1, timeUs: 1 }, [cost(minute, 3)], minute)).toBe(false)
    totals.close(minute)
    expect(totals.read({ sequence: 2, timeUs: 2 }, [cost(minute + 1, 1), cost(minute, 4)], minute)).toBe(true)
    const next = new PartitionTotals(CREATED, totals.save())
    expect(next.read({ sequence: 1, timeUs: 1 }, [cost(minute, 3)], minute)).toBe(false)
    expect(next.read({ sequence: 2, timeUs: 2 }, [cost(minute + 1, 1)], minute + 1)).toBe(false)
    expect(next.read({ sequence: 3, timeUs: 3 }, [cost(minute, 5)], minute + 1)).toBe(true)
    expect(baseOf(next)).toBe(`${FIRST_MINUTE} 13 ${minute + 1} ${FIRST_MINUTE / DAY} 13`)
  })

  it('know which events came when their day was over, until alerts are decided, whoever audits', () => {
    const [day, today] = [Math.floor(FIRST_MINUTE / 1440), FIRST_MINUTE + 2 * 1440]
    const cycle = { first: today, next: today + 1440 }
    const totals = new PartitionTotals('', null)
    const lateOf = (one: PartitionTotals) => [...one.alertSums('one', cycle, cycle, 0).late]
    totals.read({ sequence: 1, timeUs: 1 }, [cost(FIRST_MINUTE, 3)], today)
    expect(lateOf(totals), 'of a stream that nobody has audited').toEqual([])
    totals.save()
    totals.read({ sequence: 2, timeUs: 2 }, [cost(FIRST_MINUTE, 4), cost(today, 1)], today)
    totals.read({ sequence: 3, timeUs: 3 }, [cost(FIRST_MINUTE + 1, 5)], FIRST_MINUTE, today)
    expect(lateOf(totals)).toEqual([[day, 9]])
    const next = new PartitionTotals('', JSON.parse(JSON.stringify(totals.save())) as SavedTotals)
    expect(lateOf(next)).toEqual([[day, 9]])
    next.decided('one')
    expect(lateOf(next)).toEqual([])
  })

  it('count a message that reuses the sequence of a lost one', () => {
    const totals = new PartitionTotals(CREATED, null)
    totals.read({ sequence: 5, timeUs: 500 }, [cost(FIRST_MINUTE, 1)], FIRST_MINUTE)
    totals.close(FIRST_MINUTE)
    const next = new PartitionTotals(CREATED, totals.save())
    next.read({ sequence: 5, timeUs: 501 }, [cost(FIRST_MINUTE, 2)], FIRST_MINUTE)
    next.close(FIRST_MINUTE + 1)
    expect(next.apps.get('one')?.days).toEqual(new Map([[FIRST_MINUTE / DAY, 3]]))
  })

  const NO_BOUNDS = { closable: 0, latest: FIRST_MINUTE + 100, running: FIRST_MINUTE + 98 }

  it('charge a minute that cannot have begun to the running one, once, whoever reads it again', () => {
    const totals = new PartitionTotals(CREATED, null)
    const future = cost(FIRST_MINUTE + 101, 7, FIRST_MINUTE + 101)
    const open = cost(FIRST_MINUTE + 97, 2)
    totals.read({ sequence: 1, timeUs: 1 }, [open, cost(FIRST_MINUTE + 100, 4), future], FIRST_MINUTE + 96)
    totals.close(FIRST_MINUTE + 96)
    expect(totals.chargeFuture(NO_BOUNDS)).toBe(7)
    const today = FIRST_MINUTE / DAY
    expect(baseOf(totals)).toBe(`${FIRST_MINUTE + 98} 7 ${FIRST_MINUTE + 98} ${today} 7`)
    const next = new PartitionTotals(CREATED, totals.save())
    next.read({ sequence: 1, timeUs: 1 }, [open, cost(FIRST_MINUTE + 100, 4), future], FIRST_MINUTE + 96)
    expect(next.chargeFuture(NO_BOUNDS)).toBe(0)
    next.read({ sequence: 2, timeUs: 2 }, [future], FIRST_MINUTE + 96)
    expect(next.chargeFuture(NO_BOUNDS)).toBe(7)
    next.close(FIRST_MINUTE + 200)
    expect(next.apps.get('one')?.days).toEqual(new Map([[today, 20]]))
  })

  it('keep what is counted when minutes are opened again, and count later events of these minutes once', () => {
    const ahead = new PartitionTotals(CREATED, null)
    ahead.read({ sequence: 1, timeUs: 1 }, [cost(FIRST_MINUTE + 10, 3)], FIRST_MINUTE + 200)
    ahead.close(FIRST_MINUTE + 200)
    ahead.read({ sequence: 2, timeUs: 2 }, [cost(FIRST_MINUTE + 201, 5)], FIRST_MINUTE + 200)
    const totals = new PartitionTotals(CREATED, ahead.save())
    totals.read({ sequence: 2, timeUs: 2 }, [cost(FIRST_MINUTE + 201, 5)], FIRST_MINUTE + 9)
    totals.takeBack(FIRST_MINUTE + 9, NO_BOUNDS)
    const saved = totals.save()
    expect(saved).toMatchObject({ minute: FIRST_MINUTE + 9, from: 3, open: [] })
    const next = new PartitionTotals(CREATED, saved)
    const again = [cost(FIRST_MINUTE + 10, 3)]
    next.read({ sequence: 1, timeUs: 1 }, again, FIRST_MINUTE + 9)
    next.read({ sequence: 3, timeUs: 3 }, again, FIRST_MINUTE + 9)
    expect(next.apps.get('one')?.days).toEqual(new Map([[FIRST_MINUTE / DAY, 8]]))
    next.close(FIRST_MINUTE + 10)
    expect(next.apps.get('one')?.days).toEqual(new Map([[FIRST_MINUTE / DAY, 11]]))
  })

  it('read an entry of 0.3, which does not name its open minutes', () => {
    const totals = new PartitionTotals(CREATED, null)
    totals.read({ sequence: 1, timeUs: 1 }, [cost(FIRST_MINUTE, 3), cost(FIRST_MINUTE + 1, 4)], FIRST_MINUTE)
    totals.close(FIRST_MINUTE)
    const { open: _, ...entryOf03 } = totals.save()
    const next = new PartitionTotals(CREATED, entryOf03)
    next.read({ sequence: 1, timeUs: 1 }, [cost(FIRST_MINUTE, 3), cost(FIRST_MINUTE + 1, 4)], FIRST_MINUTE)
    next.close(FIRST_MINUTE + 1)
    expect(next.apps.get('one')?.days).toEqual(new Map([[FIRST_MINUTE / DAY, 7]]))
  })

  it('start a cycle at 0, also if its first day has earlier events', () => {
    const totals = new PartitionTotals(CREATED, null)
    const turn = FIRST_MINUTE + 700
    totals.read({ sequence: 1, timeUs: 1 }, [cost(turn - 1, 3), cost(turn, 4, turn)], turn)
    expect(baseOf(totals)).toBe(`${turn} 4 ${turn} ${FIRST_MINUTE / DAY} 7`)
  })

  it('keep the newest record’s cycle, whatever cycles late records name', () => {
    const totals = new PartitionTotals(CREATED, null)
    const minute = FIRST_MINUTE + 10
    const late = [1, 2, 3].map((ago) => cost(minute - ago, 1, FIRST_MINUTE - ago))
    totals.read({ sequence: 1, timeUs: 1 }, [cost(minute, 5), ...late], minute)
    expect(baseOf(totals)).toBe(`${FIRST_MINUTE} 8 ${minute} ${FIRST_MINUTE / DAY} 8`)
  })

  it('return each changed app once', () => {
    const totals = new PartitionTotals(CREATED, null)
    totals.read({ sequence: 1, timeUs: 1 }, [cost(FIRST_MINUTE, 1), cost(FIRST_MINUTE, 2)], FIRST_MINUTE)
    expect([...totals.takeChanged()]).toEqual(['one'])
    expect([...totals.takeChanged()]).toEqual([])
    totals.read({ sequence: 2, timeUs: 2 }, [cost(FIRST_MINUTE + 1, 1)], FIRST_MINUTE)
    expect([...totals.takeChanged()]).toEqual([])
    totals.close(FIRST_MINUTE + 1)
    expect([...totals.takeChanged()]).toEqual(['one'])
  })

  it('forget apps and days that no current cycle can hold', () => {
    const totals = new PartitionTotals(CREATED, null)
    const later = FIRST_MINUTE + 40 * DAY
    totals.read({ sequence: 1, timeUs: 1 }, [cost(FIRST_MINUTE, 1), { ...cost(FIRST_MINUTE, 1), appId: 'two' }], later)
    totals.read({ sequence: 2, timeUs: 2 }, [cost(later, 2, later)], later)
    totals.close(later)
    const { apps } = totals.save()
    expect(Object.keys(apps)).toEqual(['one'])
    expect(apps['one'][4]).toEqual([2])
  })
})
