// Histories made for one planted bug each (test/mutate): what the audit, the claims of keys and the fences guard against.

import { EVENTS_STREAM } from '../../src/nats/store-names.ts'
import { anApp, history, type Scenario, send } from './scenario.ts'

const MINUTE_MS = 60_000

export const AUDIT_SCENARIOS: Readonly<Record<string, Scenario>> = {
  'fence-of-lost-messages': {
    claim: 'closes minutes again where NATS has lost the last messages that an auditor had read, and none comes',
    history: history('fence-of-lost-messages', {
      steps: [
        send(1000, { batches: 5, events: 10 }),
        send(61_000, { batches: 300, gapMs: 5, events: 10 }),
        { atMs: 62_000, kind: 'kill', node: 0 },
        { atMs: 63_500, kind: 'nats lost its tail', stream: EVENTS_STREAM, tailMs: 5000, forMs: 200 },
      ],
      endMs: 64_000,
    }),
  },
  'stored-after-its-minute': {
    claim: 'gives no room away for a batch that is stored just after its minute',
    history: history('stored-after-its-minute', {
      apps: Array.from({ length: 8 }, (_, at) => anApp(at, { events_per_day: 100 })),
      steps: [
        { atMs: 1000, kind: 'delay', node: 0, to: 'nats', extraMs: 900, forMs: 8 * MINUTE_MS },
        ...Array.from({ length: 8 }, (_, app) => {
          const turnMs = (app + 1) * MINUTE_MS
          return [
            send(turnMs - 100, { app, events: 100, keyed: true }),
            send(turnMs + 100, { app, node: 1, events: 100, batches: 25, gapMs: 200 }),
          ]
        }).flat(),
      ],
      endMs: 9 * MINUTE_MS,
    }),
    refused: 8 * 25,
  },
  // The auditor reads 500 messages at once.
  'auditor-far-behind': {
    claim: 'closes no minute before a new auditor has read all of it',
    history: history('auditor-far-behind', {
      nodes: 3,
      // The partition of the second one goes to another auditor.
      apps: [anApp(0), anApp(1, { events_per_day: 600 })],
      steps: [
        send(20_000, { app: 1, batches: 600, gapMs: 20, keyed: true }),
        // The node that is left finds them dead when the minute can be closed.
        { atMs: 60_500, kind: 'kill', node: 0 },
        { atMs: 60_500, kind: 'kill', node: 0 },
        send(64_000, { app: 1, batches: 80, gapMs: 100, events: 10 }),
      ],
      endMs: 73_000,
    }),
    refused: 80,
  },
  'sequences-used-again': {
    claim: 'counts messages that have the sequences of lost ones',
    history: history('sequences-used-again', {
      steps: [
        send(35_000, { batches: 100, gapMs: 50, keyed: true }),
        { atMs: 68_500, kind: 'nats lost its tail', stream: EVENTS_STREAM, tailMs: 60_000, forMs: 1 },
        // More events than were lost: these stay charged, and hide so many that are not counted.
        send(68_510, { batches: 200, gapMs: 1, events: 10, keyed: true, tries: 100, retryAfterMs: 20 }),
      ],
      endMs: 80_000,
    }),
  },
  'key-held-elsewhere': {
    claim: 'lets a request wait while another node stores the batch of its key',
    history: history('key-held-elsewhere', {
      apps: [anApp(0, { events_per_minute: 100 })],
      steps: [
        { atMs: 1900, kind: 'acks late', byMs: 1000, forMs: 2000 },
        send(2000, { events: 60, keyed: true, twinAfterMs: 200 }),
      ],
      endMs: 8000,
    }),
    refused: 0,
  },
  'refused-elsewhere': {
    claim: 'frees the key of a batch that was refused, and the next node stores it at once',
    history: history('refused-elsewhere', {
      steps: [
        { atMs: 1000, kind: 'nats full', forMs: 500 },
        send(1100, { keyed: true, tries: 2, retryAfterMs: 600, retryOn: 1 }),
      ],
      endMs: 8000,
      maxAnswerMs: 1000,
    }),
    refused: 1,
  },
  'redis-away-at-the-close': {
    claim: 'writes the totals of a minute that closed while Redis was away',
    history: history('redis-away-at-the-close', {
      steps: [
        send(1000, { batches: 5, events: 10 }),
        send(61_000, { batches: 5, events: 10 }),
        { atMs: 121_000, kind: 'redis killed', comesBack: 'with all', forMs: 10_000 },
      ],
      endMs: 140_000,
    }),
    refused: 0,
  },
  'nobody-audits-an-emptied-redis': {
    claim: 'gives out no limit again while no node may write what Redis has lost, however long that takes',
    history: history('nobody-audits-an-emptied-redis', {
      nodes: 1,
      apps: [anApp(0, { events_per_day: 100 })],
      steps: [
        // The node has seen a minute closed.
        { atMs: 130_000, kind: 'clock', of: 0, byMs: -90_000 },
        { atMs: 140_000, kind: 'redis emptied' },
        send(145_000, { events: 100 }),
        send(14 * MINUTE_MS, {}),
        send(26 * MINUTE_MS, {}),
      ],
      endMs: 27 * MINUTE_MS,
    }),
    refused: 2,
  },
  'redis-with-older-bases': {
    claim: 'writes all totals again to a Redis that came back with older ones',
    history: history('redis-with-older-bases', {
      steps: [
        send(500, {}),
        { atMs: 70_000, kind: 'redis snapshot' },
        send(75_000, { batches: 5, events: 10 }),
        { atMs: 140_000, kind: 'redis killed', comesBack: 'rolled back', forMs: 500 },
      ],
      endMs: 150_000,
    }),
    refused: 0,
  },
  'older-owner-of-redis': {
    claim: 'takes its own former stream for no other installation where Redis goes back to before the stream was lost',
    history: history('older-owner-of-redis', {
      nodes: 1,
      steps: [
        { atMs: 70_000, kind: 'redis snapshot' },
        { atMs: 73_000, kind: 'stream lost' },
        { atMs: 84_000, kind: 'redis rolled back' },
      ],
      endMs: 130_000,
    }),
    refused: 0,
  },
  'older-owner-of-redis-as-a-node-starts': {
    claim: 'takes its own former stream for no other installation where the node that had it made again is gone',
    history: history('older-owner-of-redis-as-a-node-starts', {
      nodes: 1,
      steps: [
        { atMs: 70_000, kind: 'redis snapshot' },
        { atMs: 73_000, kind: 'stream lost' },
        // By then the check after the new stream is over, and the next one is yet to come.
        { atMs: 84_000, kind: 'kill', node: 0 },
        { atMs: 84_100, kind: 'redis rolled back' },
        { atMs: 85_000, kind: 'start' },
      ],
      endMs: 130_000,
    }),
    refused: 0,
  },
}
