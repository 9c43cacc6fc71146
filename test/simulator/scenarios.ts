// Histories that once showed a bug, kept as regression tests.

import { AUDIT_SCENARIOS } from './audit-scenarios.ts'
import { anApp, HOUR_MS, history, NOON_MS, type Scenario, send } from './scenario.ts'
import { SPOOL_SCENARIOS } from './spool/scenarios.ts'

const CLIENTS = 40
const MANY_APPS = 12_500

/** By name. */
export const SCENARIOS: Readonly<Record<string, Scenario>> = {
  ...AUDIT_SCENARIOS,
  ...SPOOL_SCENARIOS,
  'segment-without-a-name': {
    claim: 'keeps the records of a segment whose name a killed process had not synced',
    history: history('segment-without-a-name', {
      seed: 6,
      nodes: 1,
      isOneMachine: true,
      apps: [anApp(0), anApp(1)],
      steps: [
        // The second segment is being made.
        { atMs: 2993, kind: 'process killed', operations: 1, forMs: 300 },
        send(3068, { app: 1, batches: 2, events: 100 }),
        send(4802, { batches: 2, gapMs: 400 }),
        { atMs: 5203, kind: 'power cut', operations: 0, forMs: 4000 },
      ],
      endMs: 10_203,
    }),
  },
  'slow-nats': {
    claim: 'answers 202 to at least 90% of what a slow NATS stores',
    history: history('slow-nats', {
      nodes: 1,
      steps: [
        { atMs: 1000, kind: 'nats slow', messagesPerSecond: 100, forMs: 20_000 },
        ...Array.from({ length: CLIENTS }, (_, client) =>
          send(1000 + client * 2, { batches: 200, gapMs: 100, keyed: true }),
        ),
      ],
      endMs: 25_000,
    }),
  },
  'nats-away': {
    claim:
      'lets requests wait for a NATS that is away, or does not acknowledge, no longer than 2 s, but for one a second',
    history: history('nats-away', {
      nodes: 1,
      steps: [
        ...Array.from({ length: 10 }, (_, client) =>
          send(1000 + client * 50, { batches: 38, gapMs: 500, keyed: client % 2 === 0 }),
        ),
        { atMs: 3000, kind: 'nats killed', forMs: 7000 },
        { atMs: 12_000, kind: 'acks lost', share: 1, forMs: 7000 },
      ],
      endMs: 20_000,
      // Twenty a second in the first two seconds of either outage, and then one a second.
      maxWaits: 2 * (2 * 20 + 7),
    }),
  },
  'nats-acknowledges-again': {
    claim: 'refuses nobody two seconds after NATS acknowledges again, though no request came meanwhile',
    history: history('nats-acknowledges-again', {
      nodes: 1,
      steps: [
        { atMs: 1900, kind: 'acks lost', share: 1, forMs: 4000 },
        send(2000, {}),
        ...Array.from({ length: 20 }, (_, client) => send(7900, { keyed: client % 2 === 0 })),
      ],
      endMs: 9000,
    }),
    // The one whose acknowledgement was lost.
    refused: 1,
  },
  'acks-just-late': {
    claim: 'sends again after acknowledgements that came just after their records timed out',
    history: history('acks-just-late', {
      nodes: 1,
      steps: [
        { atMs: 2000, kind: 'acks late', byMs: 2001, forMs: 500 },
        send(1000, { batches: 100, gapMs: 20, keyed: true, tries: 3, retryAfterMs: 1000 }),
      ],
      endMs: 10_000,
    }),
  },
  'smaller-plan': {
    claim: 'checks the next batch against a reduced plan',
    history: history('smaller-plan', {
      nodes: 1,
      steps: [
        send(1000, { batches: 109, gapMs: 20, events: 100 }),
        send(4000, { events: 99 }),
        { atMs: 10_000, kind: 'plan', app: 0, record: { plan: '10k' } },
        send(20_000, { events: 2 }),
      ],
      endMs: 22_000,
    }),
  },
  'redis-rolled-back': {
    claim: 'has exact counters two minutes after Redis came back with an older state',
    history: history('redis-rolled-back', {
      apps: [anApp(0, { plan: '10k', events_per_minute: 5000 })],
      steps: [
        send(500, { events: 1 }),
        { atMs: 1500, kind: 'redis snapshot' },
        send(2000, { batches: 100, gapMs: 40, events: 100, tries: 3, retryAfterMs: 60_000 }),
        send(65_000, { batches: 50, gapMs: 40, events: 100, node: 1 }),
        { atMs: 70_000, kind: 'redis killed', comesBack: 'rolled back', forMs: 500 },
        send(240_000, { batches: 30, gapMs: 40, events: 100 }),
        send(300_000, { batches: 30, gapMs: 40, events: 100, node: 1 }),
      ],
      endMs: 305_000,
    }),
  },
  'redis-forgets': {
    claim: 'holds while Redis comes back twice with an older state, under load',
    history: history('redis-forgets', {
      nodes: 3,
      apps: [anApp(0, { plan: '10k', events_per_day: 1000, events_per_minute: 100_000 })],
      steps: [
        { atMs: 3000, kind: 'redis snapshot' },
        ...Array.from({ length: 3 }, (_, node) => send(1000, { node, batches: 900, gapMs: 100, events: 5 })),
        { atMs: 20_000, kind: 'redis killed', comesBack: 'rolled back', forMs: 500 },
        { atMs: 75_000, kind: 'redis rolled back' },
      ],
      endMs: 95_000,
    }),
  },
  'redis-forgets-as-a-node-starts': {
    claim: 'gives out at most one limit more where a node starts while Redis has lost what the others have counted',
    history: history('redis-forgets-as-a-node-starts', {
      apps: [anApp(0, { plan: '500k', events_per_month: 340 })],
      steps: [
        { atMs: 1000, kind: 'stop', node: 1 },
        { atMs: 3000, kind: 'redis killed', comesBack: 'empty', forMs: 20_000 },
        send(6000, { batches: 25, gapMs: 20 }),
        send(10_000, { batches: 40, gapMs: 400, events: 10, node: 1 }),
        { atMs: 22_000, kind: 'start' },
      ],
      endMs: 30_000,
    }),
  },
  'doubt-and-crash': {
    claim: 'charges a batch in doubt once, even if its node is killed after the retry that found it stored',
    history: history('doubt-and-crash', {
      steps: [
        send(1000, {}),
        { atMs: 5000, kind: 'acks late', byMs: 2500, forMs: 1000 },
        send(5100, { events: 50, keyed: true, tries: 3, retryAfterMs: 1500 }),
        { atMs: 11_000, kind: 'kill', node: 0 },
      ],
      endMs: 40_000,
    }),
  },
  'key-in-doubt': {
    claim:
      'answers 202 to the retry of a stored batch that was in doubt, though its minute has no room to take it again',
    history: history('key-in-doubt', {
      apps: [anApp(0, { events_per_minute: 100 })],
      steps: [
        { atMs: 5000, kind: 'acks late', byMs: 2500, forMs: 1000 },
        send(5100, { events: 60, keyed: true, tries: 3, retryAfterMs: 1500, retryOn: 1 }),
        send(15_000, { events: 40 }),
        send(16_000, { events: 1 }),
      ],
      endMs: 20_000,
    }),
    // The first answer of the keyed batch, and the last batch.
    refused: 2,
  },
  'late-messages': {
    claim: 'stores no batch in doubt that arrives after its minute was closed, and its room was given to others',
    history: history('late-messages', {
      apps: [anApp(0, { events_per_day: 1000 }), anApp(1, { events_per_day: 1000 })],
      steps: [
        { atMs: 10_000, kind: 'path', node: 0, to: 'nats', state: 'silent', forMs: 78_000 },
        ...[0, 1].flatMap((app) => [
          send(11_000, { app, batches: 9, gapMs: 10, events: 100, keyed: true }),
          send(80_000, { app, node: 1, batches: 9, gapMs: 10, events: 100, keyed: true }),
        ]),
      ],
      endMs: 95_000,
    }),
  },
  'redis-late': {
    claim: 'charges requests once whose answer from Redis came late',
    history: history('redis-late', {
      nodes: 1,
      apps: [anApp(0, { events_per_minute: 100 })],
      steps: [
        send(1000, {}),
        { atMs: 1990, kind: 'path', node: 0, to: 'redis', state: 'silent', forMs: 320 },
        send(2000, { events: 40, keyed: true }),
        send(2000, { events: 40 }),
        send(4000, { events: 19 }),
      ],
      endMs: 10_000,
    }),
    refused: 0,
  },
  'many-apps': {
    claim: 'has exact counters again after a node that served 12,500 apps was killed',
    history: history('many-apps', {
      epochMs: NOON_MS - 9 * HOUR_MS,
      apps: Array.from({ length: MANY_APPS }, (_, at) => anApp(at)),
      steps: [
        ...Array.from({ length: MANY_APPS }, (_, app) => send(1000 + Math.floor(app / 2), { app })),
        { atMs: 8000, kind: 'kill', node: 0 },
      ],
      endMs: 20_000,
    }),
  },
}
