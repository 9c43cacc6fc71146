import { expect, test } from 'vitest'
import { describePart, headlineOf, isUp, type Part } from '../../../src/contract/health.ts'

type Status = { [Kind in Part['kind']]: Pick<Extract<Part, { kind: Kind }>, 'kind' | 'state' | 'reason'> }[Part['kind']]

/** Each state of each kind, with a reason where it has one. */
const SENTENCES: readonly (readonly [Status, string])[] = [
  [{ kind: 'process', state: 'starting', reason: null }, 'starting'],
  [{ kind: 'process', state: 'stopping', reason: null }, 'draining'],
  [{ kind: 'process', state: 'silent', reason: null }, 'no answer'],
  [{ kind: 'journal', state: 'ok', reason: null }, 'journal'],
  [
    { kind: 'journal', state: 'full', reason: 'SLUICE_JOURNAL_MAX_MB reached' },
    'journal full: SLUICE_JOURNAL_MAX_MB reached: answering 503 until there is room',
  ],
  [{ kind: 'journal', state: 'disk_full', reason: 'ENOSPC' }, 'disk full: ENOSPC: answering 503 until there is room'],
  [{ kind: 'journal', state: 'disk_error', reason: 'EIO' }, 'disk error: EIO: answering 503 until a write succeeds'],
  [
    { kind: 'journal', state: 'stuck', reason: '262,144 records wait' },
    'disk stuck: 262,144 records wait: answering 503 until fewer wait',
  ],
  [{ kind: 'jetstream', state: 'ok', reason: null }, 'NATS JetStream'],
  [{ kind: 'jetstream', state: 'starting', reason: null }, 'connecting to NATS'],
  [
    { kind: 'jetstream', state: 'away', reason: 'connection refused' },
    'NATS away: connection refused: answering 503 until it is back',
  ],
  [{ kind: 'jetstream', state: 'silent', reason: null }, 'NATS does not acknowledge: answering 503 until it does'],
  [
    { kind: 'jetstream', state: 'no_stream', reason: 'it is gone' },
    'no stream in NATS: it is gone: answering 503 until there is one',
  ],
  [
    { kind: 'jetstream', state: 'full', reason: 'maximum bytes exceeded' },
    'stream full: maximum bytes exceeded: answering 503 until there is room',
  ],
  [
    { kind: 'jetstream', state: 'refusing', reason: 'error 500' },
    'stream refuses messages: error 500: answering 503 until it takes them',
  ],
  [
    { kind: 'jetstream', state: 'slow', reason: null },
    'NATS slow: answering 503 to what it cannot acknowledge in time',
  ],
  [{ kind: 'memory', state: 'ok', reason: null }, 'in memory'],
  [{ kind: 'audit', state: 'ok', reason: 'partitions 0, 3' }, 'audit of the limits: partitions 0, 3'],
  [{ kind: 'audit', state: 'skewed', reason: null }, "this node's clock is wrong: other nodes audit its partitions"],
  [{ kind: 'audit', state: 'apart', reason: null }, 'clocks differ: no node audits, and counters may be too high'],
  [{ kind: 'redis', state: 'ok', reason: null }, 'in Redis'],
  [{ kind: 'redis', state: 'starting', reason: null }, 'connecting to Redis'],
  [
    { kind: 'redis', state: 'away', reason: 'connection refused' },
    'Redis away: connection refused: this node enforces its share of each limit',
  ],
  [{ kind: 'redis', state: 'slow', reason: 'no answer in 250 ms' }, 'Redis slow: no answer in 250 ms'],
  [
    { kind: 'redis', state: 'forgotten', reason: null },
    'Redis has lost counts: this node enforces its share of limits until the audit has written them again',
  ],
  [{ kind: 'file', state: 'ok', reason: null }, 'in a file'],
  [
    { kind: 'file', state: 'error', reason: null },
    'app file cannot be used: the last good one stays in force; see the log',
  ],
  [{ kind: 'bucket', state: 'ok', reason: null }, 'in NATS'],
  [{ kind: 'bucket', state: 'starting', reason: null }, 'reading the app records from NATS'],
  [
    { kind: 'bucket', state: 'unread', reason: 'no answer' },
    'app records not read yet: no answer: answering 503 until they are',
  ],
  [
    { kind: 'bucket', state: 'away', reason: 'no answer' },
    'app records not updated: no answer: the known ones stay in force',
  ],
  [{ kind: 'node_http', state: 'ok', reason: null }, "Node's own HTTP server"],
  [
    { kind: 'node_http', state: 'warn', reason: null },
    "Node's own HTTP server, since uWebSockets.js does not load: it carries about seven tenths as much",
  ],
  [{ kind: 'durability', state: 'ok', reason: 'a kill of any server' }, 'a 202 survives: a kill of any server'],
  [
    { kind: 'durability', state: 'warn', reason: 'a kill of any server; one replica' },
    'a 202 survives: a kill of any server; one replica',
  ],
  [{ kind: 'durability', state: 'unknown', reason: null }, 'what a 202 survives is not known yet'],
  [
    { kind: 'durability', state: 'unsynced', reason: null },
    'NATS has not shown that it syncs what it acknowledges: not ready until each server shows sync_interval: always (SLUICE_REQUIRE_SYNC)',
  ],
]

test.each(SENTENCES)('%o is put into words', (status, sentence) => {
  expect(describePart(status)).toBe(sentence)
  expect(sentence.startsWith(headlineOf(status))).toBe(true)
})

test('a part is up while it does its work, slowly or with less than it should have perhaps', () => {
  const up = SENTENCES.map(([status]) => status).filter(isUp)
  expect(up.map(({ kind, state }) => `${kind} ${state}`)).toEqual([
    'journal ok',
    'jetstream ok',
    'jetstream slow',
    'memory ok',
    'audit ok',
    'redis ok',
    'redis slow',
    'file ok',
    'bucket ok',
    'node_http ok',
    'node_http warn',
    'durability ok',
    'durability warn',
    'durability unknown',
  ])
})
