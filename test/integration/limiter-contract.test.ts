// What every limiter holds to, in memory and in Redis alike, on one node.

import { Redis } from 'ioredis'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { App } from '../../src/admit/app.ts'
import type { Limiter, LimitRefusal, Standing } from '../../src/admit/limiter.ts'
import { createMemoryLimiter } from '../../src/admit/memory-limiter.ts'
import { testNode } from '../support/limiters.ts'
import { type RedisServer, startRedis } from '../support/redis.ts'
import { anApp } from '../unit/admit/apps.ts'

const NOON_MS = Date.UTC(2026, 10, 20, 12)
const MINUTE_MS = 60_000
const DAY_MS = 86_400_000

let server: RedisServer
let client: Redis
beforeAll(async () => {
  server = await startRedis()
  client = new Redis(server.url)
})
afterAll(async () => {
  client.disconnect()
  await server.stop()
})

const kinds: Readonly<Record<string, (nowMs: () => number) => Limiter>> = {
  memory: () => createMemoryLimiter(),
  Redis: (nowMs) => testNode({ client, nodeId: 'one', nowMs }).limiter,
}

describe.each(Object.entries(kinds))('a limiter in %s', (_kind, open) => {
  let limiter: Limiter
  let nowMs = NOON_MS
  beforeEach(async () => {
    await client.flushall()
    nowMs = NOON_MS
    limiter = open(() => nowMs)
  })

  async function take(app: App, cost: number, atMs: number): Promise<number | LimitRefusal> {
    nowMs = atMs
    return limiter.take(app, cost, atMs)
  }

  async function standing(app: App, atMs: number): Promise<Standing> {
    nowMs = atMs
    return limiter.standing(app, atMs)
  }

  async function used(app: App, atMs: number): Promise<number[]> {
    const { minute, day, month } = await standing(app, atMs)
    expect(limiter.view(app, atMs)).toEqual({
      limit: app.eventsPerMinute,
      remaining: Math.max(0, app.eventsPerMinute - minute.used),
      resetUnixSeconds: minute.endsAtMs / 1000,
    })
    return [minute.used, day.used, month.used]
  }

  it('gives an app its minute, to the last event', async () => {
    const app = anApp({ eventsPerMinute: 10 })
    expect(await take(app, 7, NOON_MS)).toBe(NOON_MS)
    expect(limiter.view(app, nowMs).remaining).toBe(3)
    expect(await take(app, 4, NOON_MS + 1)).toBe('rate_limit_exceeded')
    expect(limiter.view(app, nowMs).remaining).toBe(3)
    expect(await take(app, 3, NOON_MS + 2)).toBe(NOON_MS + 2)
    expect(limiter.view(app, nowMs).remaining).toBe(0)
    expect(await take(app, 1, NOON_MS + MINUTE_MS - 1)).toBe('rate_limit_exceeded')
    expect(await take(app, 10, NOON_MS + MINUTE_MS)).toBe(NOON_MS + MINUTE_MS)
  })

  it('gives an app its day, until midnight UTC', async () => {
    const app = anApp({ eventsPerDay: 600 })
    expect(await take(app, 500, NOON_MS)).toBeTypeOf('number')
    expect(await take(app, 101, NOON_MS + MINUTE_MS)).toBe('daily_limit_exceeded')
    expect(await take(app, 100, NOON_MS + DAY_MS / 2 - 1)).toBeTypeOf('number')
    expect(await take(app, 1, NOON_MS + DAY_MS / 2 - 1)).toBe('daily_limit_exceeded')
    expect(await take(app, 500, NOON_MS + DAY_MS / 2)).toBeTypeOf('number')
    expect(await used(app, nowMs)).toEqual([500, 500, 1100])
  })

  it('gives an app its billing cycle, until the next begins, in the middle of a minute too', async () => {
    const app = anApp({ billingAnchorMs: NOON_MS - DAY_MS + 30_000, eventsPerMonth: 400 })
    const cycleEndMs = Date.UTC(2026, 11, 19, 12, 0, 30)
    expect(await take(app, 399, NOON_MS)).toBeTypeOf('number')
    expect(await take(app, 2, cycleEndMs - 1)).toBe('monthly_limit_exceeded')
    expect(await take(app, 1, cycleEndMs - 1)).toBeTypeOf('number')
    expect(await take(app, 400, cycleEndMs)).toBeTypeOf('number')
    expect(await used(app, nowMs)).toEqual([401, 401, 400])
    expect(await take(app, 1, cycleEndMs)).toBe('monthly_limit_exceeded')
  })

  it('refuses by the month before the day, and by the day before the minute', async () => {
    const tight = { eventsPerMinute: 10, eventsPerDay: 10, eventsPerMonth: 10 }
    expect(await take(anApp({ ...tight, appId: 'a' }), 11, NOON_MS)).toBe('monthly_limit_exceeded')
    expect(await take(anApp({ ...tight, appId: 'b', eventsPerMonth: 11 }), 11, NOON_MS)).toBe('daily_limit_exceeded')
    const loose = anApp({ appId: 'c', eventsPerMinute: 10, eventsPerMonth: 11, eventsPerDay: 11 })
    expect(await take(loose, 11, NOON_MS)).toBe('rate_limit_exceeded')
  })

  it('spends nothing of any window where it refuses', async () => {
    const app = anApp({ eventsPerMinute: 10, eventsPerDay: 100 })
    await take(app, 11, NOON_MS)
    expect(await used(app, nowMs)).toEqual([0, 0, 0])
  })

  it('counts each app by itself', async () => {
    expect(await take(anApp(), 500, NOON_MS)).toBeTypeOf('number')
    expect(await take(anApp({ appId: '__proto__' }), 500, NOON_MS)).toBeTypeOf('number')
    expect(await take(anApp(), 1, NOON_MS)).toBe('rate_limit_exceeded')
  })

  it('takes a cost of 1, which is what an empty batch has, and nothing below', async () => {
    const app = anApp({ eventsPerMinute: 2 })
    expect(await take(app, 1, NOON_MS)).toBeTypeOf('number')
    for (const cost of [0, -1, Number.NaN]) expect(() => limiter.take(app, cost, NOON_MS)).toThrow('cannot cost')
    expect(await used(app, nowMs)).toEqual([1, 1, 1])
  })

  it('lets what was given back be taken again at once', async () => {
    const app = anApp({ eventsPerMinute: 10, eventsPerDay: 10, eventsPerMonth: 10 })
    const takenAtMs = (await take(app, 10, NOON_MS)) as number
    limiter.giveBack(app, 10, takenAtMs, NOON_MS + 5)
    expect(await used(app, NOON_MS + 5)).toEqual([0, 0, 0])
    expect(await take(app, 10, NOON_MS + 6)).toBeTypeOf('number')
    expect(await used(app, nowMs)).toEqual([10, 10, 10])
  })

  it('gives nothing back to a window that has opened since', async () => {
    const app = anApp({ eventsPerMinute: 10, eventsPerDay: 15 })
    const takenAtMs = (await take(app, 10, NOON_MS)) as number
    await take(app, 5, NOON_MS + MINUTE_MS)
    limiter.giveBack(app, 10, takenAtMs, NOON_MS + MINUTE_MS)
    expect(await used(app, nowMs)).toEqual([5, 5, 5])
    expect(await take(app, 10, NOON_MS + MINUTE_MS + 1)).toBe('rate_limit_exceeded')
    expect(await take(app, 5, NOON_MS + MINUTE_MS + 100)).toBeTypeOf('number')
  })

  it('finds a fault where more lands than is in flight', async () => {
    const takenAtMs = (await take(anApp(), 10, NOON_MS)) as number
    limiter.settle(anApp(), 10, takenAtMs)
    expect(() => limiter.giveBack(anApp(), 10, takenAtMs, NOON_MS)).toThrow('in flight')
  })

  it('does not reopen a minute, a day or a cycle that is spent when the clock steps back a little', async () => {
    const midnightMs = Date.UTC(2026, 11, 1)
    const app = anApp({ eventsPerMinute: 10, eventsPerDay: 10, eventsPerMonth: 10 })
    expect(await take(app, 10, midnightMs - 1)).toBeTypeOf('number')
    expect(await take(app, 10, midnightMs)).toBeTypeOf('number')
    expect(await take(app, 1, midnightMs - 1)).toBe('monthly_limit_exceeded')
    expect(await take(app, 1, midnightMs - 59_999)).toBe('monthly_limit_exceeded')
  })

  it('holds a changed limit from the next request', async () => {
    await take(anApp(), 400, NOON_MS)
    expect(await take(anApp({ eventsPerMinute: 401 }), 2, NOON_MS + 100)).toBe('rate_limit_exceeded')
    expect(await take(anApp({ eventsPerMinute: 600 }), 200, NOON_MS + 200)).toBeTypeOf('number')
    const shrunk = anApp({ eventsPerMinute: 700, eventsPerDay: 600 })
    expect(await take(shrunk, 1, NOON_MS + 300)).toBe('daily_limit_exceeded')
    expect(limiter.view(anApp({ eventsPerMinute: 400 }), nowMs)).toMatchObject({ limit: 400, remaining: 0 })
  })

  it('opens a cycle with nothing spent for a new anchor, and finds the old one again', async () => {
    const old = anApp({ eventsPerMonth: 100 })
    const moved = { ...old, billingAnchorMs: NOON_MS }
    const oldTakenAtMs = (await take(old, 90, NOON_MS)) as number
    const takenAtMs = (await take(moved, 100, NOON_MS)) as number
    expect(await take(old, 11, NOON_MS)).toBe('monthly_limit_exceeded')
    limiter.giveBack(moved, 100, takenAtMs, NOON_MS)
    limiter.settle(old, 90, oldTakenAtMs)
    expect((await standing(old, NOON_MS)).month.used).toBe(90)
    expect((await standing(moved, NOON_MS)).month.used).toBe(0)
  })

  it('takes more than was asked for, or gives a part back, where something else turns out to be stored', async () => {
    const app = anApp({ eventsPerMinute: 10 })
    const takenAtMs = (await take(app, 5, NOON_MS)) as number
    limiter.giveBack(app, -7, takenAtMs, NOON_MS)
    limiter.settle(app, 12, takenAtMs)
    expect(await used(app, NOON_MS)).toEqual([12, 12, 12])
    expect(await take(app, 1, NOON_MS)).toBe('rate_limit_exceeded')
  })

  it('shows an app never seen as untouched', async () => {
    expect(limiter.view(anApp(), NOON_MS)).toEqual({
      limit: 500,
      remaining: 500,
      resetUnixSeconds: NOON_MS / 1000 + 60,
    })
    expect(await standing(anApp({ eventsPerDay: 9 }), NOON_MS)).toMatchObject({
      minute: { limit: 500, used: 0, endsAtMs: NOON_MS + MINUTE_MS },
      day: { limit: 9, used: 0, endsAtMs: NOON_MS + DAY_MS / 2 },
      month: { limit: 110_000, used: 0, endsAtMs: Date.UTC(2026, 11, 1) },
    })
  })

  it('shows figures that follow the minute', async () => {
    await take(anApp(), 123, NOON_MS)
    expect(limiter.view(anApp(), NOON_MS).remaining).toBe(377)
    expect(await used(anApp(), NOON_MS + MINUTE_MS)).toEqual([0, 123, 123])
    expect(await used(anApp(), NOON_MS + DAY_MS)).toEqual([0, 0, 123])
  })

  it('gives the time at which it took, inside the windows that it charged', async () => {
    const app = anApp({ eventsPerMinute: 50 })
    for (const stepMs of [0, 59_999, 60_000, 60_001, 119_999, 180_000]) {
      const takenAtMs = (await take(app, 10, NOON_MS + stepMs)) as number
      const minuteMs = Math.floor((NOON_MS + stepMs) / MINUTE_MS) * MINUTE_MS
      expect([takenAtMs >= minuteMs, takenAtMs < minuteMs + MINUTE_MS]).toEqual([true, true])
      limiter.settle(app, 10, takenAtMs)
    }
  })
})
