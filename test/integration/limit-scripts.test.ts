// The edge cases of the shared limits' scripts, on a real Redis.

import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { Redis } from 'ioredis'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { App } from '../../src/apps/app.ts'
import { type AppTotals, encodeTotals } from '../../src/audit/app-totals.ts'
import { MINUTE_MS } from '../../src/lib/spans.ts'
import { cycleMinutesAt } from '../../src/limits/cycle-minutes.ts'
import {
  ANSWER,
  type AppQuestion,
  type AppReply,
  acceptedText,
  countsKey,
  doubtOfAnswer,
  doubtsKey,
  encodeQuestion,
  fenceKey,
  idempotencyKey,
  type Question,
  type Reply,
  replayOfAnswer,
  replayOfText,
  TAKE,
} from '../../src/limits/shared/take.ts'
import { evaluate } from '../../src/redis/script.ts'
import { connectTo, timed } from '../support/limits.ts'
import { freePort } from '../support/processes.js'
import { type RedisServer, startRedis } from '../support/redis.ts'
import { anApp } from '../unit/apps/apps.ts'

const DAY = 1440
const NOON = Date.UTC(2026, 10, 20, 12) / MINUTE_MS
const TODAY = Math.floor(NOON / DAY)
const PARTITION = 3
const READ_KEY = `sluice:{p${PARTITION}}:read`
const REPLACE_TEXT = readFileSync(new URL('../../src/audit/replace.lua', import.meta.url), 'utf8')
const REPLACE_DIGEST = createHash('sha1').update(REPLACE_TEXT).digest('hex')
const CYCLE = Date.UTC(2026, 10, 1) / MINUTE_MS

let server: RedisServer
let client: Redis
let minute = NOON
beforeAll(async () => {
  server = await startRedis()
  client = connectTo(server.url)
})
beforeEach(async () => {
  minute = NOON
  await client.flushall()
})
afterAll(() => client.disconnect())

async function ask(question: Partial<Question>): Promise<Reply> {
  const whole: Question = { nodeId: 'one', accepted: [], released: [], partitions: [], apps: [], ...question }
  const { keys, args, read } = encodeQuestion(whole)
  const clientAt = timed(client, () => minute * MINUTE_MS + 5000)
  return read(await evaluate(clientAt, TAKE, keys, args))
}

async function take(app: App, events: readonly number[], changes: Partial<AppQuestion> = {}): Promise<AppReply> {
  const takes = events.map((each) => ({ events: each, key: null }))
  const cycle = cycleMinutesAt(app, minute)
  const asked = {
    partition: PARTITION,
    app,
    cycle,
    wanted: 0,
    acknowledged: [],
    corrections: new Map<number, number>(),
    takes,
    ...changes,
  }
  const { apps } = await ask({ apps: [asked] })
  return apps[0]
}

async function takeAs(nodeId: string, takes: AppQuestion['takes']): Promise<readonly number[]> {
  const cycle = cycleMinutesAt(app, minute)
  const asked = {
    partition: PARTITION,
    app,
    cycle,
    wanted: 0,
    acknowledged: [],
    corrections: new Map<number, number>(),
    takes,
  }
  return (await ask({ nodeId, apps: [asked] })).apps[0].takes
}

interface Reading {
  readonly readUs: number
  readonly closed: number
  readonly sequence?: number
  readonly isFence?: boolean
}

/** Calls replace.lua like an auditor that has read messages up to `readUs` and closed minutes up to `closed`. */
async function replace(
  { readUs, closed, sequence = 1, isFence = true }: Reading,
  apps: Readonly<Record<string, { base: string; days: string }>> = {},
): Promise<number> {
  const keys = [fenceKey(PARTITION), READ_KEY, ...Object.keys(apps).map((appId) => countsKey(PARTITION, appId))]
  const texts = Object.values(apps).flatMap(({ base, days }) => [base, days])
  const args = [String(readUs), String(closed), String(sequence), isFence ? '1' : '0', ...texts]
  const clientAt = timed(client, () => minute * MINUTE_MS + 5000)
  return Number(await clientAt.evalsha(REPLACE_DIGEST, keys.length, ...keys, ...args))
}

function totals(changes: Partial<AppTotals> & { days: Map<number, number> }): { base: string; days: string } {
  return encodeTotals({ newest: NOON - 1, cycle: CYCLE, cycles: new Map(), ...changes })
}

const countsOf = (app: App): Promise<Record<string, string>> => client.hgetall(countsKey(PARTITION, app.appId))
const app = anApp({ eventsPerMinute: 100, eventsPerMonth: 1000 })

describe('take.lua', () => {
  it('subtracts corrections, but never more than is counted', async () => {
    await take(app, [60])
    expect(await take(app, [], { corrections: new Map([[minute, 20]]) })).toMatchObject({
      minuteUsed: 40,
      monthUsed: 40,
    })
    expect(await take(app, [], { corrections: new Map([[minute, 500]]) })).toMatchObject({
      minuteUsed: 0,
      monthUsed: 0,
    })
    expect(await countsOf(app)).toEqual({ [`m${minute}`]: '0', [`n${minute}:one`]: '60 60' })
    expect(await take(app, [], { corrections: new Map([[minute - 1, 5]]) })).toMatchObject({
      minuteUsed: 0,
      dayUsed: 0,
    })
    expect(await countsOf(app)).toEqual({ [`m${minute}`]: '0', [`n${minute}:one`]: '60 60' })
  })

  it('adds events taken without Redis, also over a limit', async () => {
    expect(await take(app, [1], { corrections: new Map([[minute, -100]]) })).toMatchObject({
      minuteUsed: 100,
      takes: [ANSWER.minute],
    })
  })

  it('corrects the minute that the events were taken in, and counts empty batches of the current minute only', async () => {
    await take(app, [60, 0, 0])
    minute++
    expect(await take(app, [50, 0], { corrections: new Map([[minute - 1, 60]]) })).toMatchObject({
      minuteUsed: 51,
      dayUsed: 50,
      monthUsed: 50,
    })
    expect(await countsOf(app)).toEqual({
      [`m${minute - 1}`]: '0',
      [`n${minute - 1}:one`]: '60 60',
      [`m${minute}`]: '50',
      [`n${minute}:one`]: '50 0',
      [`x${minute}`]: '1',
    })
  })

  it('counts in the next minute when the clock steps back into a closed one', async () => {
    await take(app, [60])
    await replace({ readUs: 1, closed: minute })
    minute -= 2
    expect(await take(app, [60])).toMatchObject({ minute: NOON + 1, minuteUsed: 60, takes: [ANSWER.done] })
    expect(await take(app, [60])).toMatchObject({ minute: NOON + 1, minuteUsed: 60, takes: [ANSWER.minute] })
    minute = NOON + 1
    expect(await take(app, [60])).toMatchObject({ minute: NOON + 1, takes: [ANSWER.minute] })
  })

  it('counts again what it has lost of what a node took and gave back, once', async () => {
    const acknowledged = [{ minute, taken: 60, givenBack: 20 }]
    await take(app, [30], { corrections: new Map([[minute, 10]]) })
    for (let count = 0; count < 2; count++) {
      expect(await take(app, [], { acknowledged })).toMatchObject({ monthUsed: 40, taken: 60, givenBack: 20 })
    }
    await client.flushall()
    expect(await take(app, [1], { acknowledged })).toMatchObject({ monthUsed: 41, taken: 61, givenBack: 20 })
    expect(await countsOf(app)).toEqual({ [`m${minute}`]: '41', [`n${minute}:one`]: '61 20' })
    await replace({ readUs: 9, closed: minute })
    const closed = await take(app, [], { acknowledged })
    expect(closed, 'a closed minute is the audit’s').toMatchObject({ monthUsed: 0 })
  })

  it('keeps the sums of each node apart, with however many open minutes', async () => {
    for (let later = 0; later < 12; later++, minute++) {
      await takeAs('one', [{ events: 1, key: null }])
      await takeAs('two', [{ events: 2, key: null }])
    }
    minute--
    const acknowledged = [{ minute, taken: 5, givenBack: 0 }]
    expect(await take(app, [], { acknowledged })).toMatchObject({ monthUsed: 40, minuteUsed: 7, taken: 5 })
    expect(await countsOf(app)).toMatchObject({ [`n${minute}:one`]: '5 0', [`n${minute}:two`]: '2 0' })
  })

  it('ignores minutes that the audit has closed, for the app or for the whole partition', async () => {
    const other = anApp({ ...app, appId: 'other' })
    await take(app, [60])
    await take(other, [50])
    minute += 2
    const counted = totals({ newest: NOON, cycles: new Map([[CYCLE, 7]]), days: new Map([[TODAY, 7]]) })
    await replace({ readUs: 9, closed: NOON, isFence: false }, { [app.appId]: counted })
    expect(await take(app, [])).toMatchObject({ monthUsed: 7 })
    expect(await take(other, [])).toMatchObject({ monthUsed: 50, dayUsed: 50 })
    await replace({ readUs: 9, closed: NOON })
    expect(await take(other, [])).toMatchObject({ monthUsed: 0, dayUsed: 0 })
    await take(other, [1])
    expect(await countsOf(other)).toEqual({ [`m${minute}`]: '1', [`n${minute}:one`]: '1 0' })
  })

  it('counts the base only in its cycle and day, and sums days when the cycle was moved', async () => {
    const days = new Map([
      [TODAY - 10, 100],
      [TODAY - 2, 40],
      [TODAY, 5],
    ])
    await replace({ readUs: 9, closed: NOON }, { [app.appId]: totals({ cycles: new Map([[CYCLE, 145]]), days }) })
    minute += 2
    expect(await take(app, [])).toMatchObject({ monthUsed: 145, dayUsed: 5 })
    const moved = { ...app, billingAnchorMs: (TODAY - 2) * DAY * MINUTE_MS + 3_600_000 }
    expect(await take(moved, [])).toMatchObject({ monthUsed: 45, dayUsed: 5 })
    expect(await take({ ...app, billingAnchorMs: (TODAY - 10) * DAY * MINUTE_MS }, [])).toMatchObject({
      monthUsed: 145,
    })
    minute += DAY
    expect(await take(app, [])).toMatchObject({ monthUsed: 145, dayUsed: 0 })
    minute = Date.UTC(2026, 11, 1) / MINUTE_MS
    expect(await take(app, [])).toMatchObject({ monthUsed: 0, dayUsed: 0 })
  })

  it('takes from the next cycle if it has begun by Redis’s clock, and nothing before the cycle begins', async () => {
    const cycle = cycleMinutesAt(app, NOON)
    minute = cycle.next
    expect(await take(app, [1], { cycle })).toMatchObject({ minute, cycleMinute: minute, takes: [ANSWER.done] })
    minute = cycle.first - 1
    const other = anApp({ ...app, appId: 'other' })
    expect(await take(other, [1], { cycle })).toMatchObject({ minute, takes: [ANSWER.early], minuteUsed: 0 })
    expect(await countsOf(other)).toEqual({})
  })

  it('deletes a key that is not a hash, and enforces the limits of every app of the call', async () => {
    const spoilt = anApp({ ...app, appId: 'spoilt' })
    await client.set(countsKey(PARTITION, 'spoilt'), 'no hash')
    const question = (one: App): AppQuestion => {
      const cycle = cycleMinutesAt(one, minute)
      const takes = [
        { events: 500, key: null },
        { events: 5, key: null },
      ]
      return {
        partition: PARTITION,
        app: one,
        cycle,
        wanted: 3,
        acknowledged: [],
        corrections: new Map([[NOON, -7]]),
        takes,
      }
    }
    const { apps } = await ask({ apps: [question(spoilt), question(app)] })
    expect(apps.map(({ takes }) => takes)).toEqual(apps.map(() => [ANSWER.minute, ANSWER.done]))
    for (const one of [spoilt, app]) {
      expect(await countsOf(one)).toEqual({ [`m${NOON}`]: '15', [`n${NOON}:one`]: '15 0' })
    }
  })

  it.each(['nan', 'inf', '-5', '1e300', 'x'])('ignores a count of %s', async (count) => {
    await client.hset(countsKey(PARTITION, app.appId), `m${NOON}`, count)
    expect(await take(app, [100, 1])).toMatchObject({ minuteUsed: 100, takes: [ANSWER.done, ANSWER.minute] })
  })

  it.each([3, 100, 30_000])(
    'takes nothing while the fence is %i minutes ahead, until the audit replaces it',
    async (ahead) => {
      await take(app, [60])
      await client.set(fenceKey(PARTITION), `99999999999999999 ${NOON + ahead}`)
      expect(await take(app, [5], { wanted: 5 })).toMatchObject({
        takes: [ANSWER.forgotten],
        granted: 0,
        minuteUsed: 60,
      })
      const counted = totals({ newest: NOON, cycles: new Map([[CYCLE, 7]]), days: new Map([[TODAY, 7]]) })
      await replace({ readUs: 9, closed: NOON }, { [app.appId]: counted })
      minute += 2
      expect(await take(app, [])).toMatchObject({ minute, monthUsed: 7 })
    },
  )

  it('counts the sums of a base of a minute ahead, and takes in the running one', async () => {
    await take(app, [60])
    const base = `99999999999999999 ${NOON + 100} ${CYCLE} 940 ${NOON} ${TODAY} 940`
    await client.hset(countsKey(PARTITION, app.appId), 'base', base)
    expect(await take(app, [5])).toMatchObject({ minute: NOON, monthUsed: 1000, takes: [ANSWER.month] })
  })

  it('grants at most 1/16 of what is left, and nothing of a full window', async () => {
    expect(await take(app, [20], { wanted: 3 })).toMatchObject({ granted: 3, minuteUsed: 23 })
    expect(await take(app, [], { wanted: 50 })).toMatchObject({ granted: 4, minuteUsed: 27 })
    expect(await take(app, [63], { wanted: 50 })).toMatchObject({ granted: 0, minuteUsed: 90, takes: [ANSWER.done] })
    minute++
    expect(await take({ ...app, eventsPerDay: 100 }, [], { wanted: 50 })).toMatchObject({ granted: 0, dayUsed: 90 })
  })

  it('claims a key only together with its take, and releases only this node’s claims', async () => {
    const key = idempotencyKey(PARTITION, 'a-batch')
    const takes = [{ events: 5, key }]
    expect((await take(app, [], { takes: [{ events: 500, key }] })).takes).toEqual([ANSWER.minute])
    expect(await client.exists(key)).toBe(0)
    expect((await take(app, [], { takes })).takes).toEqual([ANSWER.done])
    expect(await client.get(key)).toBe('one')
    expect(await takeAs('two', takes)).toEqual([ANSWER.held])
    await ask({ nodeId: 'two', released: [key] })
    expect(await client.get(key)).toBe('one')
    await ask({ accepted: [{ key, accepted: '5', rememberedMs: 300_000 }] })
    expect(await take(app, [], { takes })).toMatchObject({ takes: [ANSWER.replay + 5], minuteUsed: 5 })
    await ask({ released: [key] })
    expect(await client.get(key)).toBe('5')
    expect(await client.pttl(key)).toBeGreaterThan(290_000)
    await ask({ accepted: [{ key, accepted: acceptedText(100, 4_294_967_295), rememberedMs: 300_000 }] })
    const replay = (await take(app, [], { takes })).takes[0]
    expect(replayOfAnswer(replay)).toEqual({ kind: 'replay', events: 100, eventsHash: 4_294_967_295 })
  })

  it('takes nothing for a key in doubt, while its minute is open and it has as many events', async () => {
    const key = idempotencyKey(PARTITION, 'a-batch')
    const doubt = async (events: number, at: number): Promise<void> => {
      await client.hset(doubtsKey(PARTITION), 'a-batch', `${at} ${events} a-batch`)
    }
    await take(app, [60, 40])
    await doubt(60, NOON)
    minute++
    await take(app, [100])
    const [answer] = await takeAs('two', [{ events: 60, key }])
    expect([doubtOfAnswer(answer), await client.get(key)]).toEqual([{ minute: NOON, events: 60 }, 'two'])
    expect(await takeAs('one', [{ events: 60, key }])).toEqual([ANSWER.held])
    await client.del(key)
    expect(await takeAs('two', [{ events: 61, key }])).toEqual([ANSWER.minute])
    await replace({ readUs: 1, closed: NOON })
    expect(await takeAs('two', [{ events: 60, key }])).toEqual([ANSWER.minute])
    expect(await countsOf(app)).toMatchObject({ [`m${NOON}`]: '100', [`m${minute}`]: '100' })
    await client.set(doubtsKey(PARTITION), 'no hash')
    expect(await takeAs('two', [{ events: 60, key }])).toEqual([ANSWER.minute])
  })

  it('takes the hash that 0.3 made of a whole body for none, and 0.3 reads the text of this version', async () => {
    const key = idempotencyKey(PARTITION, 'a-batch')
    await ask({ accepted: [{ key, accepted: '7:4294967295', rememberedMs: 300_000 }] })
    const replay = (await take(app, [], { takes: [{ events: 1, key }] })).takes[0]
    const unknown = { kind: 'replay', events: 7, eventsHash: undefined }
    expect([replayOfAnswer(replay), replayOfText('7:4294967295')]).toEqual([unknown, unknown])
    expect(acceptedText(100, 4_294_967_295)).toMatch(/^(\d{1,3})(?::(\d{1,10}))?$/)
  })

  it('takes no id of a node for an accepted key, though it may be all digits', async () => {
    const key = idempotencyKey(PARTITION, 'a-batch')
    expect(await takeAs('123456789012', [{ events: 5, key }])).toEqual([ANSWER.done])
    expect(await takeAs('two', [{ events: 5, key }])).toEqual([ANSWER.held])
    expect(replayOfText('123456789012')).toBeNull()
  })

  it('has all keys of a partition in one hash slot', async () => {
    // Its own choice, 10,000 above, is one of the ports that the system gives to outgoing connections.
    const cluster = await startRedis(['--cluster-enabled', 'yes', '--cluster-port', String(await freePort())])
    const asker = connectTo(cluster.url)
    const slotsOf = async (partition: number): Promise<number> => {
      const keys = [
        fenceKey(partition),
        countsKey(partition, 'one'),
        countsKey(partition, 'two'),
        idempotencyKey(partition, 'x'),
      ]
      return new Set(await Promise.all(keys.map((key) => asker.cluster('KEYSLOT', key)))).size
    }
    expect([await slotsOf(0), await slotsOf(7), await slotsOf(15)]).toEqual([1, 1, 1])
    asker.disconnect()
    await cluster.stop()
  })

  const corrupt: Readonly<Record<string, Readonly<Record<string, string>>>> = {
    'a base of another form': { base: 'nonsense' },
    'a base that is cut off': { base: '99 1 2 3' },
    'days of another form': { base: `1 1 ${CYCLE - 1} 5 ${NOON} 1 2`, days: 'x:y 7' },
    'a minute that is not a number': { [`m${NOON}`]: 'x', mx: '5', [`x${NOON}`]: '', x: '1' },
    'an unknown field': { what: 'x', '': 'x' },
  }
  it.each(Object.entries(corrupt))('ignores %s', async (_, fields) => {
    await client.hset(countsKey(PARTITION, app.appId), fields)
    expect((await take(app, [60])).takes).toEqual([ANSWER.done])
    expect((await take(app, [60])).takes).toEqual([ANSWER.minute])
    expect((await take(app, [0])).takes).toEqual([ANSWER.done])
    await replace({ readUs: 1, closed: NOON }, { [app.appId]: totals({ days: new Map([[TODAY, 1]]) }) })
    minute++
    expect(await take(app, [1])).toMatchObject({ takes: [ANSWER.done], dayUsed: 2 })
  })

  it.each(['nonsense', '', '5', 'x y'])('ignores a fence %j', async (fence) => {
    await client.set(fenceKey(PARTITION), fence)
    expect((await take(app, [60])).takes).toEqual([ANSWER.done])
    await replace({ readUs: 1, closed: NOON })
    expect(await client.get(fenceKey(PARTITION))).toBe(`1 ${NOON}`)
  })
})

describe('replace.lua', () => {
  const counted = (events: number) => totals({ cycles: new Map([[CYCLE, events]]), days: new Map([[20_000, events]]) })

  it('changes nothing for an auditor that has read or closed less', async () => {
    expect(await replace({ readUs: 50, closed: NOON }, { [app.appId]: counted(7) })).toBe(1)
    const before = await countsOf(app)
    for (const older of [
      { readUs: 49, closed: NOON + 2 },
      { readUs: 50, closed: NOON - 1 },
    ]) {
      expect(await replace(older, { [app.appId]: counted(99) })).toBe(0)
      expect(await countsOf(app)).toEqual(before)
      expect(await client.get(fenceKey(PARTITION))).toBe(`50 ${NOON}`)
    }
    expect(await replace({ readUs: 50, closed: NOON }, { [app.appId]: counted(8) })).toBe(1)
    expect(await replace({ readUs: 51, closed: NOON }, { [app.appId]: counted(9) })).toBe(1)
    expect(await client.get(fenceKey(PARTITION))).toBe(`51 ${NOON}`)
  })

  it('deletes closed minutes, and keeps open ones', async () => {
    await take(app, [5, 0])
    minute++
    await take(app, [6, 0])
    await replace({ readUs: 1, closed: NOON }, { [app.appId]: counted(5) })
    const { base, days, ...open } = await countsOf(app)
    expect([base, days]).toEqual([`1 ${NOON} ${counted(5).base}`, '20000:5'])
    expect(open).toEqual({ [`m${minute}`]: '6', [`n${minute}:one`]: '6 0', [`x${minute}`]: '1' })
    expect(await client.ttl(countsKey(PARTITION, app.appId))).toBeGreaterThan(39 * 86_400)
  })

  it('changes nothing for an auditor that has read fewer messages of the same time, whether or not it is the last', async () => {
    const reading = { readUs: 50, closed: NOON, sequence: 10 }
    expect(await replace(reading, { [app.appId]: counted(7) })).toBe(1)
    const before = await countsOf(app)
    expect(await replace({ ...reading, sequence: 9 }, { [app.appId]: counted(6) })).toBe(0)
    // An older one does not make the others forget.
    expect(await replace({ ...reading, readUs: 40, sequence: 8 }, { [app.appId]: counted(5) })).toBe(0)
    expect(await replace({ ...reading, sequence: 9 }, { [app.appId]: counted(6) })).toBe(0)
    expect(await countsOf(app)).toEqual(before)
    expect(await replace({ ...reading, sequence: 11 }, { [app.appId]: counted(8) })).toBe(1)
    expect(await replace({ ...reading, closed: NOON + 1, sequence: 3 }, { [app.appId]: counted(9) })).toBe(1)
  })

  it.each(['nonsense', '1 2', '1 2 x'])('takes a reading of %j for none', async (text) => {
    await client.set(READ_KEY, text)
    expect(await replace({ readUs: 1, closed: NOON }, { [app.appId]: counted(7) })).toBe(1)
    await client.del(READ_KEY)
    await client.hset(READ_KEY, 'x', 'y')
    expect(await replace({ readUs: 2, closed: NOON }, { [app.appId]: counted(7) })).toBe(1)
  })

  it('closes no minute that this Redis’s clock cannot have passed', async () => {
    expect(await replace({ readUs: 1, closed: NOON + 3 }, { [app.appId]: counted(5) })).toBe(-1)
    expect(await client.dbsize()).toBe(0)
  })

  it('takes back what is closed more than two minutes ahead of its clock, for an auditor that has closed less', async () => {
    minute = NOON + 118
    expect(await replace({ readUs: 50, closed: minute }, { [app.appId]: counted(7) })).toBe(1)
    minute = NOON + 115
    expect(await replace({ readUs: 49, closed: NOON }, { [app.appId]: counted(9) })).toBe(1)
    expect(await client.get(fenceKey(PARTITION))).toBe(`49 ${NOON}`)
    expect((await countsOf(app))['base']).toBe(`49 ${NOON} ${counted(9).base}`)
    await replace({ readUs: 50, closed: NOON + 117 })
    expect(await replace({ readUs: 51, closed: NOON }, { [app.appId]: counted(9) })).toBe(1)
    expect(await client.get(fenceKey(PARTITION))).toBe(`51 ${NOON}`)
  })

  it('deletes the counters of minutes that cannot have begun, whose events the audit has charged', async () => {
    minute = NOON + 90
    await take(app, [5])
    minute = NOON
    await take(app, [6])
    await replace({ readUs: 1, closed: NOON - 2 }, { [app.appId]: counted(5) })
    expect(await countsOf(app)).toMatchObject({ [`m${NOON}`]: '6' })
    expect(await countsOf(app)).not.toHaveProperty(`m${NOON + 90}`)
  })

  it('sets no fence without the argument for it', async () => {
    await replace({ readUs: 1, closed: NOON, isFence: false }, { [app.appId]: counted(5) })
    expect(await client.get(fenceKey(PARTITION))).toBe(null)
  })
})
