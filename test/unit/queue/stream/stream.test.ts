import type { StreamConfig } from '@nats-io/jetstream'
import type { NatsConnection } from '@nats-io/transport-node'
import { describe, expect, it } from 'vitest'
import { partitionOf } from '../../../../src/contract/partition.ts'
import { parseNatsUrl } from '../../../../src/nats/address.ts'
import { describeStream, differencesOf, ensureStream } from '../../../../src/queue/stream/stream.ts'
import { StreamState } from '../../../../src/queue/stream/stream-state.ts'
import { NEW_STREAM } from '../../../support/jetstream.ts'

const WANTED = {
  name: 'SLUICE_EVENTS',
  subjects: ['sluice.events.*'],
  storage: 'file',
  retention: 'limits',
  discard: 'new',
  duplicate_window: 600e9,
  max_age: 72 * 3600e9,
  max_msgs: -1,
  max_bytes: -1,
  max_msgs_per_subject: -1,
  max_msg_size: -1,
  num_replicas: 1,
  allow_direct: true,
} as unknown as StreamConfig

const FACTS = {
  messages: 0,
  bytes: 0,
  firstSequence: 1,
  lastSequence: 0,
  replicas: 1,
  consumers: 0,
  createdAt: '2026-11-20T12:00:00Z',
  maxBytes: null,
  maxMessages: null,
  discardsOld: false,
  keepMs: 72 * 3_600_000,
  oldestAtMs: null,
  refusal: null,
  unsafe: null,
  isAtomic: false,
  differences: [],
}

describe('the partition of an app', () => {
  it('is FNV-1a of its id modulo the number of partitions', () => {
    // Published test vectors of the hash: "" is 811c9dc5, "a" e40c292c, "foobar" bf9cf968.
    expect(partitionOf('', 2 ** 32)).toBe(0x811c9dc5)
    expect(partitionOf('a', 2 ** 32)).toBe(0xe40c292c)
    expect(partitionOf('foobar', 2 ** 32)).toBe(0xbf9cf968)
    expect(partitionOf('foobar', 16)).toBe(8)
    expect(partitionOf('foobar', 1)).toBe(0)
  })

  it('spreads apps evenly', () => {
    const counts = Array.from({ length: 16 }, () => 0)
    for (let index = 0; index < 16_000; index += 1) counts[partitionOf(`app-${index}`, 16)] += 1
    for (const count of counts) expect(Math.abs(count - 1000)).toBeLessThan(150)
  })
})

describe('a stream', () => {
  it('with the settings of the contract breaks no promise', () => {
    expect(differencesOf(WANTED)).toEqual([])
  })

  it.each([
    { num_replicas: 3 },
    { max_age: 0 },
    { max_age: 3600e9 },
    { max_age: 1000 * 3600e9 },
    { max_bytes: 1e12, max_msgs: 1e9 },
    { duplicate_window: 3600e9 },
    { subjects: ['sluice.>'] },
    { subjects: ['sluice.events.*', 'other'] },
    { allow_direct: false },
    { persist_mode: 'default' },
    { compression: 's2', placement: { cluster: 'east', tags: ['ssd'] } },
    { max_msg_size: 614_400, max_consumers: 20, deny_delete: true, description: 'ours' },
  ])('with %j is the operator’s choice', (change) => {
    expect(differencesOf({ ...WANTED, ...change } as unknown as StreamConfig)).toEqual([])
  })

  it.each([
    [{ subjects: ['sluice.events.1'] }, 'subjects is sluice.events.1, sluice wants sluice.events.*'],
    [{ subjects: undefined }, 'subjects is none, sluice wants sluice.events.*'],
    [{ storage: 'memory' }, 'storage is memory, sluice wants file'],
    [{ retention: 'workqueue' }, 'retention is workqueue, sluice wants limits'],
    [{ retention: 'interest' }, 'retention is interest, sluice wants limits'],
    [{ discard: 'old' }, 'discard is old, sluice wants new'],
    [{ duplicate_window: 300e9 }, 'duplicate_window is 300 s, sluice wants at least 600 s'],
    [{ max_age: 3599e9 }, 'max_age is 3599 s, sluice wants at least 3600 s'],
    [{ max_msgs_per_subject: 1 }, 'max_msgs_per_subject is 1, sluice wants none'],
    [{ max_msg_size: 1024 }, 'max_msg_size is 1024 bytes, sluice wants at least 614400 bytes'],
    [{ no_ack: true }, 'no_ack is true, sluice wants false'],
    [{ sealed: true }, 'sealed is true, sluice wants false'],
    [{ persist_mode: 'async' }, 'persist_mode is async, sluice wants default'],
    [{ subject_transform: { src: '>', dest: 'x.>' } }, 'subject_transform is set, sluice wants none'],
  ])('with %o is reported', (change, difference) => {
    expect(differencesOf({ ...WANTED, ...change } as unknown as StreamConfig)).toEqual([difference])
  })
})

describe('a stream refuses', () => {
  const PER_SUBJECT = { max_msgs_per_subject: 7, discard_new_per_subject: true }
  const GB = 1e9
  const KIB = 1024

  async function refusal(config: object, state: object = {}): Promise<string | null> {
    const answer = {
      config: { ...WANTED, ...config },
      created: FACTS.createdAt,
      state: { messages: 1000, bytes: 1e6, first_seq: 1, last_seq: 1000, first_ts: FACTS.createdAt, ...state },
    }
    // It is asked again where each subject counts.
    const report = await describeStream(answering(answer, answer).connection)
    return report.kind === 'present' ? report.facts.refusal : report.kind
  }

  it.each([
    ['as long as it has no limits', {}, { bytes: 1e15 }],
    ['while there is room for a large record', { max_bytes: 10 * GB }, { messages: 1e7, bytes: 10 * GB - 600 * KIB }],
    ['while a small one has room for a large record', { max_bytes: 1000 * KIB }, { messages: 9, bytes: 400 * KIB }],
    ['below its number of messages', { max_msgs: 1001 }, {}],
    ['below its number of messages of a subject', PER_SUBJECT, { subjects: { 'sluice.events.3': 6 } }],
    [
      'where a subject that is full drops its oldest',
      { max_msgs_per_subject: 7 },
      { subjects: { 'sluice.events.3': 7 } },
    ],
    ['where its messages may have the size of the largest record', { max_msg_size: 600 * KIB }, {}],
    ['where it discards the old', { max_msgs: 1000, max_bytes: 1e6, discard: 'old' }, {}],
  ])('nothing %s', async (_, config, state) => {
    expect(await refusal(config, state)).toBeNull()
  })

  it.each([
    ['max_bytes', { max_bytes: 10 * GB }, { messages: 1e7, bytes: 10 * GB - 600 * KIB + 1 }],
    ['max_bytes', { max_bytes: 1000 * KIB }, { messages: 9, bytes: 400 * KIB + 1 }],
    ['max_msgs', { max_msgs: 1000 }, {}],
    ['max_msg_size', { max_msg_size: 60_000 }, {}],
    ['max_msg_size', { max_msg_size: 60_000, discard: 'old' }, {}],
    ['max_msgs_per_subject', PER_SUBJECT, { subjects: { 'sluice.events.1': 1, 'sluice.events.3': 7 } }],
    ['sealed for good', { sealed: true }, {}],
    ['no_ack', { no_ack: true }, {}],
    ['persist_mode', { persist_mode: 'async' }, {}],
    ['subject_transform', { subject_transform: { src: '>', dest: 'x.>' } }, {}],
    ['sluice.events.*', { subjects: ['sluice.events.1'] }, {}],
  ])('and says what to do about %s', async (name, config, state) => {
    expect(await refusal(config, state)).toContain(name)
  })
})

/** A connection whose server gives these answers to requests of the JetStream API, in order. */
function answering(...answers: readonly object[]): { connection: NatsConnection; asked: string[] } {
  const asked: string[] = []
  const left = [...answers]
  const request = (subject: string): Promise<{ data: Buffer }> => {
    asked.push(subject.replace('$JS.API.STREAM.', ''))
    return Promise.resolve({ data: Buffer.from(JSON.stringify(left.shift())) })
  }
  const features = { get: () => ({ ok: true, min: '' }) }
  return { connection: { options: {}, features, request } as unknown as NatsConnection, asked }
}

describe('creating the stream', () => {
  const none = { error: { code: 404, err_code: 10059, description: 'stream not found' } }
  const overlap = { error: { code: 400, err_code: 10065, description: 'subjects overlap with an existing stream' } }
  const there = {
    config: WANTED,
    created: FACTS.createdAt,
    state: { messages: 0, bytes: 0, first_seq: 1, last_seq: 0, consumer_count: 0 },
  }

  it('uses the one that another node created at the same moment', async () => {
    const { connection, asked } = answering(none, none, overlap, there)
    expect(await ensureStream(connection, NEW_STREAM, Date.now())).toEqual({
      kind: 'present',
      facts: FACTS,
      created: false,
    })
    expect(asked).toEqual([
      'INFO.SLUICE_EVENTS',
      'MSG.GET.KV_SLUICE_COUNTS',
      'CREATE.SLUICE_EVENTS',
      'INFO.SLUICE_EVENTS',
    ])
  })

  const putAtMs = Date.UTC(2026, 10, 20, 12)
  const entry = (operation: 'PUT' | 'DEL') => ({
    message: {
      subject: '$KV.SLUICE_COUNTS.hold',
      seq: 7,
      time: new Date(putAtMs).toISOString(),
      data: Buffer.from('restore').toString('base64'),
      hdrs: Buffer.from(`NATS/1.0\r\nKV-Operation: ${operation}\r\n\r\n`).toString('base64'),
    },
  })

  it('is left to whoever restores a backup, for six hours after the entry was put', async () => {
    const { connection, asked } = answering(none, entry('PUT'))
    const report = await ensureStream(connection, NEW_STREAM, putAtMs + 6 * 3_600_000 - 1)
    expect(report).toEqual({ kind: 'absent', held: expect.stringContaining('before 2026-11-20T18:00:00.000Z, since') })
    expect(asked).toEqual(['INFO.SLUICE_EVENTS', 'MSG.GET.KV_SLUICE_COUNTS'])
  })

  it.each([
    ['is six hours old', 'PUT', putAtMs + 6 * 3_600_000],
    ['was deleted', 'DEL', putAtMs],
  ] as const)('goes on where the entry %s', async (_, operation, nowMs) => {
    const { connection } = answering(none, entry(operation), there)
    expect(await ensureStream(connection, NEW_STREAM, nowMs)).toMatchObject({ kind: 'present', created: true })
  })

  it('reports why it failed', async () => {
    const { connection } = answering(none, none, overlap, none)
    expect(await ensureStream(connection, NEW_STREAM, Date.now())).toEqual({
      kind: 'unreadable',
      reason: 'it cannot be created: subjects overlap with an existing stream',
    })
  })

  it('sends no other request where there is one', async () => {
    const { connection, asked } = answering(there)
    expect(await ensureStream(connection, NEW_STREAM, Date.now())).toMatchObject({ kind: 'present', created: false })
    expect(asked).toEqual(['INFO.SLUICE_EVENTS'])
  })
})

describe('the state of the shared queue', () => {
  const present = { kind: 'present', facts: FACTS, created: false } as const
  const statusOf = ({ status: { state, reason } }: StreamState) => [state, reason]
  const aState = () => {
    const notices: string[] = []
    return {
      notices,
      state: new StreamState(
        (notice) => void notices.push(notice),
        () => 0,
      ),
    }
  }

  it('is reported once per change, and a second short outage is reported again', () => {
    const { state, notices } = aState()
    const outage = (): void => {
      for (let tries = 0; tries < 5; tries += 1) state.disconnected('connection refused')
      state.connected()
      state.reported(present)
      state.reported(present)
      state.answered(null)
    }
    outage()
    outage()
    const once = ['NATS away: connection refused: answering 503 until it is back', 'NATS: connected']
    expect(notices).toEqual([...once, ...once])
  })

  it('is up only with a connection, a stream, and answers', () => {
    const { state } = aState()
    expect([state.isUp, state.hasBeenUp, ...statusOf(state)]).toEqual([false, false, 'starting', null])
    state.connected()
    expect([state.isUp, state.hasBeenUp, ...statusOf(state)]).toEqual([false, false, 'starting', null])
    state.reported({ kind: 'unreadable', reason: 'timeout' })
    expect([state.isUp, ...statusOf(state)]).toEqual([false, 'no_stream', 'timeout'])
    state.reported(present)
    expect([state.isUp, state.hasBeenUp, ...statusOf(state)]).toEqual([true, true, 'ok', null])
    state.silent(0)
    expect([state.isUp, ...statusOf(state)]).toEqual([false, 'silent', null])
    state.reported({ kind: 'unreadable', reason: 'no answer' })
    expect([state.isUp, ...statusOf(state)]).toEqual([false, 'silent', null])
    state.answered(null)
    expect([state.isUp, ...statusOf(state)]).toEqual([true, 'ok', null])
    state.answered({ kind: 'refused', reason: 'maximum bytes exceeded', isFull: true })
    expect([state.isUp, ...statusOf(state)]).toEqual([true, 'full', 'maximum bytes exceeded'])
    state.answered({ kind: 'refused', reason: 'error 500', isFull: false })
    expect([state.isUp, ...statusOf(state)]).toEqual([true, 'refusing', 'error 500'])
    expect(state.answered({ kind: 'no responders' })).toBe('misrouted')
    expect([state.isUp, ...statusOf(state)]).toEqual([false, 'no_stream', 'nobody takes the messages'])
    state.disconnected('no answer')
    expect([state.isUp, state.hasBeenUp, ...statusOf(state)]).toEqual([false, true, 'away', 'no answer'])
  })

  it('is reported once for a stream that answers requests but acknowledges nothing', () => {
    const { state, notices } = aState()
    state.connected()
    state.reported(present)
    for (let turn = 0; turn < 5; turn += 1) {
      state.silent(0)
      state.reported(present)
      expect(state.isUp).toBe(true)
    }
    expect(notices).toEqual(['NATS: connected', 'NATS does not acknowledge: answering 503 until it does'])
    state.answered(null)
    expect(notices.at(-1)).toBe('NATS: connected')
  })

  it('is reported a bounded number of times in one outage', () => {
    const { state, notices } = aState()
    for (let index = 0; index < 1000; index += 1) state.complained(`complaint ${index}`)
    expect(notices).toHaveLength(16)
  })
})

describe('NATS_URL', () => {
  const none = { user: null, password: null, token: null, tls: false }

  it.each([
    ['nats://host', { ...none, servers: [{ host: 'host', port: 4222 }] }],
    ['host:4333', { ...none, servers: [{ host: 'host', port: 4333 }] }],
    ['nats://[::1]:4333', { ...none, servers: [{ host: '::1', port: 4333 }] }],
    ['tls://host', { ...none, tls: true, servers: [{ host: 'host', port: 4222 }] }],
    ['nats://me:p%40ss@host', { ...none, user: 'me', password: 'p@ss', servers: [{ host: 'host', port: 4222 }] }],
    ['nats://t0ken@host', { ...none, token: 't0ken', servers: [{ host: 'host', port: 4222 }] }],
    [
      'nats://me:secret@one:1, nats://two:2,three',
      {
        ...none,
        user: 'me',
        password: 'secret',
        servers: [
          { host: 'one', port: 1 },
          { host: 'two', port: 2 },
          { host: 'three', port: 4222 },
        ],
      },
    ],
  ])('%s', (url, wanted) => {
    expect(parseNatsUrl(url)).toEqual(wanted)
  })

  it.each(['', ' , ', 'http://s3cret@host', 'nats://', 'nats://s3cret:%zz@host', 'nats://s3cret@host:99999'])(
    '%o is an error that shows no password',
    (url) => {
      expect(() => parseNatsUrl(url)).toThrow(/^NATS_URL: /)
      expect(() => parseNatsUrl(url)).not.toThrow(/s3cret/)
    },
  )
})
