// Idempotency across nodes, over a real Redis that is frozen, killed and emptied.

import { randomUUID } from 'node:crypto'
import { Redis } from 'ioredis'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Claim } from '../../src/admit/deduplicator.ts'
import type { RedisConnection } from '../../src/admit/redis-connection.ts'
import { systemTimers } from '../../src/lib/timers.ts'
import { openRedisLimiter } from '../../src/admit/redis-limiter.ts'
import type { RedisLink } from '../../src/admit/redis.ts'
import { createRedisDeduplicator, type RedisDeduplicator } from '../../src/admit/redis-deduplicator.ts'
import { batchIdOf } from '../../src/lib/ids.ts'
import { startProxy } from '../support/proxy.ts'
import { type RedisServer, startRedis, startRedisCluster } from '../support/redis.ts'
import { commandCalls, connectedLink } from '../support/redis-nodes.ts'
import { eventually, sleep } from '../support/service.ts'
import { anApp } from '../unit/admit/apps.ts'

const CLAIMED: Claim = { kind: 'claimed', inDoubt: false }
const CLAIMED_IN_DOUBT: Claim = { kind: 'claimed', inDoubt: true }
const replayOf = (events: number) => ({ kind: 'replay', events })
const times = <T>(count: number, value: T): T[] => Array.from({ length: count }, () => value)
const freshId = () => batchIdOf('demo', randomUUID())
const keyOf = (id: string) => `sluice:key:${id}`

let server: RedisServer
let direct: Redis
const toStop: (() => unknown)[] = []

beforeEach(async () => {
  server = await startRedis()
  direct = new Redis(server.url)
  direct.on('error', () => {})
})

afterEach(async () => {
  for (const stop of toStop.splice(0).reverse()) await stop()
  direct.disconnect()
  await server.stop()
})

interface Node {
  readonly id: string
  readonly link: RedisConnection
  readonly keys: RedisDeduplicator
  readonly faults: unknown[]
  claim(id: string): Promise<Claim>
  confirm(id: string, events: number): void
  release(id: string, inDoubt?: boolean): void
}

async function aNode({ url = server.url, maxKeys = 100_000 } = {}): Promise<Node> {
  const link = await connectedLink(url)
  toStop.push(() => link.stop())
  const nodeId = randomUUID().slice(0, 12)
  const faults: unknown[] = []
  const keys = createRedisDeduplicator({
    link,
    nodeId,
    maxKeys,
    onFault: (error) => void faults.push(error),
  })
  return {
    id: nodeId,
    link,
    keys,
    faults,
    claim: async (id) => keys.claim(id, Date.now()),
    confirm: (id, events) => keys.confirm(id, events, Date.now()),
    release: (id, inDoubt = false) => keys.release(id, inDoubt, Date.now()),
  }
}

/** What a promise has come to by now; 'waits': nothing yet. */
async function soFar<T>(promise: Promise<T>, afterMs = 150): Promise<T | 'waits'> {
  return Promise.race([promise, sleep(afterMs).then(() => 'waits' as const)])
}

const isStored = (id: string, events: number) =>
  eventually('Redis has heard', async () => (await direct.get(keyOf(id))) === String(events))

describe('a key on two nodes', () => {
  it('that one has accepted is replayed by the other, with its events, for 300 s', async () => {
    const [a, b] = [await aNode(), await aNode()]
    const id = freshId()
    expect(await a.claim(id)).toEqual(CLAIMED)
    a.confirm(id, 17)
    expect(await b.claim(id)).toEqual(replayOf(17))
    expect(await b.claim(id)).toEqual(replayOf(17))
    expect(await a.claim(id)).toEqual(replayOf(17))
    const leftMs = await direct.pttl(keyOf(id))
    expect(leftMs).toBeGreaterThan(290_000)
    expect(leftMs).toBeLessThanOrEqual(300_000)
  })

  it('makes the other wait, and is replayed there once it is accepted', async () => {
    const [a, b] = [await aNode(), await aNode()]
    const id = freshId()
    expect(await a.claim(id)).toEqual(CLAIMED)
    const twin = b.claim(id)
    expect(await soFar(twin)).toBe('waits')
    a.confirm(id, 3)
    expect(await twin).toEqual(replayOf(3))
  })

  it('passes to the other where it was not accepted', async () => {
    const [a, b] = [await aNode(), await aNode()]
    const id = freshId()
    expect(await a.claim(id)).toEqual(CLAIMED)
    const twin = b.claim(id)
    expect(await soFar(twin)).toBe('waits')
    a.release(id)
    expect(await twin).toEqual(CLAIMED)
    b.confirm(id, 9)
    expect(await a.claim(id)).toEqual(replayOf(9))
  })

  it('is handled once, however many ask at the same moment on either', async () => {
    const nodes = [await aNode(), await aNode(), await aNode()]
    for (let round = 0; round < 20; round++) {
      const id = freshId()
      const asked = Array.from({ length: 12 }, (_, at) => {
        const node = nodes[at % nodes.length]
        return node.claim(id).then(async (claim) => {
          // Some holders fail, and the key passes on.
          if (claim.kind !== 'claimed') return claim
          await sleep(1)
          if (at % 2 === 0) node.release(id)
          else node.confirm(id, 5)
          return at % 2 === 0 ? 'failed' : claim
        })
      })
      const claims = (await Promise.all(asked)).filter((claim) => claim !== 'failed')
      expect(claims.filter(({ kind }) => kind === 'claimed')).toEqual([CLAIMED])
      expect(claims.filter(({ kind }) => kind === 'replay')).toEqual(times(claims.length - 1, replayOf(5)))
    }
  })

  it('is accepted all the same where the claim has run out meanwhile', async () => {
    const [a, b] = [await aNode(), await aNode()]
    const id = freshId()
    await a.claim(id)
    await direct.del(keyOf(id))
    a.confirm(id, 4)
    await isStored(id, 4)
    expect(await b.claim(id)).toEqual(replayOf(4))
  })

  it('is not freed by one whose claim has run out and passed to the other', async () => {
    const [a, b] = [await aNode(), await aNode()]
    const id = freshId()
    await a.claim(id)
    await direct.del(keyOf(id))
    expect(await b.claim(id)).toEqual(CLAIMED)
    a.release(id)
    expect(await soFar(a.claim(id))).toBe('waits')
    b.confirm(id, 1)
  })

  it('of a node that died is free again within 10 s', async () => {
    const [a, b] = [await aNode(), await aNode()]
    const id = freshId()
    await a.claim(id)
    await a.link.stop()
    const startedAtMs = Date.now()
    const twin = b.claim(id)
    expect(await soFar(twin, 1000)).toBe('waits')
    expect(await twin).toEqual(CLAIMED)
    expect(Date.now() - startedAtMs).toBeLessThan(10_000)
  })

  it('keeps the end of its first acceptance where it is confirmed again', async () => {
    const [a, b] = [await aNode(), await aNode()]
    const id = freshId()
    await a.claim(id)
    await direct.set(keyOf(id), '2', 'PX', 100_000)
    a.confirm(id, 2)
    expect(await b.claim(id)).toEqual(replayOf(2))
    expect(await direct.pttl(keyOf(id))).toBeLessThanOrEqual(100_000)
  })
})

describe('a key in doubt', () => {
  it('is free, and both nodes hear of the doubt until it is accepted', async () => {
    const [a, b] = [await aNode(), await aNode()]
    const id = freshId()
    await a.claim(id)
    a.release(id, true)
    expect(await b.claim(id)).toEqual(CLAIMED_IN_DOUBT)
    b.release(id)
    expect(await b.claim(id)).toEqual(CLAIMED_IN_DOUBT)
    b.release(id)
    expect(await a.claim(id)).toEqual(CLAIMED_IN_DOUBT)
    expect(await direct.pttl(keyOf(id))).toBeGreaterThan(290_000)
    a.confirm(id, 1)
    expect(await b.claim(id)).toEqual(replayOf(1))
  })

  it('stays one where the node that claimed it next has died', async () => {
    const [a, b] = [await aNode(), await aNode()]
    const id = freshId()
    await a.claim(id)
    a.release(id, true)
    expect(await b.claim(id)).toEqual(CLAIMED_IN_DOUBT)
    await b.link.stop()
    expect(await (await aNode()).claim(id)).toEqual(CLAIMED_IN_DOUBT)
  })

  it('is known here with Redis away, and to the other node once Redis is back', async () => {
    const [a, b] = [await aNode(), await aNode()]
    const id = freshId()
    await a.claim(id)
    await server.kill()
    await eventually('Redis is away', () => !a.link.isUp && !b.link.isUp)
    a.release(id, true)
    expect(await a.claim(id)).toEqual(CLAIMED_IN_DOUBT)
    a.release(id)
    await server.restart({ empty: true })
    await eventually('Redis is back', () => a.link.isUp && b.link.isUp)
    await eventually('Redis has heard', async () => (await direct.exists(keyOf(id))) === 1)
    expect(await b.claim(id)).toEqual(CLAIMED_IN_DOUBT)
  })

  it('that Redis was told of too late to answer is told again', async () => {
    const [a, b] = [await aNode(), await aNode()]
    const id = freshId()
    await a.claim(id)
    server.freeze()
    a.release(id, true)
    await eventually('Redis is away', () => !a.link.isUp)
    await server.restart({ empty: true })
    await eventually('Redis is back', () => a.link.isUp && b.link.isUp)
    await eventually('Redis has heard', async () => (await direct.exists(keyOf(id))) === 1)
    expect(await b.claim(id)).toEqual(CLAIMED_IN_DOUBT)
  })
})

describe('with Redis away', () => {
  it('a key is claimed here alone, and what is accepted here is replayed here', async () => {
    const a = await aNode()
    const [before, frozen, during] = [freshId(), freshId(), freshId()]
    await a.claim(before)
    a.confirm(before, 1)
    await isStored(before, 1)
    server.freeze()
    expect(await a.claim(frozen)).toEqual(CLAIMED)
    expect(a.link.isUp).toBe(false)
    a.confirm(frozen, 2)
    expect(a.keys.claim(during, Date.now())).toEqual(CLAIMED)
    const twin = a.claim(during)
    expect(await soFar(twin)).toBe('waits')
    a.confirm(during, 3)
    expect(await twin).toEqual(replayOf(3))
    for (const [id, events] of [
      [before, 1],
      [frozen, 2],
      [during, 3],
    ] as const) {
      expect(a.keys.claim(id, Date.now())).toEqual(replayOf(events))
    }
    server.resume()
  })

  it('whoever waits for another node has the key, and the queue decides', async () => {
    const [a, b] = [await aNode(), await aNode()]
    const id = freshId()
    await a.claim(id)
    const twin = b.claim(id)
    expect(await soFar(twin)).toBe('waits')
    await server.kill()
    expect(await twin).toEqual(CLAIMED)
  })

  it('for a while, a claim that Redis comes to late blocks nobody', async () => {
    const [a, b] = [await aNode(), await aNode()]
    const id = freshId()
    await a.claim(freshId())
    server.freeze()
    expect(await a.claim(id)).toEqual(CLAIMED)
    await sleep(2000)
    server.resume()
    await eventually('Redis is back', () => b.link.isUp)
    expect(await soFar(b.claim(id), 1000)).toEqual(CLAIMED)
  })

  it('for a while, a claim that was not answered in time is taken up by the node that made it', async () => {
    const a = await aNode()
    const id = freshId()
    await direct.set(keyOf(id), `c:${Date.now() + 7000}:0:${a.id}:1`, 'PX', 7000)
    expect(await soFar(a.claim(id), 1000)).toEqual(CLAIMED)
  })

  it('for a while, what was accepted meanwhile is replayed by the other node once Redis is back', async () => {
    const [a, b] = [await aNode(), await aNode()]
    const ids = Array.from({ length: 200 }, freshId)
    const [early, ...late] = ids
    expect(await a.claim(early)).toEqual(CLAIMED)
    server.freeze()
    // Accepted before anyone has noticed: this one is on its way to Redis, and lost there.
    a.confirm(early, 7)
    await eventually('Redis is away', () => !a.link.isUp)
    await server.kill()
    for (const id of late) {
      expect(await a.claim(id)).toEqual(CLAIMED)
      a.confirm(id, 7)
    }
    await server.restart()
    await eventually('Redis is back', () => a.link.isUp && b.link.isUp)
    await isStored(ids[199], 7)
    expect(new Set(await Promise.all(ids.map((id) => direct.get(keyOf(id)))))).toEqual(new Set(['7']))
    const leftMs = await direct.pttl(keyOf(ids[199]))
    expect(leftMs).toBeLessThanOrEqual(300_000)
    expect(await b.claim(late[0])).toEqual(replayOf(7))
    expect([a.faults, b.faults]).toEqual([[], []])
  })

  it('for a while, what was accepted is remembered from its acceptance on, not from when Redis hears of it', async () => {
    const a = await aNode()
    const [before, id] = [freshId(), freshId()]
    await Promise.all([a.claim(before), a.claim(id)])
    a.confirm(before, 1)
    await isStored(before, 1)
    server.freeze()
    a.confirm(id, 8)
    await sleep(4000)
    server.resume()
    await isStored(id, 8)
    expect(await direct.pttl(keyOf(id))).toBeLessThan(297_000)
  })

  it('and restarted empty, keys are claimed anew where nobody remembers them', async () => {
    const [a, b] = [await aNode(), await aNode()]
    const id = freshId()
    await a.claim(id)
    a.confirm(id, 6)
    expect(await b.claim(id)).toEqual(replayOf(6))
    await server.restart({ empty: true })
    await eventually('Redis is back', () => a.link.isUp && b.link.isUp)
    expect(await a.claim(id)).toEqual(replayOf(6))
    expect(await b.claim(id)).toEqual(CLAIMED)
  })
})

describe('the cost', () => {
  it('of a keyed request is at most one claim and one confirm, and of nothing it is nothing', async () => {
    const a = await aNode()
    await a.claim(freshId())
    await direct.config('RESETSTAT')
    const ids = Array.from({ length: 200 }, freshId)
    for (const id of ids) {
      expect(await a.claim(id)).toEqual(CLAIMED)
      a.confirm(id, 1)
    }
    const { evalsha, ping = 0 } = await commandCalls(direct)
    // A confirm may go out together with others; the script itself may have to be sent once.
    expect(evalsha).toBeLessThanOrEqual(400)
    expect(evalsha).toBeGreaterThanOrEqual(200)
    await sleep(500)
    await direct.config('RESETSTAT')
    for (const id of ids) expect(await a.claim(id)).toEqual(replayOf(1))
    await sleep(500)
    const { 'config|resetstat': _, ...calls } = await commandCalls(direct)
    expect([calls, ping]).toEqual([{}, 0])
  })

  it('of keys that come together is shared between them', async () => {
    const [a, b] = [await aNode(), await aNode()]
    const ids = Array.from({ length: 200 }, freshId)
    await Promise.all(ids.map((id) => a.claim(id)))
    for (const id of ids) a.confirm(id, 2)
    await Promise.all(ids.map((id) => isStored(id, 2)))
    await direct.config('RESETSTAT')
    expect(await Promise.all(ids.map((id) => b.claim(id)))).toEqual(times(200, replayOf(2)))
    expect((await commandCalls(direct))['evalsha']).toBe(4)
  })
})

describe('a memory that is full', () => {
  it('leaves the keys to Redis', async () => {
    const [a, b] = [await aNode({ maxKeys: 2 }), await aNode({ maxKeys: 2 })]
    const ids = Array.from({ length: 10 }, freshId)
    expect(await Promise.all(ids.map((id) => a.claim(id)))).toEqual(times(10, CLAIMED))
    const twins = ids.map((id) => b.claim(id))
    for (const id of ids.slice(0, 5)) a.confirm(id, 7)
    for (const id of ids.slice(5)) a.release(id)
    expect(await Promise.all(twins)).toEqual([...times(5, replayOf(7)), ...times(5, CLAIMED)])
    expect(await Promise.all(ids.slice(0, 5).map((id) => a.claim(id)))).toEqual(times(5, replayOf(7)))
    expect(a.keys.size).toBeLessThanOrEqual(2)
  })

  it('refuses no key while Redis is away either', async () => {
    const a = await aNode({ maxKeys: 1 })
    await server.kill()
    await eventually('Redis is away', () => !a.link.isUp)
    const ids = [freshId(), freshId()]
    expect(await Promise.all(ids.map((id) => a.claim(id)))).toEqual([CLAIMED, CLAIMED])
    for (const id of ids) a.confirm(id, 1)
  })
})

describe('a key that was released while Redis was away', () => {
  it('is free on other nodes once Redis is back, and not only when its claim runs out', async () => {
    const [a, b] = [await aNode(), await aNode()]
    const id = freshId()
    expect(await a.claim(id)).toEqual(CLAIMED)
    server.freeze()
    // The first call that is not answered tells that Redis is away.
    void a.claim(freshId())
    await eventually('Redis is away', () => !a.link.isUp)
    a.release(id)
    server.resume()
    await eventually('Redis is back', () => a.link.isUp && b.link.isUp)
    // A claim lasts seven seconds.
    expect(await soFar(b.claim(id), 4000)).toEqual(CLAIMED)
  })
})

describe('a key under which something else is stored', () => {
  it('is claimed here alone, and its like in the same call too: the queue decides', async () => {
    const a = await aNode()
    const [id, other] = [freshId(), freshId()]
    await direct.lpush(keyOf(id), 'x')
    expect(await Promise.all([a.claim(id), a.claim(other)])).toEqual([CLAIMED, CLAIMED])
    expect(a.faults).toHaveLength(1)
    a.confirm(id, 1)
    await eventually('the fault is known', () => a.faults.length === 2)
    await direct.del(keyOf(id))
    const next = freshId()
    expect(await a.claim(next)).toEqual(CLAIMED)
    expect(await direct.get(keyOf(next))).toMatch(/^c:/)
  })

  it.each(['abc', 'c:1:2', 'c:x:y:z:1', '-3', '0x10', '5.5', '101', ''])('is free where it is %j', async (planted) => {
    const a = await aNode()
    const id = freshId()
    await direct.set(keyOf(id), planted)
    expect(await a.claim(id)).toEqual(CLAIMED)
    a.confirm(id, 7)
    await eventually('it is accepted', async () => (await direct.get(keyOf(id))) === '7')
    expect(a.faults).toEqual([])
  })
})

describe('on a Redis Cluster', () => {
  it('keys of every slot are claimed, replayed and passed on', async () => {
    const cluster = await startRedisCluster()
    toStop.push(() => cluster.stop())
    const [a, b] = [await aNode({ url: cluster.url }), await aNode({ url: cluster.url })]
    const ids = Array.from({ length: 100 }, freshId)
    expect(await Promise.all(ids.map((id) => a.claim(id)))).toEqual(times(100, CLAIMED))
    const twins = ids.map((id) => b.claim(id))
    for (const id of ids.slice(0, 50)) a.confirm(id, 7)
    for (const id of ids.slice(50)) a.release(id, true)
    expect(await Promise.all(twins)).toEqual([...times(50, replayOf(7)), ...times(50, CLAIMED_IN_DOUBT)])
  })
})

/** Calls of the link's own are left out. */
function counted(link: RedisLink): RedisLink & { calls: number } {
  return {
    calls: 0,
    get isUp() {
      return link.isUp
    },
    call(command) {
      this.calls++
      return link.call(command)
    },
    onChange: (listener) => link.onChange(listener),
    stop: () => link.stop(),
  }
}

describe('what a keyed request waits for', () => {
  it.each([8, 16])('is two calls at most, where Redis is %i ms away', async (delayMs) => {
    const proxy = await startProxy(server.port)
    toStop.push(() => proxy.stop())
    const connection = await connectedLink(`redis://127.0.0.1:${proxy.port}`)
    toStop.push(() => connection.stop())
    proxy.delay(delayMs)
    const link = counted(connection)
    const keys = createRedisDeduplicator({ link, nodeId: 'node', maxKeys: 1000 })
    const limiter = openRedisLimiter({
      link,
      nodeId: 'node',
      timers: systemTimers,
      ledger: null,
      leaseRequests: { granted: 0, refused: 0, failed: 0 },
      onNotice: () => {},
      isManual: true,
    })
    const app = anApp({ eventsPerMinute: 5000, eventsPerMonth: 100_000 })
    expect(await limiter.take(app, 1, Date.now())).toBeTypeOf('number')
    for (let request = 0; request < 5; request++) {
      link.calls = 0
      expect(await keys.claim(freshId(), Date.now())).toEqual(CLAIMED)
      expect(await limiter.take(app, 100, Date.now())).toBeTypeOf('number')
      expect(link.calls).toBeGreaterThan(0)
      expect(link.calls).toBeLessThanOrEqual(2)
    }
    await limiter.stop()
  })

  it('is no text of a script: a server knows them from the start of a session, also after it was emptied', async () => {
    const a = await aNode()
    expect(await a.claim(freshId())).toEqual(CLAIMED)
    expect(await commandCalls(direct)).toMatchObject({ evalsha: 1 })
    expect(await commandCalls(direct)).not.toHaveProperty('eval')
    await server.restart({ empty: true })
    await eventually('Redis is away and back', () => a.link.isUp)
    expect(await a.claim(freshId())).toEqual(CLAIMED)
    expect(await commandCalls(direct)).not.toHaveProperty('eval')
  })

  it('is no text of a script on any node of a cluster', async () => {
    const cluster = await startRedisCluster()
    toStop.push(() => cluster.stop())
    const a = await aNode({ url: cluster.url })
    for (let key = 0; key < 30; key++) expect(await a.claim(freshId())).toEqual(CLAIMED)
    for (const { url } of cluster.nodes) {
      const client = new Redis(url)
      toStop.push(() => client.disconnect())
      const calls = await commandCalls(client)
      expect(calls).toHaveProperty('evalsha')
      expect(calls).not.toHaveProperty('eval')
    }
  })

  it('is the text where a server has forgotten its scripts', async () => {
    const a = await aNode()
    await direct.script('FLUSH')
    expect(await a.claim(freshId())).toEqual(CLAIMED)
    expect(await commandCalls(direct)).toMatchObject({ eval: 1 })
  })
})
