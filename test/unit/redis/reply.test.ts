// Whatever Redis answers to a command: it is read as the command has it, or it is a bad reply. Nothing else comes of it.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { AuditorList } from '../../../src/audit/auditor-list.ts'
import { Clocks } from '../../../src/audit/clocks.ts'
import { DoubtSettler } from '../../../src/audit/doubt-settler.ts'
import { readRedisSums } from '../../../src/audit/redis-sums.ts'
import { claimRedis } from '../../../src/installation/owner.ts'
import { readFromRedis, writeToRedis } from '../../../src/installation/shared-record.ts'
import { systemTimers } from '../../../src/lib/timers.ts'
import { sendHeartbeat } from '../../../src/limits/shared/nodes.ts'
import { SharedAdmission } from '../../../src/limits/shared/shared-admission.ts'
import { encodeQuestion, type Question } from '../../../src/limits/shared/take.ts'
import { readDays, readUsages } from '../../../src/limits/shared/usage.ts'
import { describeRedis } from '../../../src/redis/facts.ts'
import type { RedisLink } from '../../../src/redis/link.ts'
import { BadReply, type Read } from '../../../src/redis/reply.ts'
import { readRedisTime } from '../../../src/redis/time.ts'
import { anApp } from '../apps/apps.ts'

const NOON_MS = Date.UTC(2026, 10, 20, 12)
const NOON = NOON_MS / 60_000
const never = undefined as never

/** A link without Redis, which keeps how each call would read its reply. */
function recording(): { link: RedisLink; reads: Read<unknown>[] } {
  const reads: Read<unknown>[] = []
  const link: RedisLink = {
    isUp: true,
    isCluster: false,
    call: async (_, read) => {
      reads.push(read)
      return 'away'
    },
    onChange: () => {},
    stop: async () => {},
  }
  return { link, reads }
}

const COMMANDS: Readonly<Record<string, (link: RedisLink) => unknown>> = {
  heartbeat: (link) => sendHeartbeat(link, 'a'),
  usages: (link) => readUsages(link, [anApp()], { partitions: 16, nowMs: NOON_MS }),
  days: (link) => readDays(link, [anApp(), anApp()], 16),
  time: (link) => readRedisTime(link),
  facts: (link) => describeRedis(link),
  sums: (link) => readRedisSums(link, 0),
  owner: (link) => claimRedis(link, 'a', '2026', []),
  'record, read': (link) => readFromRedis(link),
  'record, written': (link) => writeToRedis(link, never),
  doubts: (link) => new DoubtSettler(link).settle(0, 0, never),
  auditors: async (link) => {
    const list = new AuditorList({ redis: link, nodeId: 'a', partitions: 16, clocks: new Clocks(systemTimers) })
    await list.read()
    await list.announce(true)
  },
  requests: async (link) => {
    const admission = new SharedAdmission({
      link,
      nodeId: 'a',
      partitions: 16,
      maxKeys: 10,
      seed: 1,
      timers: systemTimers,
      calls: { answered: 0, slow: 0, failed: 0, without: 0 },
      onFault: (error) => expect(error).toBeNull(),
      onNotice: () => {},
    })
    admission.doubt({ name: 'x', partition: 0, minute: NOON, events: 1, messageId: 'y' })
    await admission.replayOf(anApp(), '018f3f0e-7c1f-7aaa-8bbb-0123456789ab')
    await admission.stop()
  },
}

/** As a client of Redis gives them: lists of lists, texts and numbers, which may be larger than a number holds exactly. */
const replies = fc.letrec<{ reply: unknown }>((tie) => ({
  reply: fc.oneof(
    { maxDepth: 3 },
    fc.constantFrom(null, undefined, 'OK', '', 'NaN', Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53, -(2 ** 63)),
    fc.integer(),
    fc.maxSafeInteger(),
    fc.double(),
    fc.string(),
    fc.array(tie('reply'), { maxLength: 12 }),
    fc.dictionary(fc.string(), tie('reply'), { maxKeys: 3 }),
  ),
})).reply

/** What was read of a reply is of texts, exact numbers and null. */
function expectSound(value: unknown): void {
  if (typeof value === 'number') expect(Number.isSafeInteger(value)).toBe(true)
  else if (typeof value === 'object' && value !== null) for (const member of Object.values(value)) expectSound(member)
  else expect(value === null || typeof value === 'string' || typeof value === 'boolean').toBe(true)
}

function expectReadOrRefused(read: Read<unknown>, reply: unknown): void {
  let value: unknown = null
  try {
    value = read(reply)
  } catch (error) {
    expect(error).toBeInstanceOf(BadReply)
  }
  expectSound(value)
}

it.each(Object.keys(COMMANDS))('any reply to %s is read, or refused', async (name) => {
  const { link, reads } = recording()
  await COMMANDS[name](link)
  expect(reads.length).toBeGreaterThan(0)
  for (const read of reads) fc.assert(fc.property(replies, (reply) => expectReadOrRefused(read, reply)))
})

describe('the reply to the takes of a turn', () => {
  const cycle = { first: NOON - 1000, next: NOON + 1000 }
  const question: Question = {
    nodeId: 'a',
    accepted: [],
    released: [],
    partitions: [{ partition: 3, closedMinute: 0, beat: 0, raisesBeat: false }],
    apps: [
      {
        partition: 3,
        app: anApp(),
        cycle,
        wanted: 40,
        acknowledged: [],
        corrections: new Map(),
        takes: [
          { events: 1, key: null },
          { events: 2, key: 'k' },
        ],
      },
    ],
  }
  const partition = [NOON - 1, 7, 0, 0]
  const counts = [NOON, cycle.first, 9, 8, 7, 40, 3, 0, 0, 0]

  function encoded(): { read: Read<unknown>; reply: number[] } {
    const { args, read } = encodeQuestion(question)
    const [, , call] = JSON.parse(args[0]) as number[]
    return { read, reply: [NOON_MS, call, ...counts, 0, 105, ...partition] }
  }

  it('is read where it is of its shape', () => {
    const { read, reply } = encoded()
    expect(read(reply)).toMatchObject({
      nowMs: NOON_MS,
      apps: [{ minute: NOON, granted: 40, takes: [0, 105] }],
      partitions: [{ closedMinute: NOON - 1, beat: 7, lostAtMs: 0, isForgotten: false }],
    })
  })

  it('is bad where it is short, long, of another call, or has anything but numbers that Redis can have said', () => {
    const { reply: other } = encoded()
    const { read, reply } = encoded()
    expect(() => read(other)).toThrow(BadReply)
    for (let at = 0; at < reply.length; at++) {
      expect(() => read(reply.toSpliced(at, 1))).toThrow(BadReply)
      expect(() => read(reply.toSpliced(at, 0, 0))).toThrow(BadReply)
      for (const bad of [null, undefined, '1', 'NaN', Number.NaN, 0.5, 2 ** 53, -(2 ** 63), [reply[at]]]) {
        expect(() => read(reply.with(at, bad as number))).toThrow(BadReply)
      }
    }
    for (const [at, bad] of [
      [0, 8.65e15],
      [2, NOON + 4],
      [2, NOON - 1],
      [3, cycle.first + 1],
      [4, -1],
      [7, 41],
      [12, 7],
      [12, -1000 * (NOON + 4) - 1],
      [14, NOON + 3],
      [15, 1e14],
      [17, 2],
    ]) {
      expect(() => read(reply.with(at, bad)), `${bad} at ${at}`).toThrow(BadReply)
    }
  })

  it('is read, or refused, whatever it is', () => {
    const { read } = encoded()
    fc.assert(fc.property(replies, (reply) => expectReadOrRefused(read, reply)))
  })
})
