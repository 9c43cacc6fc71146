// What the script `limits` holds the queue to, and where its windows end.

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { enforcedMonth, limitRecords, windowEndSeconds } from '../../../load/k6/shared/limit-apps.js'
import { storedOf, windowsOverLimit } from '../../../load/run/verify-limits.js'
import { appOf, checkRecords } from '../../../src/apps/app-record.ts'
import { cycleAt } from '../../../src/apps/plans.ts'

describe('windows of the queue', () => {
  const limits = [{ appId: 'a', perMinute: 3, perDay: 4, perMonth: 5 }]
  const over = (...times: string[]): string[] => {
    const records = times.map((time) => ({ app_id: 'a', received_at: `2026-11-${time}Z`, events: [{}] }))
    return windowsOverLimit(records.map(storedOf), limits)
  }

  test('are full at their limit, and found where they are over it, each by itself', () => {
    expect(over('20T12:00:00', '20T12:00:59.999', '20T12:00:30', '20T12:01:00', '21T00:00:00')).toEqual([])
    const day = ['20T12:00:00', '20T12:00:10', '20T12:00:20', '20T12:00:30', '20T13:00:00']
    expect(over(...day, '21T00:00:00')).toEqual([
      'a: 4 events of 3 in the minute 2026-11-20T12:00',
      'a: 5 events of 4 on 2026-11-20',
      'a: 6 events of 5 in the month',
    ])
    expect(() => over('yesterday'), 'a record without a time is not passed over').toThrow('no time')
  })

  test('end where the service says that they end', () => {
    const records = limitRecords(300)
    const read = checkRecords({ apps: records })
    if (read.kind !== 'records') throw new Error('the limited apps have bad records')
    const apps = read.records.map(appOf)
    fc.assert(
      fc.property(fc.integer({ min: Date.UTC(2026, 0, 1), max: Date.UTC(2030, 0, 1) }), (nowMs) => {
        for (const [index, record] of records.entries()) {
          const { endMs } = cycleAt(apps[index].billingAnchorMs, nowMs)
          expect(windowEndSeconds(record, 'monthly_limit_exceeded', nowMs)).toBe(endMs / 1000)
        }
      }),
    )
    for (const [index, record] of records.entries()) {
      if (record.events_per_month !== undefined) expect(enforcedMonth(record)).toBe(apps[index].eventsPerMonth)
    }
  })
})
