import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { cycleAt, enforcedEventsPerMonth, PLANS, soldEventsPerMonth } from '../../../src/apps/plans.ts'

const at = (text: string) => Date.parse(text)
const DAY_MS = 86_400_000

/** The cycle that contains a time, both ends as text. */
function cycle(anchor: string | null, now: string): [string, string] {
  const { startMs, endMs } = cycleAt(anchor === null ? null : at(anchor), at(now))
  return [new Date(startMs).toISOString(), new Date(endMs).toISOString()]
}

describe('the plans', () => {
  it('allow what the specification says', () => {
    const figures = Object.entries(PLANS).map(([name, plan]) => [name, plan.eventsPerMonth, plan.eventsPerMinute])
    expect(figures).toEqual([
      ['trial', 10_000, 200],
      ['10k', 10_000, 200],
      ['100k', 100_000, 500],
      ['500k', 500_000, 2_000],
      ['1m', 1_000_000, 5_000],
      ['2m', 2_000_000, 8_000],
      ['5m', 5_000_000, 15_000],
    ])
  })

  it('tolerate 10% more a month when paid, and nothing more on trial', () => {
    expect(enforcedEventsPerMonth('100k', 100_000)).toBe(110_000)
    expect(enforcedEventsPerMonth('10k', 10_000)).toBe(11_000)
    expect(enforcedEventsPerMonth('trial', 10_000)).toBe(10_000)
    expect(enforcedEventsPerMonth('1m', 9)).toBe(9)
    expect(enforcedEventsPerMonth('1m', 19)).toBe(20)
  })

  it('compute the tolerance exactly for every limit', () => {
    const figures = fc.integer({ min: 1, max: Math.floor((Number.MAX_SAFE_INTEGER / 11) * 10) })
    fc.assert(
      fc.property(figures, (events) => {
        expect(BigInt(enforcedEventsPerMonth('5m', events))).toBe((BigInt(events) * 11n) / 10n)
        expect(soldEventsPerMonth('5m', enforcedEventsPerMonth('5m', events))).toBe(events)
        expect(soldEventsPerMonth('trial', events)).toBe(events)
      }),
    )
    expect(Number.isSafeInteger(enforcedEventsPerMonth('5m', Number.MAX_SAFE_INTEGER))).toBe(true)
  })
})

describe('the billing cycle', () => {
  it('is the calendar month without an anchor', () => {
    expect(cycle(null, '2026-11-20T12:00:00Z')).toEqual(['2026-11-01T00:00:00.000Z', '2026-12-01T00:00:00.000Z'])
    expect(cycle(null, '2026-12-31T23:59:59.999Z')).toEqual(['2026-12-01T00:00:00.000Z', '2027-01-01T00:00:00.000Z'])
  })

  it('begins at the anchor, to the millisecond, and ends where the next begins', () => {
    const anchor = '2026-11-17T09:30:00.250Z'
    expect(cycle(anchor, anchor)).toEqual([anchor, '2026-12-17T09:30:00.250Z'])
    expect(cycle(anchor, '2026-12-17T09:30:00.249Z')).toEqual([anchor, '2026-12-17T09:30:00.250Z'])
    expect(cycle(anchor, '2026-12-17T09:30:00.250Z')[0]).toBe('2026-12-17T09:30:00.250Z')
  })

  it('exists before the anchor too', () => {
    expect(cycle('2026-11-17T09:30:00Z', '2026-11-17T09:29:59Z')[0]).toBe('2026-10-17T09:30:00.000Z')
    expect(cycle('1969-12-31T23:00:00Z', '2026-03-01T00:00:00Z')).toEqual([
      '2026-02-28T23:00:00.000Z',
      '2026-03-31T23:00:00.000Z',
    ])
  })

  it('begins on the last day of a month without a 31st, and on the 31st again in the next', () => {
    const anchor = '2026-01-31T06:00:00Z'
    const starts = ['2026-02-01', '2026-03-01', '2026-04-01', '2026-05-01', '2026-06-01']
    expect(starts.map((day) => cycle(anchor, `${day}T00:00:00Z`)[0].slice(0, 10))).toEqual([
      '2026-01-31',
      '2026-02-28',
      '2026-03-31',
      '2026-04-30',
      '2026-05-31',
    ])
    expect(cycle(anchor, '2028-02-29T05:59:59Z')[0]).toBe('2028-01-31T06:00:00.000Z')
    expect(cycle(anchor, '2028-02-29T06:00:00Z')).toEqual(['2028-02-29T06:00:00.000Z', '2028-03-31T06:00:00.000Z'])
  })

  it('equals the cycle reached month by month from the anchor', () => {
    const moments = fc.integer({ min: at('1990-01-01'), max: at('2060-01-01') })
    fc.assert(
      fc.property(moments, moments, (anchorMs, nowMs) => {
        const anchor = new Date(anchorMs)
        const stepMs = (months: number) => {
          // The same day and time that many months later; if the month has no such day, its last one.
          for (let back = 0; ; back++) {
            const step = new Date(anchorMs)
            step.setUTCDate(1)
            step.setUTCMonth(step.getUTCMonth() + months)
            const month = step.getUTCMonth()
            step.setUTCDate(anchor.getUTCDate() - back)
            if (step.getUTCMonth() === month) return step.getTime()
          }
        }
        let months = Math.floor((nowMs - anchorMs) / (31 * DAY_MS)) - 2
        while (stepMs(months + 1) <= nowMs) months++
        while (stepMs(months) > nowMs) months--
        expect(cycleAt(anchorMs, nowMs)).toEqual({ startMs: stepMs(months), endMs: stepMs(months + 1) })
      }),
      { numRuns: 1000 },
    )
  })
})
