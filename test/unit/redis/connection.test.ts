// When the link takes Redis for slow and when for away, in virtual time.

import { ReplyError } from 'ioredis'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openRedis, type RedisConnection } from '../../../src/redis/connection.ts'
import { type RedisFault, SURPLUS } from '../../../src/redis/fault.ts'
import type { RedisClient } from '../../../src/redis/link.ts'
import type { CallResult } from '../../../src/redis/pending-calls.ts'
import { must } from '../../../src/redis/reply.ts'
import type { RedisSession, SessionOptions } from '../../../src/redis/session.ts'
import { callOn } from '../../support/redis.ts'
import { ManualTimers } from '../../support/timers.ts'

interface HeldCall {
  readonly isProbe: boolean
  readonly answer: (value: unknown) => void
  readonly fail: (error: Error) => void
}

/** Answers each command at once, unless a test holds the answers back. */
class FakeRedis {
  isHeld = false
  isCluster = false
  sessions = 0
  readonly held: HeldCall[] = []
  #options: SessionOptions | null = null

  readonly open = (options: SessionOptions): Promise<RedisSession> => {
    this.#options = options
    this.sessions++
    const client = { ask: () => this.#ask(false) } as unknown as RedisClient
    return Promise.resolve({
      client,
      isCluster: this.isCluster,
      knownNodes: [],
      probe: () => this.#ask(true),
      drop: () => {
        for (const { fail } of this.held.splice(0)) fail(new Error('Connection is closed.'))
      },
    })
  }

  get probes(): number {
    return this.held.filter(({ isProbe }) => isProbe).length
  }

  answerAll(): void {
    this.isHeld = false
    for (const { answer } of this.held.splice(0)) answer('late')
  }

  loseConnection(fault?: RedisFault): void {
    this.#options?.onEnd(fault)
  }

  #ask(isProbe: boolean): Promise<unknown> {
    if (!this.isHeld) return Promise.resolve('PONG')
    return new Promise((answer, fail) => this.held.push({ isProbe, answer, fail }))
  }
}

let timers: ManualTimers
let redis: FakeRedis
let link: RedisConnection
let changes: boolean[]
let notices: string[]
let results: [CallResult, number][]
let badReplies: number

const ask = (client: RedisClient) => (client as unknown as { ask(): Promise<string> }).ask()

beforeEach(async () => {
  timers = new ManualTimers()
  redis = new FakeRedis()
  ;[changes, notices, results] = [[], [], []]
  badReplies = 0
  link = openRedis({
    redis: 'redis://fake',
    timers,
    random: () => 0,
    openSession: redis.open,
    onNotice: (message) => void notices.push(message),
    onCall: (...result) => void results.push(result),
    onBadReply: () => void badReplies++,
  })
  link.onChange((isUp) => void changes.push(isUp))
  await timers.pass(100)
})

afterEach(async () => {
  const stopped = link.stop()
  await timers.pass(2000)
  await stopped
})

describe('one slow answer', () => {
  it('is waited for', async () => {
    redis.isHeld = true
    const call = callOn(link, ask)
    await timers.pass(240)
    redis.answerAll()
    expect(await call).toBe('late')
    expect([results, changes]).toEqual([[['answered', 0.24]], [true]])
  })

  it('is given up after 250 ms, and Redis stays up if it answers a probe in time', async () => {
    redis.isHeld = true
    let answer: unknown = null
    const late: string[] = []
    void callOn(link, ask, { onLate: (given) => late.push(given) }).then((given) => (answer = given))
    await timers.pass(249)
    expect(answer).toBe(null)
    await timers.pass(1)
    expect([answer, link.isUp, link.status]).toEqual(['away', true, { state: 'slow', reason: 'no answer in 250 ms' }])
    expect([redis.probes, results]).toEqual([1, [['slow', 0.25]]])
    redis.answerAll()
    await timers.pass(1000)
    expect([link.status, changes, notices]).toEqual([{ state: 'ok', reason: null }, [true], []])
    // The late answer was handed over once, and each call was reported once.
    expect(await callOn(link, ask, { onLate: (given) => late.push(given) })).toBe('PONG')
    expect([results.length, late]).toEqual([2, ['late']])
  })

  it('after another does not take the link down while Redis answers the probes between them', async () => {
    for (let time = 0; time < 6; time++) {
      redis.isHeld = true
      const call = callOn(link, ask)
      await timers.pass(250)
      expect(await call).toBe('away')
      redis.answerAll()
      await timers.pass(100)
    }
    expect(changes).toEqual([true])
  })
})

describe('Redis is away', () => {
  it('after three calls in a row without an answer', async () => {
    redis.isHeld = true
    const calls = [0, 1, 2, 3].map(async (at) => {
      await new Promise<void>((resolve) => void timers.setTimeout(resolve, at * 10))
      return callOn(link, ask)
    })
    await timers.pass(269)
    expect(link.isUp).toBe(true)
    await timers.pass(1)
    expect([link.isUp, link.status]).toEqual([false, { state: 'away', reason: 'no answer in 250 ms' }])
    expect(await Promise.all(calls)).toEqual(['away', 'away', 'away', 'away'])
    expect(results.map(([result]) => result)).toEqual(['slow', 'slow', 'slow', 'failed'])
    expect(notices).toEqual([
      'Redis is away: no answer in 250 ms; enforcing the local share of each limit until Redis is back',
    ])
  })

  it('after one call and two probes without an answer, where there are no other calls', async () => {
    redis.isHeld = true
    void callOn(link, ask)
    await timers.pass(549)
    expect([link.isUp, redis.probes]).toEqual([true, 6])
    await timers.pass(5)
    expect(link.isUp).toBe(false)
  })

  it('when every answer comes late', async () => {
    redis.isHeld = true
    for (let call = 0; call < 3; call++) void callOn(link, ask)
    timers.setTimeout(() => redis.answerAll(), 300)
    await timers.pass(301)
    expect(changes).toEqual([true, false])
  })

  it('at once when the connection is lost', async () => {
    redis.isHeld = true
    const call = callOn(link, ask)
    redis.loseConnection()
    expect([await call, link.isUp, results]).toEqual(['away', false, [['failed', 0]]])
  })

  it('at once after the reply READONLY, but not after other error replies', async () => {
    redis.isHeld = true
    const reply = (text: string) => new (ReplyError as new (message: string) => Error)(text)
    const wrongType = callOn(link, ask)
    redis.held.shift()?.fail(reply('WRONGTYPE Operation against a key'))
    await expect(wrongType).rejects.toThrow('WRONGTYPE')
    expect(link.isUp).toBe(true)
    const refused = callOn(link, ask)
    redis.held.shift()?.fail(reply("READONLY You can't write against a read only replica."))
    expect([await refused, link.isUp]).toEqual(['away', false])
    expect(results.map(([result]) => result)).toEqual(['failed', 'failed'])
  })

  it('until it answers probes in time, over the same session', async () => {
    redis.isHeld = true
    for (let call = 0; call < 3; call++) void callOn(link, ask)
    await timers.pass(600)
    expect(changes).toEqual([true, false])
    redis.answerAll()
    await timers.pass(200)
    expect([changes, redis.sessions]).toEqual([[true, false, true], 1])
    expect(await callOn(link, ask)).toBe('PONG')
    expect(notices.at(-1)).toBe('Redis is back after 0.5 s')
  })
})

describe('a late event loop', () => {
  it('extends the deadlines of its calls, and Redis does not count as slow', async () => {
    redis.isHeld = true
    const calls = [1, 2, 3, 4].map(() => callOn(link, ask))
    timers.block(2000)
    await timers.pass(199)
    redis.answerAll()
    expect(await Promise.all(calls)).toEqual(['late', 'late', 'late', 'late'])
    expect([changes, link.status.state]).toEqual([[true], 'ok'])
  })

  it('does not keep Redis up for ever without an answer', async () => {
    redis.isHeld = true
    void callOn(link, ask)
    timers.block(1900)
    for (let call = 0; call < 2; call++) void callOn(link, ask)
    timers.block(100)
    await timers.pass(251)
    expect(changes).toEqual([true, false])
  })
})

describe('a reply of another shape', () => {
  const tooShort = (reply: unknown): string => {
    must(reply !== 'PONG' && reply !== 'late')
    return 'never'
  }

  it('is no answer: the connection is dropped, counted and logged, and a new one opened', async () => {
    expect(await link.call(ask, tooShort)).toBe('away')
    expect([link.isUp, redis.sessions]).toEqual([false, 1])
    await timers.pass(2000)
    expect([link.isUp, redis.sessions, badReplies, changes]).toEqual([true, 2, 1, [true, false, true]])
    expect(notices[0]).toBe(
      'Redis is away: an answer is not of the shape that its command has; enforcing the local share of each limit until Redis is back',
    )
  })

  it('is none either where it comes late', async () => {
    redis.isHeld = true
    const late: string[] = []
    const call = link.call(ask, tooShort, { onLate: (given) => late.push(given) })
    await timers.pass(300)
    expect([await call, link.isUp]).toEqual(['away', true])
    redis.answerAll()
    await timers.pass(1)
    expect([late, link.isUp]).toEqual([[], false])
    await timers.pass(2000)
    expect([link.isUp, badReplies]).toEqual([true, 1])
  })

  it('that is one too many drops the connection', async () => {
    redis.loseConnection(SURPLUS)
    await timers.pass(2000)
    expect([link.isUp, redis.sessions, badReplies]).toEqual([true, 2, 1])
    expect(notices[0]).toContain('it sent an answer that nothing had asked for')
  })
})

it.each([true, false])('a slot that is not served is (a cluster: %s) no outage of the link', async (isCluster) => {
  redis.isCluster = isCluster
  redis.loseConnection()
  await timers.pass(1000)
  redis.isHeld = true
  const faults: string[] = []
  const call = callOn(link, ask, { onSlotFault: ({ kind }) => faults.push(kind) })
  redis.held[0].fail(new (ReplyError as new (message: string) => Error)('TRYAGAIN Multiple keys request'))
  expect(await call).toBe('away')
  expect([link.isUp, faults]).toEqual(isCluster ? [true, ['TRYAGAIN']] : [false, []])
})

it('answers calls beyond 20,000 with away', async () => {
  redis.isHeld = true
  for (let call = 0; call < 20_000; call++) void callOn(link, ask)
  expect(redis.held).toHaveLength(20_000)
  expect(await callOn(link, ask)).toBe('away')
  expect(redis.held).toHaveLength(20_000)
})
