import { expect, it } from 'vitest'
import { AcceptedCounts } from '../../../src/console/accepted-counts.ts'
import type { LocalNode } from '../../../src/console/local-node.ts'
import { lastHourOf, OwnAnswers } from '../../../src/console/questions.ts'
import { Refusals } from '../../../src/console/refusals.ts'

const NOW_MS = Date.parse('2026-11-22T10:00:00.000Z')

it('counts the last hour of apps whose ids are names of every object', async () => {
  const refusals = new Refusals()
  const accepted = new AcceptedCounts()
  const apps = ['__proto__', 'constructor', 'shop']
  for (const app of apps) {
    refusals.add(NOW_MS, 'id', app, 'rate_limit_exceeded', null, 'full', null)
    accepted.add(app, 3, NOW_MS)
  }
  const own = new OwnAnswers({ node: {} as LocalNode, refusals, accepted, nowMs: () => NOW_MS })
  const piece = await own.answer('last hour', { app: null })
  for (const app of apps) {
    expect(lastHourOf(app, [piece])).toEqual({ acceptedEvents: 3, refused: { rate_limit_exceeded: 1 } })
  }
  expect('rate_limit_exceeded' in {}).toBe(false)
})
