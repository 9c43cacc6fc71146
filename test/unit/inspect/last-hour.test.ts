import { expect, it } from 'vitest'
import { AcceptedCounts } from '../../../src/inspect/activity/accepted-counts.ts'
import { lastHourPiece, seenOf } from '../../../src/inspect/last-hour.ts'
import { Refusals } from '../../../src/inspect/refusals/refusals.ts'
import { storedBytes } from '../../support/stored-bytes.ts'
import { aRefusal } from './reports.ts'

const NOW_MS = Date.parse('2026-11-22T10:00:00.000Z')

it('counts the last hour of apps whose ids are names of every object', async () => {
  const refusals = new Refusals()
  const accepted = new AcceptedCounts()
  const apps = ['__proto__', 'constructor', 'shop']
  for (const app of apps) {
    refusals.add(aRefusal({ time_ms: NOW_MS, app_id: app, code: 'rate_limit_exceeded' }))
    accepted.add(app, 3, NOW_MS)
  }
  const counted = { accepted, refusals, bytes: storedBytes() }
  // As it comes from another process.
  const piece = JSON.parse(JSON.stringify(await lastHourPiece(null, counted, NOW_MS))) as never
  for (const app of apps) {
    expect(seenOf(app, [piece])).toMatchObject({
      last_hour: { accepted_events: 3, refused: { rate_limit_exceeded: 1 } },
      events_per_second: null,
    })
  }
  expect('rate_limit_exceeded' in {}).toBe(false)
})
