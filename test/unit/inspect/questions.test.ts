import { expect, it } from 'vitest'
import { AcceptedCounts } from '../../../src/inspect/activity/accepted-counts.ts'
import type { LocalNode } from '../../../src/inspect/now/local-node.ts'
import { type Ask, findRefusal, lastHourOf, OwnAnswers } from '../../../src/inspect/questions.ts'
import { Refusals } from '../../../src/inspect/refusals/refusals.ts'
import { systemTimers } from '../../../src/lib/timers.ts'
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
  const own = new OwnAnswers({
    node: {} as LocalNode,
    refusals,
    accepted,
    bytes: storedBytes(),
    timers: { ...systemTimers, nowMs: () => NOW_MS },
  })
  const piece = await own.answer('last hour', { app: null })
  for (const app of apps) {
    expect(lastHourOf(app, [piece])).toEqual({
      acceptedEvents: 3,
      eventsPerSecond: null,
      refused: { rate_limit_exceeded: 1 },
    })
  }
  expect('rate_limit_exceeded' in {}).toBe(false)
})

it('finds a refusal by its id', async () => {
  const wanted = '0199f3a0-7c1e-7d2a-9f5b-3e8c1a2b4c6d'
  const refusals = new Refusals()
  for (const id of ['first', wanted, 'last']) refusals.add(aRefusal({ request_id: id }))
  const own = new OwnAnswers({
    node: { name: 'n' } as LocalNode,
    refusals,
    accepted: new AcceptedCounts(),
    bytes: storedBytes(),
    timers: { ...systemTimers, nowMs: () => NOW_MS },
  })
  const ask = (async (name: 'refusals', question: never) => {
    return { pieces: [await own.answer(name, question)], silent: [], problem: null }
  }) as unknown as Ask
  expect(await findRefusal(ask, wanted)).toMatchObject({ request_id: wanted, node: 'n' })
  expect(await findRefusal(ask, 'never')).toBeNull()
})
