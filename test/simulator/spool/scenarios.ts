// Histories of spools that once showed a bug, kept as regression tests.

import { EVENTS_STREAM } from '../../../src/nats/store-names.ts'
import { anApp, history, NOON_MS, type Scenario, send } from '../scenario.ts'

const MINUTE_MS = 60_000

export const SPOOL_SCENARIOS: Readonly<Record<string, Scenario>> = {
  'spool-key-at-two-nodes': {
    claim: 'stores a keyed batch once that two spools took, of which one is sent after the duplicate window',
    history: history('spool-key-at-two-nodes', {
      hasSpools: true,
      steps: [
        { atMs: 2000, kind: 'path', node: 1, to: 'redis', state: 'cut', forMs: 60_000 },
        { atMs: 2000, kind: 'nats killed', forMs: 10_000 },
        { atMs: 2000, kind: 'path', node: 0, to: 'nats', state: 'cut', forMs: 700_000 },
        // The second node cannot see that the first has the key.
        send(6000, { batches: 3, gapMs: 50, keyed: true, twinAfterMs: 1500 }),
      ],
      endMs: 710_000,
    }),
  },
  'spool-clock-behind': {
    claim: 'stores a keyed batch once that two spools took, where the clock of the first is behind that of Redis',
    history: history('spool-clock-behind', {
      hasSpools: true,
      steps: [
        { atMs: 1000, kind: 'clock', of: 0, byMs: -20_000 },
        { atMs: 2000, kind: 'nats killed', forMs: 20_000 },
        { atMs: 2000, kind: 'path', node: 0, to: 'nats', state: 'cut', forMs: 700_000 },
        send(6000, { batches: 3, gapMs: 50, keyed: true, twinAfterMs: 4000 }),
        { atMs: 7000, kind: 'redis killed', comesBack: 'with all', forMs: 60_000 },
        // The first node notices that Redis is away.
        send(9000, { batches: 3, gapMs: 200 }),
      ],
      endMs: 710_000,
    }),
  },
  'spool-window-ends': {
    claim: 'asks the stream again for what a spool could not send before the duplicate window ended',
    history: history('spool-window-ends', {
      nodes: 1,
      hasSpools: true,
      apps: [anApp(0), anApp(1)],
      steps: [
        { atMs: 65_235, kind: 'acks lost', forMs: 1_500_000, share: 1 },
        send(65_285, { batches: 12, gapMs: 400, keyed: true }),
        // Of these the stream does not say what became of them.
        send(125_383, { app: 1, batches: 3, gapMs: 20 }),
      ],
      endMs: 1_566_235,
    }),
  },
  'spool-sent-before-its-minute-closed': {
    claim:
      'counts what a spool has sent until the audit counts it, also after a kill, where NATS syncs what it acknowledges',
    history: history('spool-sent-before-its-minute-closed', {
      hasSpools: true,
      isSynced: true,
      apps: [anApp(0, { events_per_month: 100 })],
      steps: [
        { atMs: 2000, kind: 'acks lost', forMs: 2000, share: 1 },
        send(2100, { batches: 4, gapMs: 50, events: 5, keyed: true }),
        { atMs: 30_000, kind: 'nats killed', forMs: 300_000 },
        { atMs: 40_000, kind: 'kill', node: 0 },
        { atMs: 41_000, kind: 'start' },
        send(60_000, { node: 1, batches: 40, gapMs: 50, events: 5 }),
      ],
      endMs: 340_000,
    }),
  },
  'spool-found-late': {
    claim: 'sends again what NATS lost of a spool, also where the last one found was not the newest message',
    history: history('spool-found-late', {
      nodes: 1,
      hasSpools: true,
      apps: [anApp(0, { events_per_minute: 182, events_per_day: 274 })],
      steps: [
        { atMs: 56_400, kind: 'acks lost', forMs: 400_000, share: 1 },
        send(57_100, { events: 5, keyed: true, tries: 3, retryAfterMs: 2500 }),
        send(73_404, { batches: 25, events: 2, keyed: true, retryAfterMs: 50, replays: 1 }),
        send(87_329, { batches: 40, gapMs: 3000, events: 5, keyed: true, replays: 1 }),
        { atMs: 456_460, kind: 'stop', node: 0 },
        { atMs: 457_403, kind: 'nats lost its tail', stream: EVENTS_STREAM, tailMs: 30_000, forMs: 200 },
      ],
      endMs: 458_603,
    }),
  },
  'spool-quiet-partition': {
    claim: 'counts once what an earlier process sent, also where the newest message was one of another partition',
    history: history('spool-quiet-partition', {
      epochMs: NOON_MS + 96 * MINUTE_MS,
      hasSpools: true,
      apps: [anApp(0), anApp(1), anApp(2)],
      steps: [
        { atMs: 21_356, kind: 'nats frozen', forMs: 1_296_000 },
        send(64_477, { app: 2, batches: 40, gapMs: 1, tries: 3, retryAfterMs: 500, retryOn: 1 }),
        send(670_379, { app: 1, node: 1, gapMs: 20, events: 10, keyed: true, retryAfterMs: 50, replays: 1 }),
        send(761_842, {
          app: 1,
          batches: 3,
          gapMs: 3000,
          events: 10,
          keyed: true,
          tries: 2,
          retryAfterMs: 50,
          retryOn: 1,
        }),
        { atMs: 1_461_386, kind: 'stop', node: 0 },
      ],
      endMs: 1_519_356,
    }),
  },
  'spool-idle-minutes': {
    claim: 'does not take the emptied counters of an old minute for a loss in Redis',
    history: history('spool-idle-minutes', {
      hasSpools: true,
      apps: [anApp(0), anApp(1, { events_per_minute: 123, events_per_month: 600 })],
      steps: [
        { atMs: 40_955, kind: 'nats killed', forMs: 700_000 },
        send(227_731, { app: 1, batches: 40, gapMs: 20, keyed: true }),
        send(622_139, { app: 1, node: 1, batches: 25, gapMs: 20, events: 5 }),
        send(632_066, { app: 1, batches: 25, gapMs: 100 }),
      ],
      endMs: 750_955,
    }),
  },
}
