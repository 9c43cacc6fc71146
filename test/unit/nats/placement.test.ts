// What the description of a stream says of its copies.

import type { StreamInfo } from '@nats-io/jetstream'
import { expect, it } from 'vitest'
import { placementOf } from '../../../src/nats/placement.ts'

const SECOND_NANOSECONDS = 1_000_000_000

function placementIn(cluster: object | undefined, config: object = {}) {
  const info = { cluster, config: { storage: 'file', ...config } } as unknown as StreamInfo
  return placementOf('SLUICE_EVENTS', info, 'alone')
}

it.each([
  [{ current: true, active: SECOND_NANOSECONDS }, 'current'],
  [{ current: true }, 'current'],
  [{ active: SECOND_NANOSECONDS, lag: 1000 }, 'current'],
  [{ active: SECOND_NANOSECONDS, lag: 1001 }, 'lagging'],
  [{ current: true, active: 5 * SECOND_NANOSECONDS }, 'current'],
  [{ current: true, active: 5 * SECOND_NANOSECONDS + 1 }, 'offline'],
  [{ current: true, active: SECOND_NANOSECONDS, offline: true }, 'offline'],
  [{ lag: 0 }, 'offline'],
  [{}, 'offline'],
])('a follower that is %j is %s', (follower, state) => {
  const placement = placementIn({ leader: 'n1', replicas: [{ name: 'n2', ...follower }] })
  expect(placement).toMatchObject({
    replicas: [
      { server: 'n1', state: 'current' },
      { server: 'n2', state },
    ],
  })
})

it('a server in no cluster holds the only copy, and a cluster without a leader answers for none', () => {
  expect(placementIn(undefined)).toMatchObject({ replicas: [{ server: 'alone', state: 'current' }] })
  expect(placementIn({ leader: 'n1' })).toMatchObject({ replicas: [{ server: 'n1', state: 'current' }] })
  for (const cluster of [{}, { leader: '' }, { leader: '', replicas: [{ name: 'n2', current: true }] }])
    expect(placementIn(cluster)).toBe('leaderless')
})

it.each([
  [{}, null],
  [{ persist_mode: 'default' }, null],
  [{ persist_mode: 'async' }, 'persist_mode of SLUICE_EVENTS is async'],
  [{ storage: 'memory' }, 'SLUICE_EVENTS is kept in memory'],
])('a stream with %j writes what it acknowledges, or says why not: %s', (config, unwritten) => {
  expect(placementIn(undefined, config)).toMatchObject({ unwritten })
})
