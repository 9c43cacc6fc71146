import { describe, expect, it } from 'vitest'
import { type DurabilityFacts, judgeDurability } from '../../../src/nats/durability.ts'
import type { Placement, ReplicaState } from '../../../src/nats/placement.ts'
import type { ServerFacts } from '../../../src/nats/server-facts.ts'

function placement(stream: string, states: readonly ReplicaState[]): Placement {
  return { stream, replicas: states.map((state, at) => ({ server: `nats-${at}`, state })), unwritten: null }
}

function servers(...facts: readonly Partial<ServerFacts>[]): ReadonlyMap<string, ServerFacts> {
  return new Map(facts.map((one, at) => [`nats-${at}`, { version: '2.12.1', sync: 'always', ...one }]))
}

const CURRENT = ['current', 'current', 'current'] as const
const THREE: DurabilityFacts = {
  isClustered: true,
  events: placement('SLUICE_EVENTS', CURRENT),
  buckets: [placement('KV_SLUICE_APPS', CURRENT), placement('KV_SLUICE_COUNTS', CURRENT)],
  servers: servers({}, {}, {}),
}
const ONE: DurabilityFacts = {
  isClustered: false,
  events: placement('SLUICE_EVENTS', ['current']),
  buckets: [],
  servers: servers({}),
}

interface Case {
  readonly name: string
  readonly facts: DurabilityFacts
  readonly line: string
  readonly isWarning: boolean
  readonly isSynced: boolean
}

const CASES: readonly Case[] = [
  {
    name: 'three copies that are synced',
    facts: THREE,
    line: 'a kill of any server, a power cut of one and a power cut of all',
    isWarning: false,
    isSynced: true,
  },
  {
    name: 'three copies, one server that syncs later',
    facts: { ...THREE, servers: servers({}, {}, { sync: 120 }) },
    line: 'a kill of any server and a power cut of one, not a power cut of all (nats-2 syncs every 120 s)',
    isWarning: false,
    isSynced: false,
  },
  {
    name: 'three copies, nothing known of two servers',
    facts: { ...THREE, servers: servers({}) },
    line: 'a kill of any server and a power cut of one, not a power cut of all (when nats-1 and nats-2 sync is not known: see NATS_MONITOR_URLS)',
    isWarning: true,
    isSynced: false,
  },
  {
    name: 'a copy is away and the others sync later: one more loss is too many',
    facts: {
      ...THREE,
      events: placement('SLUICE_EVENTS', ['current', 'current', 'offline']),
      servers: servers({ sync: 120 }, { sync: 120 }, { sync: 'always' }),
    },
    line: 'a kill of any server, not a power cut of one (nats-2 is offline, nats-0 and nats-1 sync every 120 s), not a power cut of all (nats-0 and nats-1 sync every 120 s); SLUICE_EVENTS: nats-2 is offline',
    isWarning: true,
    isSynced: false,
  },
  {
    name: 'a server that is away counts as it was last seen',
    facts: { ...THREE, events: placement('SLUICE_EVENTS', ['current', 'current', 'offline']) },
    line: 'a kill of any server, a power cut of one and a power cut of all; SLUICE_EVENTS: nats-2 is offline',
    isWarning: true,
    isSynced: true,
  },
  {
    name: 'a server that is away and synced later keeps the others from counting',
    facts: {
      ...THREE,
      events: placement('SLUICE_EVENTS', ['current', 'current', 'offline']),
      servers: servers({}, {}, { sync: 120 }),
    },
    line: 'a kill of any server, not a power cut of one (nats-2 is offline, nats-2 syncs every 120 s), not a power cut of all (nats-2 syncs every 120 s); SLUICE_EVENTS: nats-2 is offline',
    isWarning: true,
    isSynced: false,
  },
  {
    name: 'a server that is away and was never seen says nothing of the others',
    facts: {
      ...THREE,
      events: placement('SLUICE_EVENTS', ['current', 'current', 'offline']),
      servers: servers({}, {}),
    },
    line: 'a kill of any server, a power cut of one and a power cut of all; SLUICE_EVENTS: nats-2 is offline',
    isWarning: true,
    isSynced: true,
  },
  {
    name: 'a copy that lags',
    facts: {
      ...THREE,
      events: placement('SLUICE_EVENTS', ['current', 'lagging', 'lagging']),
      servers: servers({}, { sync: 120 }, {}),
    },
    line: 'a kill of any server, not a power cut of one (nats-1 and nats-2 are behind, nats-1 syncs every 120 s), not a power cut of all (nats-1 syncs every 120 s); SLUICE_EVENTS: nats-1 and nats-2 are behind',
    isWarning: true,
    isSynced: false,
  },
  {
    name: 'one copy that is synced',
    facts: ONE,
    line: 'a kill of any server, a power cut of one and a power cut of all; one replica of SLUICE_EVENTS',
    isWarning: true,
    isSynced: true,
  },
  {
    name: 'one copy, synced later',
    facts: { ...ONE, servers: servers({ sync: 60, version: '2.9.10' }) },
    line: 'a kill of any server, not a power cut of one or a power cut of all (nats-0 syncs every 60 s); one replica of SLUICE_EVENTS',
    isWarning: true,
    isSynced: false,
  },
  {
    name: 'a bucket with one copy beside a stream with three',
    facts: {
      ...THREE,
      buckets: [placement('KV_SLUICE_APPS', ['current']), placement('KV_SLUICE_COUNTS', ['current'])],
    },
    line: 'a kill of any server, a power cut of one and a power cut of all; one replica of KV_SLUICE_APPS and KV_SLUICE_COUNTS',
    isWarning: true,
    isSynced: true,
  },
  {
    name: 'an old version in a cluster',
    facts: { ...THREE, servers: servers({}, { version: '2.10.22' }, {}) },
    line: 'nothing for certain (nats-server 2.10.22 is older than 2.10.23, and may lose it in a cluster)',
    isWarning: true,
    isSynced: true,
  },
  {
    name: 'an old version in a cluster, whose servers sync later',
    facts: { ...THREE, servers: servers({ sync: 60 }, { version: '2.10.22', sync: 60 }, { sync: 60 }) },
    line: 'nothing for certain (nats-server 2.10.22 is older than 2.10.23, and may lose it in a cluster, nats-0, nats-1 and nats-2 sync every 60 s)',
    isWarning: true,
    isSynced: false,
  },
  {
    name: 'a stream that is acknowledged before it is written',
    facts: { ...ONE, events: { ...ONE.events, unwritten: 'persist_mode of SLUICE_EVENTS is async' } },
    line: 'nothing for certain (persist_mode of SLUICE_EVENTS is async); one replica of SLUICE_EVENTS',
    isWarning: true,
    isSynced: false,
  },
]

describe('what a 202 survives', () => {
  it.each(CASES)('$name', ({ facts, line, isWarning, isSynced }) => {
    expect(judgeDurability(facts)).toEqual({ line, isWarning, isSynced })
  })

  it('names a server that has an id alone by the beginning of it', () => {
    const server = `N${'A'.repeat(55)}`
    const events: Placement = { stream: 'SLUICE_EVENTS', replicas: [{ server, state: 'current' }], unwritten: null }
    const { line } = judgeDurability({ ...ONE, events, servers: new Map() })
    expect(line).toContain('when NAAAAAAA… syncs is not known')
  })
})
