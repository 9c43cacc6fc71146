import { describe, expect, test } from 'vitest'
import { natsFinding, redisFinding, streamFinding } from '../../../../src/cli/check/check-shared.ts'
import type { StorageLimit } from '../../../../src/queue/stream/storage-limit.ts'
import type { RedisNode } from '../../../../src/redis/facts.ts'

const HOUR_MS = 3_600_000
const NOW_MS = Date.parse('2026-11-20T18:00:00Z')

const good: RedisNode = {
  version: '7.0.15',
  evictionPolicy: 'noeviction',
}
const oneServer = (changes: Partial<RedisNode>) =>
  redisFinding('host:6379', { isCluster: false, nodes: [{ ...good, ...changes }] })

describe('Redis', () => {
  test.each([
    ['ok', {}, /^host:6379: Redis 7\.0\.15, one server$/],
    ['ok', { version: '10.1.0' }, /Redis 10\.1\.0/],
    ['ok', { version: '6.2.0' }, /Redis 6\.2\.0/],
    ['ok', { version: 'unknown' }, /Redis unknown/],
    ['warn', { version: '6.0.16' }, /; Redis 6\.0\.16 is older than 6\.2$/],
    ['warn', { version: '5.9' }, /; Redis 5\.9 is older than 6\.2$/],
    ['warn', { evictionPolicy: 'volatile-lru' }, /; maxmemory-policy is volatile-lru, sluice wants noeviction/],
  ] as const)('is %s with %j', (state, changes, detail) => {
    const found = oneServer(changes)
    expect(found).toMatchObject({ part: 'redis', state })
    expect(found.detail).toMatch(detail)
  })

  test('as a cluster has the complaints of all its masters, each once', () => {
    const evicting = { ...good, evictionPolicy: 'allkeys-lru' }
    const found = redisFinding('host:6379', { isCluster: true, nodes: [good, evicting, evicting] })
    expect(found.state).toBe('warn')
    expect(found.detail).toContain('cluster of 3 masters')
    expect(found.detail.match(/maxmemory-policy/g)).toHaveLength(1)
  })

  test('that does not allow INFO is a warning', () => {
    expect(redisFinding('host:6379', { isCluster: false, nodes: null })).toMatchObject({ state: 'warn' })
  })
})

describe('NATS', () => {
  const server = { place: 'host:4222', version: '2.9.10', maxPayloadBytes: 1_048_576 }

  test('is ok from 2.9 on, with room for the largest record', () => {
    expect(natsFinding(server).state).toBe('ok')
    expect(natsFinding({ ...server, version: '2.11.0-beta.1' }).state).toBe('ok')
    expect(natsFinding({ ...server, version: '2.8.4' }).state).toBe('warn')
    expect(natsFinding({ ...server, maxPayloadBytes: 600 * 1024 }).state).toBe('ok')
    expect(natsFinding({ ...server, maxPayloadBytes: 600 * 1024 - 1 }).state).toBe('FAIL')
  })
})

describe('the stream', () => {
  const facts = {
    messages: 1,
    bytes: 2048,
    firstSequence: 1,
    lastSequence: 1,
    replicas: 3,
    consumers: 0,
    createdAt: '2026-11-20T12:00:00Z',
    maxBytes: null,
    maxMessages: null,
    discardsOld: false,
    keepMs: 72 * HOUR_MS,
    oldestAtMs: NOW_MS - 2.5 * HOUR_MS,
    refusal: null,
    unsafe: null,
    isAtomic: false,
    differences: [],
  }
  const wish = { replicas: 3, nowMs: NOW_MS }
  const present = { kind: 'present', facts, created: false } as const
  const limitOf = (usedMib: number): StorageLimit => ({
    of: 'account',
    store: 'the NATS account',
    usedBytes: usedMib * 1024 ** 2,
    maxBytes: 100 * 1024 ** 2,
    copies: 1,
    advice: 'raise it',
  })
  const found = (changes: Partial<typeof facts> | object = {}, replicas = 3) =>
    streamFinding({ kind: 'present', facts: { ...facts, ...changes }, created: false }, { replicas, nowMs: NOW_MS })

  test('is shown with its content, and with each difference as a warning', () => {
    expect(found()).toEqual({
      part: 'stream',
      state: 'ok',
      detail: 'SLUICE_EVENTS: 1 message, 2 KiB, reaching back 2.5 h, kept 72 h, 3 replicas',
    })
    const differences = ['storage is memory, sluice wants file', 'discard is old, sluice wants new']
    const differing = found({ differences })
    expect(differing.state).toBe('warn')
    for (const difference of differences) expect(differing.detail).toContain(difference)
  })

  test('is shown with its limits, and with replicas that are fewer than the setting', () => {
    const limits = { maxBytes: 1024 * 1024, maxMessages: 2000, keepMs: null, oldestAtMs: null, messages: 0, bytes: 0 }
    expect(found({ ...limits, replicas: 1 })).toEqual({
      part: 'stream',
      state: 'ok',
      detail:
        'SLUICE_EVENTS: 0 messages of at most 2,000, 0 B of at most 1 MiB, kept whatever their age, ' +
        '1 replica (SLUICE_STREAM_REPLICAS: 3)',
    })
  })

  test('is a warning from four fifths of a limit on, unless it discards old messages', () => {
    expect(found({ bytes: 799, maxBytes: 1000 }).state).toBe('ok')
    expect(found({ bytes: 800, maxBytes: 1000 })).toMatchObject({
      state: 'warn',
      detail: expect.stringContaining('nearly full'),
    })
    expect(found({ messages: 8, maxMessages: 10 })).toMatchObject({
      state: 'warn',
      detail: expect.stringContaining('nearly full'),
    })
    expect(found({ bytes: 800, maxBytes: 1000, discardsOld: true }).state).toBe('ok')
  })

  test('that refuses is a failure, with what to do', () => {
    const refusal = 'it is full: raise max_bytes'
    expect(found({ refusal, bytes: 1000, maxBytes: 1000 })).toMatchObject({
      state: 'FAIL',
      detail: expect.stringMatching(
        /1000 B of at most 1000 B.*; batches are answered 503: it is full: raise max_bytes$/,
      ),
    })
  })

  test.each([
    ['ok', 70, /, the NATS account 70 MiB of at most 100 MiB$/],
    ['warn', 80, /nearly full/],
    [
      'FAIL',
      99.5,
      /batches are answered 503: the NATS account has no room for a batch of the largest size: raise it, or /,
    ],
  ] as const)(
    'is %s where its account has taken %d of 100 MiB, whatever its own limits are',
    (state, usedMib, detail) => {
      const limits = [limitOf(usedMib)]
      const found = streamFinding(present, wish, { limits, refused: null })
      expect(found).toMatchObject({ state, detail: expect.stringMatching(detail) })
    },
  )

  test('counts a batch as often as the account does: once for each copy', () => {
    const limits = [{ ...limitOf(99), copies: 3 }]
    expect(streamFinding(present, wish, { limits, refused: null }).state).toBe('FAIL')
  })

  test('that refuses an empty message is a failure, whatever sets the limit', () => {
    expect(streamFinding(present, wish, { limits: [], refused: 'insufficient resources' })).toMatchObject({
      state: 'FAIL',
      detail: expect.stringMatching(/batches are answered 503: insufficient resources$/),
    })
  })

  test('that is not there yet needs room too', () => {
    const found = (usedMib: number) =>
      streamFinding({ kind: 'absent' }, wish, { limits: [limitOf(usedMib)], refused: null })
    expect(found(50).state).toBe('ok')
    expect(found(100).state).toBe('FAIL')
  })

  test('may be absent, but not unreadable', () => {
    const wish = { replicas: 1, nowMs: NOW_MS }
    expect(streamFinding({ kind: 'absent' }, wish).state).toBe('ok')
    expect(streamFinding({ kind: 'unreadable', reason: 'no answer' }, wish)).toMatchObject({
      state: 'FAIL',
      detail: 'SLUICE_EVENTS cannot be read: no answer',
    })
  })
})
