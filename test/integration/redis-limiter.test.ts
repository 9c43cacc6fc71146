// Several nodes over a real Redis: what each plan gets, what it costs, and what outages and dead nodes leave behind.

import { Cluster, Redis } from 'ioredis'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { App } from '../../src/admit/app.ts'
import { PLANS } from '../../src/admit/plans.ts'
import { readStanding } from '../../src/admit/read-standing.ts'
import { type StoredRecord, UNUSED_MARK } from '../../src/admit/reclaim.ts'
import { openRedis, untilUp } from '../../src/admit/redis-connection.ts'
import { systemTimers } from '../../src/lib/timers.ts'
import { openRedisLimiter, type RedisLimiter } from '../../src/admit/redis-limiter.ts'
import { connect, TestLink, type TestNode, testNode } from '../support/limiters.ts'
import { type RedisServer, startRedis, startRedisCluster } from '../support/redis.ts'
import { eventually, sleep } from '../support/service.ts'
import { anApp } from '../unit/admit/apps.ts'

const NOON_MS = Date.UTC(2026, 10, 20, 12)
const MINUTE_MS = 60_000

let server: RedisServer
let client: Redis
let nowMs = NOON_MS
beforeAll(async () => {
  server = await startRedis()
  client = connect(server.url)
})
afterAll(async () => {
  client.disconnect()
  await server.stop()
})
beforeEach(async () => {
  await client.flushall()
  nowMs = NOON_MS
})

/** Nodes that have heard of each other. */
async function startNodes(count: number): Promise<TestNode[]> {
  const nodes = Array.from({ length: count }, (_, at) => testNode({ client, nodeId: `node${at}`, nowMs: () => nowMs }))
  for (const { limiter } of [...nodes, ...nodes]) await limiter.beat()
  return nodes
}

/** Time passes, and every node does what it does by itself. */
async function pass(nodes: readonly TestNode[], forMs: number): Promise<void> {
  for (let passedMs = 0; passedMs < forMs; passedMs += 100) {
    nowMs += 100
    for (const { limiter } of nodes) {
      limiter.sweep()
      if (nowMs % 1000 === 0) await limiter.beat()
      await limiter.quiet()
    }
  }
}

async function usedInMonth(appId: string): Promise<number> {
  const standing = await readStanding(new TestLink(client), anApp({ appId }), nowMs)
  if (standing === 'away') throw new Error('the link is down')
  return standing.month.used
}

describe('an app that sends steadily to three nodes', () => {
  const figures = [...new Set(Object.values(PLANS).map(({ eventsPerMinute }) => eventsPerMinute))]
  it.each(figures)('gets at least 99% of %i events a minute, and never more', async (eventsPerMinute) => {
    const nodes = await startNodes(3)
    const app = anApp({ eventsPerMinute, eventsPerMonth: 10_000_000 })
    for (const rate of [1, 1.3]) {
      let accepted = 0
      let owed = 0
      for (let step = 0; step < 600; step++) {
        owed += (eventsPerMinute * rate) / 600
        for (let at = 0; owed >= 1; at++) {
          const cost = Math.min(1 + (step % 5), Math.floor(owed))
          owed -= cost
          const taken = await nodes[at % 3].limiter.take(app, cost, nowMs)
          if (typeof taken !== 'number') continue
          accepted += cost
          nodes[at % 3].limiter.settle(app, cost, taken)
        }
        await pass(nodes, 100)
      }
      expect(accepted).toBeLessThanOrEqual(eventsPerMinute)
      expect(accepted).toBeGreaterThanOrEqual(Math.floor(0.99 * eventsPerMinute))
    }
  })
})

/** Commands that clients sent; those inside scripts are not among them. */
async function scriptCalls(): Promise<number> {
  const stats = await client.info('commandstats')
  const calls = [...stats.matchAll(/cmdstat_eval(?:sha)?:calls=(\d+)/g)].map(([, count]) => Number(count))
  return calls.reduce((sum, count) => sum + count, 0)
}

describe('calls to Redis', () => {
  it('are under 5 for 1,000 requests of a few busy apps', async () => {
    const nodes = await startNodes(2)
    const apps = ['a', 'b', 'c'].map((appId) => anApp({ appId, eventsPerMinute: 1e6, eventsPerMonth: 1e8 }))
    const before = await scriptCalls()
    let requests = 0
    for (let step = 0; step < 100; step++) {
      for (let at = 0; at < 100; at++) {
        for (const app of apps) {
          const { limiter } = nodes[at % 2]
          const taken = limiter.take(app, 1, nowMs)
          limiter.settle(app, 1, (await taken) as number)
          requests++
        }
      }
      await pass(nodes, 100)
    }
    const calls = (await scriptCalls()) - before
    expect(calls).toBeLessThan((5 * requests) / 1000)
  })

  it('stay few while an app hammers at a limit that is spent', async () => {
    const [node] = await startNodes(1)
    const app = anApp({ eventsPerMinute: 10 })
    await node.limiter.take(app, 10, nowMs)
    const before = await scriptCalls()
    for (let at = 0; at < 1000; at++) {
      nowMs++
      expect(await node.limiter.take(app, 1, nowMs)).toBe('rate_limit_exceeded')
    }
    expect((await scriptCalls()) - before).toBeLessThanOrEqual(15)
  })

  it('are shared by requests that come together', async () => {
    const [node] = await startNodes(1)
    const app = anApp({ eventsPerMinute: 100, eventsPerMonth: 1000 })
    const before = await scriptCalls()
    const taken = await Promise.all(Array.from({ length: 200 }, async () => node.limiter.take(app, 1, nowMs)))
    expect(taken.filter((one) => typeof one === 'number')).toHaveLength(100)
    expect((await scriptCalls()) - before).toBeLessThanOrEqual(4)
  })
})

/** Two nodes over one queue, which the first one writes to. */
function deadAndAlive(app = anApp()) {
  const stored: StoredRecord[] = []
  const ledger = {
    isUnknown: false,
    asked: 0,
    mark: () => (ledger.isUnknown ? UNUSED_MARK : stored.length),
    storedBy: async (_: string, afterMark: number) => {
      ledger.asked++
      return stored.filter(({ mark }) => mark > afterMark)
    },
  }
  const [dead, alive] = ['dead', 'alive'].map((nodeId) => testNode({ client, nodeId, nowMs: () => nowMs, ledger }))
  const send = async (cost: number): Promise<void> => {
    const taken = (await dead.limiter.take(app, cost, nowMs)) as number
    stored.push({ appId: app.appId, cost, receivedAtMs: taken, mark: stored.length + 1 })
    dead.limiter.settle(app, cost, taken)
  }
  return { ledger, send, dead, alive }
}

describe('what a node holds', () => {
  it('goes back when its app falls silent, and another node can have it', async () => {
    const nodes = await startNodes(2)
    const app = anApp({ eventsPerMinute: 100 })
    const taken = (await nodes[0].limiter.take(app, 10, nowMs)) as number
    nodes[0].limiter.settle(app, 10, taken)
    expect(await nodes[1].limiter.take(app, 90, nowMs)).toBe('rate_limit_exceeded')
    await pass(nodes, 1500)
    expect(await nodes[1].limiter.take(app, 90, nowMs)).toBeTypeOf('number')
  })

  it('goes back when the node stops, which then is no node any more', async () => {
    const nodes = await startNodes(2)
    const app = anApp({ eventsPerMinute: 100 })
    await nodes[0].limiter.take(app, 10, nowMs)
    await nodes[0].limiter.stop()
    expect(await nodes[1].limiter.take(app, 90, nowMs)).toBeTypeOf('number')
    expect(await client.zrange('sluice:{nodes}', '0', '-1')).toEqual(['node1'])
    expect(await client.keys('sluice:{nodes}:node0:*')).toEqual([])
  })

  it('is told and given back though Redis was lost sight of as the node stopped', async () => {
    const [node, other] = await startNodes(2)
    const app = anApp({ eventsPerMinute: 100 })
    const taken = (await node.limiter.take(app, 10, nowMs)) as number
    node.limiter.settle(app, 10, taken)
    node.link.set(false)
    const stopping = node.limiter.stop()
    await sleep(200)
    node.link.set(true)
    await stopping
    expect(await usedInMonth(app.appId)).toBe(10)
    expect(await other.limiter.take(app, 90, nowMs)).toBeTypeOf('number')
    expect(await client.zrange('sluice:{nodes}', '0', '-1')).toEqual(['node1'])
  })

  it('is taken back within a minute when the node dies, but for what it had stored', async () => {
    const app = anApp({ eventsPerMinute: 100_000, eventsPerMonth: 1000 })
    const stored: StoredRecord[] = []
    const ledger = { mark: () => 7, storedBy: async () => stored }
    const [dead, alive] = ['dead', 'alive'].map((nodeId) => testNode({ client, nodeId, nowMs: () => nowMs, ledger }))
    await alive.limiter.beat()
    const taken = (await dead.limiter.take(app, 100, nowMs)) as number
    // The ledger knows of 60; an older record is a part of what the node had told.
    stored.push({ appId: 'demo', cost: 60, receivedAtMs: taken, mark: 8 })
    stored.push({ appId: 'demo', cost: 5, receivedAtMs: taken, mark: 7 })
    expect(await alive.limiter.take(app, 940, nowMs)).toBe('monthly_limit_exceeded')
    await pass([alive], MINUTE_MS / 2)
    expect(alive.notices.filter((notice) => notice.includes('dead has died'))).toHaveLength(1)
    expect(await alive.limiter.take(app, 941, nowMs)).toBe('monthly_limit_exceeded')
    expect(await alive.limiter.take(app, 940, nowMs)).toBeTypeOf('number')
    expect(await client.zrange('sluice:{nodes}', '0', '-1')).toEqual(['alive'])
  })

  it('is taken back, too, where the node had called just before it died, and after others had last heard it', async () => {
    const ledger = { mark: () => 0, storedBy: async () => [] }
    const [dead, alive] = ['dead', 'alive'].map((nodeId) => testNode({ client, nodeId, nowMs: () => nowMs, ledger }))
    // Found out fifteen seconds after this, and after the call less than that.
    nowMs -= 1
    await dead.limiter.beat()
    await alive.limiter.beat()
    nowMs += 901
    await dead.limiter.take(anApp(), 10, nowMs)
    nowMs += 100
    await pass([alive], MINUTE_MS / 2)
    expect(alive.notices.filter((notice) => notice.includes('dead has died'))).toHaveLength(1)
    expect(await usedInMonth('demo')).toBe(0)
  })

  it.each(['never called', 'was found by a probe'])('is counted where a node that %s dies in debt', async (before) => {
    const app = anApp()
    const { send, dead, alive } = deadAndAlive()
    await dead.limiter.beat()
    await alive.limiter.beat()
    expect(await alive.limiter.take(app, 100, nowMs)).toBeTypeOf('number')
    dead.link.fault = 'unsent'
    await send(3)
    if (before === 'was found by a probe') {
      // The probe is answered, and the call that would tell of the debt is not.
      dead.link.nextFaults = ['none', 'none', 'unsent']
      nowMs += 500
      dead.limiter.sweep()
      await dead.limiter.quiet()
      expect(dead.link.nextFaults).toEqual([])
    }
    await send(4)
    dead.link.fault = 'none'
    await dead.limiter.beat()
    nowMs += 1000
    await pass([alive], MINUTE_MS / 2)
    expect(alive.notices.join()).toContain('dead has died')
    expect(await usedInMonth('demo')).toBe(107)
  })

  it('is found to be dead by a node whose link breaks for an instant every few seconds', async () => {
    const nodes = await startNodes(2)
    await nodes[0].limiter.take(anApp(), 1, nowMs)
    for (let round = 0; round < 4; round++) {
      await pass([nodes[1]], 10_000)
      nodes[1].link.set(false)
      await pass([nodes[1]], 300)
      nodes[1].link.set(true)
    }
    expect(nodes[1].notices.join()).toContain('node0 has died')
  })

  it('is found to be dead once the link is whole again, however often it broke', async () => {
    const nodes = await startNodes(2)
    await nodes[0].limiter.take(anApp(), 1, nowMs)
    for (let flap = 0; flap < 60; flap++) {
      nodes[1].link.set(false)
      await pass([nodes[1]], 100)
      nodes[1].link.set(true)
      await pass([nodes[1]], 100)
    }
    await pass([nodes[1]], 17_000)
    expect(nodes[1].notices.join()).toContain('node0 has died')
  })

  it('is counted once where the last thing heard of it is a probe', async () => {
    const { ledger, send, dead, alive } = deadAndAlive()
    await dead.limiter.beat()
    await alive.limiter.beat()
    await send(10)
    nowMs += 1000
    dead.link.nextFaults = ['unsent']
    dead.limiter.sweep()
    await dead.limiter.quiet()
    nowMs += 300
    dead.link.nextFaults = ['none', 'unsent']
    dead.limiter.sweep()
    await dead.limiter.quiet()
    expect(dead.link.nextFaults).toEqual([])
    await pass([alive], MINUTE_MS / 2)
    expect(ledger.asked).toBe(1)
    expect(await usedInMonth('demo')).toBe(10)
  })

  it('is taken back and counted where the list of its apps was lost', async () => {
    const { ledger, send, dead, alive } = deadAndAlive()
    await dead.limiter.beat()
    await alive.limiter.beat()
    await send(10)
    await pass([dead], 1000)
    await send(5)
    await client.del('sluice:{nodes}:dead:apps')
    await pass([alive], MINUTE_MS / 2)
    expect(alive.notices.filter((notice) => notice.includes('dead has died'))).toHaveLength(1)
    expect(ledger.asked).toBeLessThanOrEqual(2)
    expect(await usedInMonth('demo')).toBe(15)
    expect(await client.zrange('sluice:{nodes}', '0', '-1')).toEqual(['alive'])
  })

  it('is listed again with its apps when it was taken for dead and calls before it is heard', async () => {
    const nodes = await startNodes(2)
    const app = anApp()
    await nodes[0].limiter.take(app, 1, nowMs)
    nodes[0].link.set(false)
    await pass([nodes[1]], MINUTE_MS / 2)
    expect(nodes[1].notices.join()).toContain('node0 has died')
    // Its beat is on its way and unanswered when it takes again.
    nodes[0].link.fault = 'late'
    nodes[0].link.set(true)
    nodes[0].link.fault = 'none'
    await nodes[0].limiter.take(app, 1, nowMs)
    expect(await client.smembers('sluice:{nodes}:node0:apps')).toEqual(['demo'])
  })

  it('is taken back when the clock of Redis was set back by an hour', async () => {
    const { ledger, dead, alive } = deadAndAlive()
    await dead.limiter.beat()
    await alive.limiter.beat()
    await dead.limiter.take(anApp(), 10, nowMs)
    nowMs -= 60 * MINUTE_MS
    let monotonicMs = 0
    const watcher = testNode({ client, nodeId: 'watcher', nowMs: () => nowMs, monotonicMs: () => monotonicMs, ledger })
    for (let second = 0; second < 40; second++) {
      nowMs += 1000
      monotonicMs += 1000
      await watcher.limiter.beat()
      await watcher.limiter.quiet()
    }
    expect(watcher.notices.join()).toContain('node dead has died')
    expect(await usedInMonth('demo')).toBe(0)
    expect(ledger.asked).toBeLessThanOrEqual(2)
  })

  it('has nobody read the queue when it dies before it knew where that ends', async () => {
    const { ledger, dead, alive } = deadAndAlive()
    ledger.isUnknown = true
    await dead.limiter.beat()
    ledger.isUnknown = false
    await alive.limiter.beat()
    await pass([alive], MINUTE_MS / 2)
    expect(alive.notices.join()).toContain('dead has died')
    expect(ledger.asked).toBe(0)
  })

  it('is counted in the cycle in which it was stored', async () => {
    const billingAnchorMs = NOON_MS + 30_000
    const app = anApp({ billingAnchorMs })
    const { send, dead, alive } = deadAndAlive(app)
    await dead.limiter.beat()
    await alive.limiter.beat()
    nowMs = billingAnchorMs + 5000
    expect(await alive.limiter.take(app, 1, nowMs)).toBeTypeOf('number')
    dead.link.fault = 'unsent'
    await send(7)
    await pass([alive], MINUTE_MS)
    expect(alive.notices.join()).toContain('dead has died')
    const standing = await readStanding(new TestLink(client), app, nowMs)
    expect(standing).toMatchObject({ month: { used: 8 } })
  })

  it('is not found to be dead while those who watch it are away for moments', async () => {
    const nodes = await startNodes(2)
    await nodes[0].limiter.take(anApp(), 1, nowMs)
    for (let round = 0; round < 8; round++) {
      await pass([nodes[1]], 2000)
      nodes[1].link.set(false)
      await pass([nodes[1]], 3000)
      nodes[1].link.set(true)
    }
    expect(nodes[1].notices.join()).not.toContain('node0 has died')
  })

  it('is counted once where the node was only cut off, and went on meanwhile', async () => {
    const app = anApp()
    const stored: StoredRecord[] = []
    const ledger = { mark: () => stored.length, storedBy: async () => stored }
    const [cutOff, other] = ['cut off', 'other'].map((nodeId) =>
      testNode({ client, nodeId, nowMs: () => nowMs, ledger }),
    )
    const send = async (cost: number): Promise<void> => {
      const taken = (await cutOff.limiter.take(app, cost, nowMs)) as number
      stored.push({ appId: 'demo', cost, receivedAtMs: taken, mark: stored.length + 1 })
      cutOff.limiter.settle(app, cost, taken)
    }
    await cutOff.limiter.beat()
    await send(10)
    await pass([cutOff, other], 2000)
    cutOff.link.set(false)
    // What Redis never heard of: in the minute that it knows, and in two that it does not.
    for (const cost of [20, 30, 40]) {
      await send(cost)
      nowMs += MINUTE_MS
    }
    await pass([other], MINUTE_MS / 2)
    expect(other.notices.join()).toContain('cut off has died')
    expect(await usedInMonth('demo')).toBe(100)
    cutOff.link.set(true)
    await pass([cutOff, other], 3000)
    expect(await usedInMonth('demo')).toBe(100)
  })

  it('stays spent when the node dies and nobody can tell what it had stored', async () => {
    const nodes = await startNodes(2)
    const app = anApp({ eventsPerMinute: 100_000, eventsPerMonth: 1000 })
    await nodes[0].limiter.take(app, 100, nowMs)
    await pass([nodes[1]], MINUTE_MS / 2)
    expect(nodes[1].notices.join()).toContain('node0 has died: 0 unused events of 1 apps were taken back')
    expect(await nodes[1].limiter.take(app, 901, nowMs)).toBe('monthly_limit_exceeded')
  })

  it('is nobody to be taken from just after Redis was away', async () => {
    const nodes = await startNodes(2)
    await nodes[0].limiter.take(anApp(), 1, nowMs)
    await pass([nodes[1]], 10_000)
    nodes[1].link.fault = 'unsent'
    await pass([nodes[1]], 60_000)
    nodes[1].link.fault = 'none'
    await pass([nodes[1]], 29_000)
    expect(nodes[1].notices.join()).not.toContain('has died')
    await pass([nodes[1]], 5000)
    expect(nodes[1].notices.join()).toContain('node0 has died')
  })

  it('is nobody to be taken from just after the connection to Redis was lost', async () => {
    const nodes = await startNodes(2)
    await nodes[0].limiter.take(anApp(), 1, nowMs)
    await pass([nodes[1]], 10_000)
    nodes[1].link.set(false)
    await pass([nodes[1]], 60_000)
    nodes[1].link.set(true)
    await pass([nodes[1]], 29_000)
    expect(nodes[1].notices.join()).not.toContain('has died')
    await pass([nodes[1]], 5000)
    expect(nodes[1].notices.join()).toContain('node0 has died')
  })

  it('is tried to be taken back again after a while, not at every beat, where the ledger cannot tell', async () => {
    let attempts = 0
    const ledger = { mark: () => 0, storedBy: async () => (++attempts > 2 ? [] : ('away' as const)) }
    const [dead, alive] = ['dead', 'alive'].map((nodeId) => testNode({ client, nodeId, nowMs: () => nowMs, ledger }))
    await alive.limiter.beat()
    await dead.limiter.take(anApp(), 1, nowMs)
    await pass([alive], 19_000)
    expect(attempts).toBe(1)
    await pass([alive], 12_000)
    expect(attempts).toBe(3)
    expect(alive.notices.join()).toContain('dead has died')
  })

  it('is not spent by a node that stood still while others took it back', async () => {
    let standsStillSinceMs: number | null = null
    const ledger = { mark: () => 0, storedBy: async () => [] }
    const sleeper = testNode({ client, nodeId: 'sleeper', nowMs: () => nowMs, ledger })
    const watcher = testNode({ client, nodeId: 'watcher', nowMs: () => nowMs, ledger })
    const app = anApp({ eventsPerMinute: 400, eventsPerMonth: 400 })
    await sleeper.limiter.beat()
    const taken = (await sleeper.limiter.take(app, 40, nowMs)) as number
    sleeper.limiter.settle(app, 40, taken)
    // It holds some, and is stopped before it tells that 40 are settled: nothing of it is in the ledger.
    standsStillSinceMs = nowMs
    await pass([watcher], 25_000)
    expect(watcher.notices.join()).toContain('sleeper has died')
    expect(await watcher.limiter.take(app, 400, nowMs)).toBeTypeOf('number')
    expect(nowMs - standsStillSinceMs).toBeLessThan(MINUTE_MS)
    expect(await sleeper.limiter.take(app, 1, nowMs)).toBe('monthly_limit_exceeded')
    await pass([watcher, sleeper], 2000)
    expect(await usedInMonth('demo')).toBe(440)
  })
})

describe('a call that Redis does late', () => {
  it('changes nothing where a newer one was done before it', async () => {
    const [node] = await startNodes(1)
    const app = anApp()
    const send = async (cost: number): Promise<void> => {
      node.limiter.settle(app, cost, (await node.limiter.take(app, cost, nowMs)) as number)
    }
    await send(1)
    node.link.fault = 'late'
    await send(300)
    node.link.fault = 'none'
    await pass([node], 300)
    expect(await usedInMonth('demo')).toBe(301)
    await send(100)
    await node.link.deliver()
    expect(await usedInMonth('demo')).toBe(401)
  })

  it('grants nothing to a node that may be dead by then', async () => {
    const [node] = await startNodes(1)
    await node.limiter.take(anApp(), 1, nowMs)
    node.link.fault = 'late'
    await node.limiter.take(anApp(), 400, nowMs)
    nowMs += 1100
    await node.link.deliver()
    expect(await usedInMonth('demo')).toBe(1)
  })
})

describe('a machine that slept', () => {
  it('trusts nothing that it was granted before, though its clock did not go on', async () => {
    let monotonicMs = 0
    const ledger = { mark: () => 0, storedBy: async () => [] }
    const sleeper = testNode({ client, nodeId: 'sleeper', nowMs: () => nowMs, monotonicMs: () => monotonicMs, ledger })
    const watcher = testNode({ client, nodeId: 'watcher', nowMs: () => nowMs, ledger })
    const app = anApp({ eventsPerMinute: 400, eventsPerMonth: 400 })
    await sleeper.limiter.beat()
    await sleeper.limiter.take(app, 40, nowMs)
    await pass([watcher], 25_000)
    expect(await watcher.limiter.take(app, 400, nowMs)).toBeTypeOf('number')
    monotonicMs += 1
    expect(await sleeper.limiter.take(app, 1, nowMs)).toBe('monthly_limit_exceeded')
  })
})

describe('while Redis is away', () => {
  it('an app that gave back what it took is not forgotten before Redis has heard of it', async () => {
    const [node] = await startNodes(1)
    const app = anApp({ eventsPerMinute: 20, eventsPerMonth: 20 })
    node.link.set(false)
    const taken = (await node.limiter.take(app, 10, nowMs)) as number
    node.limiter.giveBack(app, 10, taken)
    await pass([node], 3 * MINUTE_MS)
    node.link.set(true)
    const again = (await node.limiter.take(app, 10, nowMs)) as number
    node.limiter.settle(app, 10, again)
    await pass([node], 5000)
    expect(await usedInMonth('demo')).toBe(10)
  })

  it('each node goes on with its share, and all is counted when it is back', async () => {
    const nodes = await startNodes(2)
    const app = anApp({ eventsPerMinute: 100, eventsPerDay: 150, eventsPerMonth: 1000 })
    const taken = (await nodes[0].limiter.take(app, 20, nowMs)) as number
    nodes[0].limiter.settle(app, 20, taken)
    await pass(nodes, 2000)
    for (const { link } of nodes) link.set(false)
    expect(nodes.map(({ limiter }) => limiter.isDegraded)).toEqual([true, true])

    // 80 were left: 40 each, which the one that knows of them goes by. The other never heard of the app: 50.
    expect(await exhaust(nodes[0], 1)).toBe(40)
    expect(await exhaust(nodes[1], 1)).toBe(50)
    // The next minute has 50 for each, but of the day's 130 node 0 has taken 40 of 65, and node 1 50 of 75.
    await pass(nodes, MINUTE_MS)
    expect(await exhaust(nodes[0], 1)).toBe(25)
    expect(await exhaust(nodes[1], 1)).toBe(25)
    for (const { notices } of nodes) expect(notices.filter((notice) => notice.includes('away'))).toHaveLength(1)

    for (const { link } of nodes) link.set(true)
    await pass(nodes, 3000)
    expect(await nodes[0].limiter.take(app, 1, nowMs)).toBe('daily_limit_exceeded')
    expect(await usedInMonth('demo')).toBe(20 + 40 + 50 + 25 + 25)
    expect(nodes.map(({ limiter }) => limiter.isDegraded)).toEqual([false, false])
    for (const { notices } of nodes) expect(notices.at(-1)).toBe('limits are counted in Redis again')

    async function exhaust({ limiter }: TestNode, cost: number): Promise<number> {
      let accepted = 0
      for (;;) {
        const takenAtMs = limiter.take(app, cost, nowMs)
        if (takenAtMs instanceof Promise) throw new Error('a request waited for a Redis that is away')
        if (typeof takenAtMs !== 'number') return accepted
        limiter.settle(app, cost, takenAtMs)
        accepted += cost
      }
    }
  })

  it('the first node to come back goes on with its share of all nodes', async () => {
    const nodes = await startNodes(3)
    await nodes[0].limiter.beat()
    expect(nodes[0].limiter.nodes).toBe(3)
    nodes[0].link.set(false)
    nowMs += 20_000
    nodes[0].link.set(true)
    await nodes[0].limiter.beat()
    nodes[0].link.set(false)
    expect(nodes[0].limiter.nodes).toBe(3)
    expect(nodes[0].limiter.take(anApp({ eventsPerMinute: 90 }), 31, nowMs)).toBe('rate_limit_exceeded')
    nodes[0].link.set(true)
    await pass([nodes[0]], 32_000)
    expect(nodes[0].limiter.nodes).toBe(1)
  })

  it('one node alone gives an app no more than its limits', async () => {
    const [node] = await startNodes(1)
    const app = anApp({ eventsPerMinute: 100, eventsPerMonth: 150 })
    const first = (await node.limiter.take(app, 30, nowMs)) as number
    node.limiter.settle(app, 30, first)
    node.link.set(false)
    expect(node.limiter.view(app).remaining).toBe(70)
    expect(node.limiter.take(app, 71, nowMs)).toBe('rate_limit_exceeded')
    expect(node.limiter.take(app, 70, nowMs)).toBeTypeOf('number')
    nowMs += MINUTE_MS
    expect(node.limiter.take(app, 51, nowMs)).toBe('monthly_limit_exceeded')
    expect(node.limiter.take(app, 50, nowMs)).toBeTypeOf('number')
  })

  it('for hours, what is to be told stays small, and comes out right', async () => {
    const [node] = await startNodes(1)
    const app = anApp({ appId: 'demo', eventsPerMonth: 1_000_000 })
    await node.limiter.take(app, 1, nowMs)
    node.link.set(false)
    for (let minute = 0; minute < 600; minute++) {
      nowMs += MINUTE_MS
      const taken = node.limiter.take(app, 5, nowMs)
      if (typeof taken !== 'number') throw new Error(`refused in minute ${minute}`)
      if (minute % 2 === 0) node.limiter.settle(app, 5, taken)
      else node.limiter.giveBack(app, 5, taken)
    }
    node.link.set(true)
    await pass([node], 1100)
    const { windows } = JSON.parse((await client.hget('sluice:{demo}:limits', 'node:node0')) ?? '{}')
    expect(windows.length).toBeLessThan(5)
    expect(await usedInMonth('demo')).toBe(1501)
  })
})

describe('an app that Redis refuses to count', () => {
  it('is told of once, by its id, and again where it fails after it had worked', async () => {
    const [node] = await startNodes(1)
    await client.set('sluice:{bad}:limits', 'no hash')
    const bad = anApp({ appId: 'bad' })
    const good = anApp({ appId: 'good' })
    const send = async (): Promise<void> => {
      for (const app of [bad, good]) node.limiter.settle(app, 1, (await node.limiter.take(app, 1, nowMs)) as number)
      await pass([node], 5000)
    }
    await send()
    await send()
    expect(node.notices).toHaveLength(2)
    expect(node.notices[0]).toMatch(/^Redis refuses to count limits of app bad: .*WRONGTYPE/)
    expect(node.notices[1]).toMatch(/^Redis does not answer for app bad, /)
    await client.del('sluice:{bad}:limits')
    await pass([node], 5000)
    expect(node.notices.slice(2)).toEqual(['limits are counted in Redis again'])
    await client.set('sluice:{bad}:limits', 'no hash')
    await send()
    expect(node.notices.filter((notice) => notice.includes('refuses'))).toHaveLength(2)
  })
})

describe('many apps', () => {
  it('have their turn one after the other, though the first always have something new to tell', async () => {
    const [node] = await startNodes(1)
    const apps = Array.from({ length: 300 }, (_, at) => anApp({ appId: `app${at}` }))
    const takenAtMs = await Promise.all(apps.map(async (app) => (await node.limiter.take(app, 10, nowMs)) as number))
    for (let step = 0; step < 8; step++) {
      for (const [at, app] of apps.entries()) node.limiter.settle(app, 1, takenAtMs[at])
      nowMs += 1000
      node.limiter.sweep()
      await node.limiter.quiet()
    }
    for (const { appId } of apps) {
      const { windows } = JSON.parse((await client.hget(`sluice:{${appId}}:limits`, 'node:node0')) ?? '{}')
      expect(windows[0].settled, appId).toBeGreaterThan(0)
    }
  })
})

describe('by Redis itself, its clock and its connection', () => {
  const app = anApp({ appId: 'demo', eventsPerMinute: 10_000, eventsPerMonth: 1_000_000 })
  const parts = (nodeId: string) => ({
    nodeId,
    timers: systemTimers,
    ledger: null,
    leaseRequests: { granted: 0, refused: 0, failed: 0 },
    onNotice: () => {},
  })

  it('a frozen Redis holds nobody up, and is told all when it wakes', async () => {
    const own = await startRedis()
    const link = openRedis({ url: own.url, onNotice: () => {} })
    try {
      await untilUp(link, 5000)
      const limiter = openRedisLimiter({ link, ...parts('one') })
      let accepted = 0
      const send = async (count: number): Promise<void> => {
        for (let at = 0; at < count; at++) {
          const taken = await limiter.take(app, 1, Date.now())
          if (typeof taken !== 'number') throw new Error(`refused: ${taken}`)
          limiter.settle(app, 1, taken)
          accepted++
        }
      }
      await send(100)
      own.freeze()
      await send(500)
      await eventually('the link notices', () => !link.isUp)
      expect(limiter.isDegraded).toBe(true)
      await send(100)
      own.resume()
      await eventually('limits are counted in Redis again', () => !limiter.isDegraded)
      await send(100)
      await limiter.stop()
      const standing = await readStanding(link, app, Date.now())
      expect(standing).toMatchObject({ month: { used: accepted } })
    } finally {
      await link.stop()
      await own.stop()
    }
  })

  it('a cluster counts as one Redis does', async () => {
    const cluster = await startRedisCluster()
    const address = new URL(cluster.url)
    const clusterClient = new Cluster([{ host: address.hostname, port: Number(address.port) }])
    try {
      const open = (nodeId: string) => openRedisLimiter({ link: new TestLink(clusterClient), ...parts(nodeId) })
      const nodes = [open('node0'), open('node1')]
      const apps = Array.from({ length: 12 }, (_, at) => anApp({ appId: `app${at}`, eventsPerMonth: 50 }))
      const accepted = new Map<string, number>()
      const send = async ({ limiter, one }: { limiter: RedisLimiter; one: App }): Promise<void> => {
        const taken = await limiter.take(one, 1, Date.now())
        if (typeof taken !== 'number') return
        limiter.settle(one, 1, taken)
        accepted.set(one.appId, (accepted.get(one.appId) ?? 0) + 1)
      }
      await Promise.all(
        apps.flatMap((one) => Array.from({ length: 80 }, (_, at) => send({ limiter: nodes[at % 2], one }))),
      )
      for (const limiter of nodes) await limiter.stop()
      const last = open('node2')
      for (const one of apps) for (let at = 0; at < 50; at++) await send({ limiter: last, one })
      await last.stop()
      for (const one of apps) {
        const standing = await readStanding(new TestLink(clusterClient), one, Date.now())
        expect(standing).toMatchObject({ month: { used: 50 } })
        expect(accepted.get(one.appId)).toBe(50)
      }
      const counts = await Promise.all(cluster.nodes.map(({ port }) => limitsAt(port)))
      expect(counts.filter((count) => count > 0).length).toBeGreaterThan(1)
    } finally {
      clusterClient.disconnect()
      await cluster.stop()
    }
  })
})

/** Apps whose limits one server of a cluster holds. */
async function limitsAt(port: number): Promise<number> {
  const one = new Redis(port, '127.0.0.1')
  const keys = await one.keys('sluice:*:limits')
  one.disconnect()
  return keys.length
}
