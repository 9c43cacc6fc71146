// The contract of every admission: the one in memory, and the shared one over a real Redis, on one node and on three by
// turns.

import { randomUUID } from 'node:crypto'
import type { Redis } from 'ioredis'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { App } from '../../src/apps/app.ts'
import { enforcedEventsPerMonth, PLANS } from '../../src/apps/plans.ts'
import type { Charge } from '../../src/contract/charge.ts'
import { batchIdOf } from '../../src/contract/ids.ts'
import { createMemoryDeduplicator } from '../../src/keys/memory-deduplicator.ts'
import type { Admission, Admitted, End } from '../../src/limits/admission.ts'
import { MemoryLimiter } from '../../src/limits/own/memory-limiter.ts'
import { OwnAdmission } from '../../src/limits/own/own-admission.ts'
import { connectTo, limitNode } from '../support/limits.ts'
import { type RedisServer, startRedis } from '../support/redis.ts'
import { sleep } from '../support/service.ts'
import { usageOf } from '../support/usage.ts'
import { anApp } from '../unit/apps/apps.ts'

const NOON_MS = Date.UTC(2026, 10, 20, 12)
const MINUTE_MS = 60_000
const DAY_MS = 86_400_000

let server: RedisServer
let client: Redis
beforeAll(async () => {
  server = await startRedis()
  client = connectTo(server.url)
})
afterAll(() => client.disconnect())

interface Made {
  readonly nodes: readonly Admission[]
  /** Resolves when everything that a node did before is in Redis. */
  toldRedis(): Promise<void>
  stop(): Promise<void>
}

function inMemory(nowMs: () => number): Made {
  const deduplicator = createMemoryDeduplicator({ maxKeys: 1000 })
  const own = new OwnAdmission({ limiter: new MemoryLimiter(), deduplicator, clock: nowMs })
  return { nodes: [own], toldRedis: async () => {}, stop: async () => {} }
}

function shared(nowMs: () => number, count: number): Made {
  const nodes = Array.from({ length: count }, (_, at) => limitNode(client, `node-${at}`, nowMs))
  const stop = async (): Promise<void> => {
    for (const { admission, faults } of nodes) {
      await admission.stop()
      expect(faults).toEqual([])
    }
  }
  const toldRedis = async (): Promise<void> => void (await Promise.all(nodes.map(({ link }) => link.idle())))
  return { nodes: nodes.map(({ admission }) => admission), toldRedis, stop }
}

const freshKey = (): string => batchIdOf('demo', randomUUID())
/** The result of a promise by now; 'waits': it is pending. */
async function soFar<T>(promise: Promise<T>): Promise<T | 'waits'> {
  return Promise.race([promise, sleep(100).then(() => 'waits' as const)])
}

describe.each([
  { name: "of this machine's own", make: inMemory },
  { name: 'shared, on one node', make: (nowMs: () => number) => shared(nowMs, 1) },
  { name: 'shared, on three nodes in turn', make: (nowMs: () => number) => shared(nowMs, 3) },
])('an admission $name', ({ make }) => {
  let made: Made
  let nowMs = NOON_MS
  let turn = 0
  beforeEach(async () => {
    await client.flushall()
    nowMs = NOON_MS
    made = make(() => nowMs)
  })
  afterEach(() => made.stop())

  const node = (): Admission => made.nodes[turn++ % made.nodes.length]

  /** Leaves the batch in flight. Returns its charge, or the reason of the refusal. */
  async function admit(app: App, events: number, atMs = nowMs): Promise<Charge | string> {
    nowMs = atMs
    const admitted = await node().admit(app, events, null, null)
    if (admitted.kind === 'taken') return admitted.charge
    return admitted.kind === 'over limit' ? admitted.refusal : admitted.kind
  }

  async function spend(app: App, events: number, atMs = nowMs): Promise<string> {
    nowMs = atMs
    const on = node()
    const admitted = await on.admit(app, events, null, null)
    if (admitted.kind !== 'taken') return admitted.kind === 'over limit' ? admitted.refusal : admitted.kind
    on.end(app, admitted.charge, null, 'stored', events)
    const { takenAtMs } = admitted.charge
    expect(takenAtMs - (takenAtMs % MINUTE_MS)).toBe(nowMs - (nowMs % MINUTE_MS))
    return 'stored'
  }

  async function used(app: App, atMs = nowMs): Promise<number[]> {
    nowMs = atMs
    await made.toldRedis()
    const { minute, day, month } = await usageOf(node(), app)
    return [minute.used, day.used, month.used]
  }

  /** Ends a new batch under this key on a node. */
  async function finish(on: Admission, app: App, key: string, end: End, events = 5): Promise<Admitted['kind']> {
    const admitted = await on.admit(app, events, key, null)
    if (admitted.kind === 'taken') on.end(app, admitted.charge, key, end, events)
    await made.toldRedis()
    return admitted.kind
  }

  it('lets an app use its minute to the last event, and takes a batch completely or not at all', async () => {
    const app = anApp({ eventsPerMinute: 10 })
    expect(await spend(app, 7)).toBe('stored')
    expect(await spend(app, 4)).toBe('rate_limit_exceeded')
    expect(await spend(app, 3)).toBe('stored')
    expect(await spend(app, 1, NOON_MS + MINUTE_MS - 1)).toBe('rate_limit_exceeded')
    expect(await spend(app, 10, NOON_MS + MINUTE_MS)).toBe('stored')
  })

  it('lets an app use its day, until midnight UTC', async () => {
    const app = anApp({ eventsPerDay: 600 })
    expect(await spend(app, 500)).toBe('stored')
    expect(await spend(app, 101, NOON_MS + MINUTE_MS)).toBe('daily_limit_exceeded')
    expect(await spend(app, 100, NOON_MS + DAY_MS / 2 - 1)).toBe('stored')
    expect(await spend(app, 1)).toBe('daily_limit_exceeded')
    expect(await spend(app, 500, NOON_MS + DAY_MS / 2)).toBe('stored')
    expect(await used(app)).toEqual([500, 500, 1100])
  })

  it('lets an app use its billing cycle, until the next begins', async () => {
    const app = anApp({ billingAnchorMs: NOON_MS - DAY_MS, eventsPerMonth: 400 })
    const cycleEndMs = Date.UTC(2026, 11, 19, 12)
    expect(await spend(app, 399)).toBe('stored')
    expect(await spend(app, 2, cycleEndMs - 1)).toBe('monthly_limit_exceeded')
    expect(await spend(app, 1)).toBe('stored')
    expect(await spend(app, 400, cycleEndMs)).toBe('stored')
    expect((await used(app))[2]).toBe(400)
    expect(await spend(app, 1)).toBe('monthly_limit_exceeded')
  })

  it('checks the month first, then the day, then the minute', async () => {
    const tight = { eventsPerMinute: 10, eventsPerDay: 10, eventsPerMonth: 10 }
    expect(await spend(anApp({ ...tight, appId: 'a' }), 11)).toBe('monthly_limit_exceeded')
    expect(await spend(anApp({ ...tight, appId: 'b', eventsPerMonth: 11 }), 11)).toBe('daily_limit_exceeded')
    const loose = anApp({ appId: 'c', eventsPerMinute: 10, eventsPerMonth: 11, eventsPerDay: 11 })
    expect(await spend(loose, 11)).toBe('rate_limit_exceeded')
  })

  it('reports with a refusal in how many seconds there is room again', async () => {
    nowMs = NOON_MS + 1500
    const refused = async (parts: Partial<App>): Promise<unknown> => {
      const admitted = await node().admit(anApp(parts), 2, null, null)
      return admitted.kind === 'over limit' ? admitted.retryAfterSeconds : admitted
    }
    expect(await refused({ appId: 'a', eventsPerMinute: 1 })).toBe(59)
    expect(await refused({ appId: 'b', eventsPerDay: 1 })).toBe(12 * 3600 - 1)
    expect(await refused({ appId: 'c', eventsPerMonth: 1 })).toBe((10 * 24 + 12) * 3600 - 1)
  })

  it('takes 1 of the minute for an empty batch, and nothing of day and month', async () => {
    const app = anApp({ eventsPerMinute: 3, eventsPerDay: 1, eventsPerMonth: 1 })
    expect(await spend(app, 1)).toBe('stored')
    expect([await spend(app, 0), await spend(app, 0), await spend(app, 0)]).toEqual([
      'stored',
      'stored',
      'rate_limit_exceeded',
    ])
    expect(await used(app)).toEqual([3, 1, 1])
    expect(await spend(app, 0, NOON_MS + MINUTE_MS)).toBe('stored')
  })

  it('charges nothing for a refusal', async () => {
    const app = anApp({ eventsPerMinute: 10, eventsPerDay: 100 })
    expect(await spend(app, 11)).toBe('rate_limit_exceeded')
    expect(await used(app)).toEqual([0, 0, 0])
  })

  it('counts each app by itself', async () => {
    expect(await spend(anApp(), 500)).toBe('stored')
    expect(await spend(anApp({ appId: '__proto__' }), 500)).toBe('stored')
    expect(await spend(anApp(), 1)).toBe('rate_limit_exceeded')
  })

  it('keeps stored and unknown batches counted, and gives back refused and duplicate ones', async () => {
    const app = anApp({ eventsPerMinute: 40 })
    for (const end of ['stored', 'unknown', 'refused', 'duplicate'] as const) {
      const on = node()
      const admitted = await on.admit(app, 10, null, null)
      if (admitted.kind !== 'taken') throw new Error(admitted.kind)
      on.end(app, admitted.charge, null, end, 10)
    }
    expect(await used(app)).toEqual([20, 20, 20])
    expect(await spend(app, 20)).toBe('stored')
    expect(await spend(app, 1)).toBe('rate_limit_exceeded')
  })

  it('gives back to the windows that were taken from, not to a minute that began later', async () => {
    const app = anApp({ eventsPerMinute: 10, eventsPerDay: 15 })
    const on = node()
    const admitted = await on.admit(app, 10, null, null)
    if (admitted.kind !== 'taken') throw new Error(admitted.kind)
    await spend(app, 5, NOON_MS + MINUTE_MS)
    on.end(app, admitted.charge, null, 'refused', 0)
    expect(await used(app)).toEqual([5, 5, 5])
    expect(await admit(app, 6)).toBe('rate_limit_exceeded')
    expect(await admit(app, 5)).toMatchObject({ events: 5 })
  })

  it('enforces a changed limit from the next request, raised or lowered', async () => {
    expect(await spend(anApp(), 400)).toBe('stored')
    expect(await spend(anApp({ eventsPerMinute: 401 }), 2)).toBe('rate_limit_exceeded')
    expect(await spend(anApp({ eventsPerMinute: 600 }), 200)).toBe('stored')
    expect(await spend(anApp({ eventsPerMinute: 700, eventsPerDay: 600 }), 1)).toBe('daily_limit_exceeded')
    expect(await spend(anApp({ eventsPerMinute: 700, eventsPerMonth: 600 }), 1)).toBe('monthly_limit_exceeded')
    expect(await spend(anApp({ eventsPerMinute: 700 }), 100)).toBe('stored')
  })

  it('counts events accepted under a larger plan against the month of a smaller one, with its 10% tolerance', async () => {
    const of = (plan: '5m' | '10k' | 'trial'): App => {
      const { eventsPerMinute, eventsPerMonth } = PLANS[plan]
      return anApp({ plan, eventsPerMinute, eventsPerMonth: enforcedEventsPerMonth(plan, eventsPerMonth) })
    }
    for (let sent = 0; sent < 10_900; sent += 100) expect(await spend(of('5m'), 100)).toBe('stored')
    expect(await spend(of('5m'), 99)).toBe('stored')
    nowMs += MINUTE_MS
    expect(await spend(of('10k'), 2)).toBe('monthly_limit_exceeded')
    expect(await spend(of('10k'), 1)).toBe('stored')
    expect(await spend(of('10k'), 1)).toBe('monthly_limit_exceeded')
    expect(await spend(of('trial'), 1)).toBe('monthly_limit_exceeded')
    expect(await spend(of('5m'), 1)).toBe('stored')
  })

  it.each([3, 5, 6, 7, 9])('leaves less than one batch of %i unused, however fast an app sends', async (events) => {
    const app = anApp({ eventsPerMinute: 1000 })
    let stored = 0
    for (let refusedInARow = 0; refusedInARow < 6; ) {
      if ((await spend(app, events)) === 'stored') {
        stored += events
        refusedInARow = 0
      } else {
        refusedInARow++
        await made.toldRedis()
      }
    }
    expect(stored).toBe(1000 - (1000 % events))
  })

  it('shows all windows while less than a fifth of one is left, by what the newest record allows', async () => {
    const app = anApp({ eventsPerMinute: 100, eventsPerDay: 200, eventsPerMonth: 1000 })
    const on = node()
    const take = async (events: number): Promise<void> => {
      const admitted = await on.admit(app, events, null, null)
      if (admitted.kind === 'taken') on.end(app, admitted.charge, null, 'stored', events)
    }
    expect(on.nearLimits(app, false)).toBeNull()
    await take(80)
    expect(on.nearLimits(app, false)).toBeNull()
    const windows = (minute: number, day: number, month: number) => [
      { name: 'minute', limit: 100, remaining: minute, lengthSeconds: 60, resetSeconds: 60 },
      { name: 'day', limit: 200, remaining: day, lengthSeconds: 86_400, resetSeconds: 43_200 },
      { name: 'month', limit: 1000, remaining: month, lengthSeconds: 30 * 86_400, resetSeconds: 10.5 * 86_400 },
    ]
    expect(on.nearLimits(app, true)).toEqual(windows(20, 120, 920))
    await take(1)
    const near = windows(19, 119, 919)
    expect(on.nearLimits(app, false)).toEqual(near)
    expect(on.nearLimits({ ...app, eventsPerDay: null }, false)).toEqual([near[0], near[2]])
    nowMs += MINUTE_MS
    expect(on.nearLimits(app, false)).toBeNull()
    expect(on.nearLimits({ ...app, eventsPerDay: 101 }, false)?.[1]).toMatchObject({ limit: 101, remaining: 20 })
    expect(on.nearLimits({ ...app, eventsPerDay: 102 }, false)).toBeNull()
    expect(on.nearLimits({ ...app, eventsPerMonth: 100 }, false)?.[2]).toMatchObject({ limit: 100, remaining: 19 })
    nowMs += 12 * DAY_MS
    expect(on.nearLimits({ ...app, eventsPerMonth: 100 }, false)).toBeNull()
  })

  it('gives a month the length of its own cycle, also where that begins within a minute', async () => {
    const app = anApp({ eventsPerMinute: 100, billingAnchorMs: Date.UTC(2026, 0, 31, 12, 0, 30) })
    const on = node()
    const taken = await on.admit(app, 81, null, null)
    if (taken.kind === 'taken') on.end(app, taken.charge, null, 'stored', 81)
    const month = on.nearLimits(app, false)?.[1]
    expect(month).toMatchObject({ name: 'month', lengthSeconds: 30 * 86_400 })
    // 31 October to 30 November.
    expect(Math.ceil((month?.resetSeconds ?? 0) / 60)).toBe(10 * 1440 + 1)
  })

  it('shows the remaining events of the current minute', async () => {
    const app = anApp()
    const on = node()
    expect(on.view(app)).toEqual({ limit: 500, remaining: 500, resetUnixSeconds: NOON_MS / 1000 + 60 })
    await on.admit(app, 123, null, null)
    expect(on.view(app)).toEqual({ limit: 500, remaining: 377, resetUnixSeconds: NOON_MS / 1000 + 60 })
    expect(on.view(anApp({ eventsPerMinute: 100 })).remaining).toBe(0)
    nowMs += MINUTE_MS
    expect(on.view(app)).toEqual({ limit: 500, remaining: 500, resetUnixSeconds: NOON_MS / 1000 + 120 })
    expect(await used(app)).toEqual([0, 123, 123])
  })

  it('reports the usage of an app without requests', async () => {
    expect(await usageOf(node(), anApp({ eventsPerDay: 9 }))).toEqual({
      atMs: NOON_MS,
      minute: { limit: 500, used: 0, endsAtMs: NOON_MS + MINUTE_MS },
      day: { limit: 9, used: 0, endsAtMs: NOON_MS + DAY_MS / 2 },
      month: { limit: 110_000, used: 0, endsAtMs: Date.UTC(2026, 11, 1) },
    })
  })

  it('reports the usage of many apps in their order', async () => {
    const apps = Array.from({ length: 40 }, (_, at) => anApp({ appId: `app${at}`, eventsPerDay: 1000 + at }))
    for (const [at, app] of apps.entries()) if (at % 3 === 0) expect(await spend(app, 1 + at)).toBe('stored')
    await made.toldRedis()
    const usages = await node().usages(apps)
    if (usages === 'away') throw new Error(usages)
    const wanted = apps.map((_, at) => ({ limit: 1000 + at, used: at % 3 === 0 ? 1 + at : 0 }))
    expect(usages.map(({ day: { limit, used: daily } }) => ({ limit, used: daily }))).toEqual(wanted)
    expect(await node().usages([])).toEqual([])
  })

  it('replays an accepted key with its events, and charges it once', async () => {
    const app = anApp()
    for (const events of [0, 1, 100]) {
      const key = freshKey()
      expect(await finish(node(), app, key, 'stored', events)).toBe('taken')
      for (let times = 0; times < 3; times++) {
        expect(await node().admit(app, 7, key, null)).toEqual({ kind: 'replay', events })
        expect(await node().replayOf(app, key)).toEqual({ kind: 'replay', events })
      }
    }
    expect(await used(app)).toEqual([102, 101, 101])
  })

  it('remembers the key of a duplicate, and gives its events back', async () => {
    const app = anApp()
    const key = freshKey()
    const on = node()
    const admitted = await on.admit(app, 5, key, null)
    if (admitted.kind !== 'taken') throw new Error(admitted.kind)
    on.end(app, admitted.charge, key, 'duplicate', 8)
    await made.toldRedis()
    expect(await node().admit(app, 5, key, null)).toEqual({ kind: 'replay', events: 8 })
    expect(await used(app)).toEqual([0, 0, 0])
  })

  it('replays an accepted key when its limit is used up', async () => {
    const app = anApp({ eventsPerMinute: 5 })
    const key = freshKey()
    await finish(node(), app, key, 'stored')
    expect(await node().admit(app, 5, key, null)).toEqual({ kind: 'replay', events: 5 })
    expect((await node().admit(app, 5, freshKey(), null)).kind).toBe('over limit')
  })

  it.each(['refused', 'unknown'] as const)('forgets a key whose batch ended as %s', async (end) => {
    const key = freshKey()
    for (let times = 0; times < 3; times++) expect(await finish(node(), anApp(), key, end)).toBe('taken')
    expect(await node().replayOf(anApp(), key)).toBe(null)
  })

  it('leaves no claim on a key whose batch is over a limit', async () => {
    const key = freshKey()
    const app = anApp({ eventsPerMinute: 5 })
    for (let times = 0; times < 3; times++) expect((await node().admit(app, 6, key, null)).kind).toBe('over limit')
    expect(await finish(node(), app, key, 'stored')).toBe('taken')
  })

  it('lets requests with the same key wait, replays all of them once it is stored, and charges it once', async () => {
    const app = anApp()
    const key = freshKey()
    const on = node()
    const admitted = await on.admit(app, 3, key, null)
    if (admitted.kind !== 'taken') throw new Error(admitted.kind)
    const twins = Array.from({ length: 6 }, async () => node().admit(app, 3, key, null))
    const asked = Array.from({ length: 3 }, async () => node().replayOf(app, key))
    expect(await soFar(Promise.race([...twins, ...asked]))).toBe('waits')
    on.end(app, admitted.charge, key, 'stored', 3)
    expect(await Promise.all(twins)).toEqual(twins.map(() => ({ kind: 'replay', events: 3 })))
    expect(await Promise.all(asked)).toEqual(asked.map(() => ({ kind: 'replay', events: 3 })))
    expect(await used(app)).toEqual([3, 3, 3])
  })

  it('says at each node which body the stored batch had', async () => {
    const app = anApp()
    const key = freshKey()
    const on = node()
    const admitted = await on.admit(app, 3, key, null)
    if (admitted.kind !== 'taken') throw new Error(admitted.kind)
    const twin = on.admit(app, 3, key, null)
    on.end(app, admitted.charge, key, 'stored', 3, 4_000_000_000)
    const replay = { kind: 'replay', events: 3, eventsHash: 4_000_000_000 }
    expect([await twin, await on.admit(app, 3, key, null), await on.replayOf(app, key)]).toEqual([
      replay,
      replay,
      replay,
    ])
    await made.toldRedis()
    for (let times = 0; times < 4; times++) {
      expect(await node().admit(app, 3, key, null)).toEqual(replay)
      expect(await node().replayOf(app, key)).toEqual(replay)
    }
  })

  it('takes and claims nothing where the queue would refuse, and answers all that needs no queue as ever', async () => {
    const app = anApp({ eventsPerMinute: 20 })
    const accepted = freshKey()
    const fresh = freshKey()
    await finish(node(), app, accepted, 'stored')
    for (let times = 0; times < 6; times++) {
      const refused = { kind: 'overloaded', reason: 'nats_away' }
      expect(await node().admit(app, 15, null, 'nats_away')).toEqual(refused)
      expect(await node().admit(app, 15, fresh, 'nats_away')).toEqual(refused)
      expect((await node().admit(app, 15, accepted, 'nats_away')).kind).toBe('replay')
      expect((await node().admit(app, 16, null, 'nats_away')).kind).toBe('over limit')
      expect((await node().admit(app, 16, freshKey(), 'nats_away')).kind).toBe('over limit')
      expect(await used(app)).toEqual([5, 5, 5])
      expect(node().view(app).remaining).toBeGreaterThanOrEqual(15)
    }
    expect(await finish(node(), app, fresh, 'stored', 15)).toBe('taken')
  })

  it('passes a key whose batch failed to one waiting request, and the others wait for that one', async () => {
    const app = anApp()
    const key = freshKey()
    const first = node()
    const admitted = await first.admit(app, 3, key, null)
    if (admitted.kind !== 'taken') throw new Error(admitted.kind)
    const twins = Array.from({ length: 6 }, async () => {
      const on = node()
      return { on, admitted: await on.admit(app, 3, key, null) }
    })
    expect(await soFar(Promise.race(twins))).toBe('waits')
    first.end(app, admitted.charge, key, 'refused', 0)
    const next = await Promise.race(twins)
    if (next.admitted.kind !== 'taken') throw new Error(next.admitted.kind)
    expect(await soFar(Promise.all(twins))).toBe('waits')
    next.on.end(app, next.admitted.charge, key, 'stored', 3)
    const kinds = (await Promise.all(twins)).map((twin) => twin.admitted.kind)
    expect(kinds.toSorted()).toEqual(['replay', 'replay', 'replay', 'replay', 'replay', 'taken'])
    expect(await used(app)).toEqual([3, 3, 3])
  })
})
