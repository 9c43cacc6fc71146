// Whatever the service, the network and the client's own end do: every event that was sealed is stored under one key
// or reported as dropped.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { SyncStore } from '../../clients/typescript/src/types.ts'
import { type Behaviour, createDouble } from './support/double.ts'
import { createRig, DatedTimers, mapStore, type Rig, waiting } from './support/rig.ts'

const SECOND_MS = 1000
const HOUR_MS = 3600 * SECOND_MS
const MAX_BYTES = 6000
const RUNS = Number(process.env['SLUICE_TEST_CASES'] ?? 300)

type Step =
  | { readonly kind: 'track'; readonly count: number; readonly characters: number; readonly bad: boolean }
  | { readonly kind: 'pass'; readonly ms: number }
  | { readonly kind: 'flush' }
  | { readonly kind: 'behave'; readonly behaviours: readonly Behaviour[] }
  /** kill -9, after so many more writes to the store. */
  | { readonly kind: 'crash'; readonly writes: number }
  /** Another script clears the store, as many do at a logout. */
  | { readonly kind: 'clear' }

const refusal = (status: number, headers: Record<string, string> = {}): Behaviour => ({ status, headers })

const behaviour = fc.constantFrom<Behaviour>(
  'answer',
  'unreachable',
  'lose answer',
  'hang',
  'key taken',
  refusal(503, { 'Retry-After': '2' }),
  refusal(429, { 'Retry-After': '30' }),
  refusal(429, { 'Retry-After': '30', 'X-RateLimit-Limit': '2' }),
  refusal(413),
  refusal(401),
  refusal(500),
)

const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({
    kind: fc.constant('track' as const),
    count: fc.integer({ min: 1, max: 8 }),
    characters: fc.constantFrom(1, 900, 7000),
    bad: fc.boolean(),
  }),
  fc.record({
    kind: fc.constant('pass' as const),
    ms: fc.constantFrom(0, SECOND_MS, 4 * SECOND_MS, 60 * SECOND_MS, HOUR_MS),
  }),
  fc.record({ kind: fc.constant('flush' as const) }),
  fc.record({ kind: fc.constant('behave' as const), behaviours: fc.array(behaviour, { minLength: 1, maxLength: 6 }) }),
  fc.record({ kind: fc.constant('crash' as const), writes: fc.integer({ min: 0, max: 6 }) }),
  fc.record({ kind: fc.constant('clear' as const) }),
)

/** A store that, as its process, is gone after so many more writes. */
function mortal(inner: SyncStore): { store: SyncStore; dieAfter: (writes: number) => void } {
  let left = Infinity
  const store: SyncStore = {
    keys: () => (left > 0 ? inner.keys() : []),
    get: (name) => (left > 0 ? inner.get(name) : null),
    set: (name, value) => (left-- > 0 ? inner.set(name, value) : true),
    remove: (name) => void (left-- > 0 && inner.remove(name)),
  }
  return { store, dieAfter: (writes) => void (left = writes) }
}

async function play(steps: readonly Step[]): Promise<void> {
  const timers = new DatedTimers()
  const lasting = mapStore()
  const double = createDouble({ nowMs: () => timers.nowMs(), maxBytes: MAX_BYTES })
  const reported = new Set<string>()
  /** Events that were in the store once: a kill loses what is not sealed yet. */
  const sealed = new Set<string>()
  const tracked: string[] = []
  const noting: SyncStore = {
    ...lasting,
    set(name, value) {
      if (name.startsWith('b')) for (const [id] of value.matchAll(/(?<=event_id\\":\\")[0-9a-f-]{36}/g)) sealed.add(id)
      return lasting.set(name, value)
    },
  }
  let died = { isDead: false }
  let dieAfter: (writes: number) => void
  const start = (): Rig => {
    const life = { isDead: false }
    died = life
    const { store, dieAfter: end } = mortal(noting)
    dieAfter = end
    return createRig({
      timers,
      store,
      double,
      // What a killed process says is not heard.
      onDropped: (_, events) => void (life.isDead || events.forEach((event) => reported.add(event.event_id))),
    })
  }
  let rig = start()
  for (const now of steps) {
    if (now.kind === 'track')
      for (let index = 0; index < now.count; index++)
        rig.client.track('event', {
          text: 'x'.repeat(now.characters),
          ...(now.bad && index % 2 ? { bad: 'name' } : {}),
        })
    else if (now.kind === 'pass') await timers.pass(now.ms)
    else if (now.kind === 'flush') void rig.client.flush()
    else if (now.kind === 'clear') {
      for (const name of lasting.keys()) lasting.remove(name)
      // A client that is killed before it looks again has nothing to put back.
      void rig.client.flush()
      await timers.pass(0)
    } else if (now.kind === 'behave') double.behave(...now.behaviours)
    else {
      dieAfter!(now.writes)
      void rig.client.flush()
      await timers.pass(0)
      died.isDead = true
      tracked.push(...rig.tracked)
      dieAfter!(0)
      rig = start()
    }
  }
  tracked.push(...rig.tracked)
  await timers.pass(2 * HOUR_MS)
  expect(waiting(lasting)).toEqual([])
  const stored = double.storedIds()
  const lost = tracked.filter(
    (id) => !stored.includes(id) && !reported.has(id) && (sealed.has(id) || rig.tracked.includes(id)),
  )
  expect(lost, 'sealed, neither stored nor reported').toEqual([])
  expect(stored.length, 'stored under one key').toBe(new Set(stored).size)
}

describe('every event', () => {
  it('that was sealed is stored once or reported, whatever happens', async () => {
    await fc.assert(fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 25 }), play), { numRuns: RUNS })
  })
})
