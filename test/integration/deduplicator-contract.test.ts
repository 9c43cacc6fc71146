// What every deduplicator does, whether it remembers keys in its process or shares them through Redis.

import { randomUUID } from 'node:crypto'
import * as fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Claim, Deduplicator } from '../../src/admit/deduplicator.ts'
import { createMemoryDeduplicator } from '../../src/admit/memory-deduplicator.ts'
import { createRedisDeduplicator } from '../../src/admit/redis-deduplicator.ts'
import { batchIdOf } from '../../src/lib/ids.ts'
import { type RedisServer, startRedis } from '../support/redis.ts'
import { connectedLink } from '../support/redis-nodes.ts'
import { sleep } from '../support/service.ts'

const MAX_KEYS = 100_000
const CLAIMED: Claim = { kind: 'claimed', inDoubt: false }
const CLAIMED_IN_DOUBT: Claim = { kind: 'claimed', inDoubt: true }
const replayOf = (events: number): Claim => ({ kind: 'replay', events })
const freshId = () => batchIdOf('demo', randomUUID())

/** Nodes that share what they know. */
interface Made {
  readonly nodes: readonly Deduplicator[]
  stop(): Promise<void>
}

async function inMemory(): Promise<Made> {
  return { nodes: [createMemoryDeduplicator({ maxKeys: MAX_KEYS })], stop: async () => {} }
}

async function inRedis(count: number): Promise<Made> {
  const server: RedisServer = await startRedis()
  const links = await Promise.all(Array.from({ length: count }, () => connectedLink(server.url, 5000)))
  return {
    nodes: links.map((link) => createRedisDeduplicator({ link, nodeId: randomUUID().slice(0, 12), maxKeys: MAX_KEYS })),
    stop: async () => {
      for (const link of links) await link.stop()
      await server.stop()
    },
  }
}

/** What a promise has come to by now; 'waits': nothing yet. */
async function soFar<T>(promise: Promise<T>, afterMs = 100): Promise<T | 'waits'> {
  return Promise.race([promise, sleep(afterMs).then(() => 'waits' as const)])
}

describe.each([
  { name: 'in memory', make: inMemory },
  { name: 'in Redis, on one node', make: () => inRedis(1) },
  { name: 'in Redis, on three nodes', make: () => inRedis(3) },
])('a deduplicator $name', ({ make }) => {
  let made: Made
  let turn = 0
  beforeAll(async () => {
    made = await make()
  })
  afterAll(() => made.stop())

  /** Each in its turn. */
  const node = (): Deduplicator => made.nodes[turn++ % made.nodes.length]
  const claimOn = async (on: Deduplicator, id: string): Promise<Claim> => on.claim(id, Date.now())

  it('gives a new key to its first claim', async () => {
    expect(await claimOn(node(), freshId())).toEqual(CLAIMED)
  })

  it('replays an accepted key with its events, none included', async () => {
    for (const events of [0, 1, 100]) {
      const [one, other] = [node(), node()]
      const id = freshId()
      await claimOn(one, id)
      one.confirm(id, events, Date.now())
      for (const asked of [one, other, one]) expect(await claimOn(asked, id)).toEqual(replayOf(events))
    }
  })

  it('lets twins wait, and all of them replay it once it is accepted', async () => {
    const one = node()
    const id = freshId()
    await claimOn(one, id)
    const twins = Array.from({ length: 6 }, () => claimOn(node(), id))
    expect(await soFar(Promise.race(twins))).toBe('waits')
    one.confirm(id, 3, Date.now())
    expect(await Promise.all(twins)).toEqual(twins.map(() => replayOf(3)))
  })

  it('passes a key that was not accepted to one twin, and the others wait for that one', async () => {
    const one = node()
    const id = freshId()
    await claimOn(one, id)
    const twins = Array.from({ length: 6 }, () => {
      const on = node()
      return claimOn(on, id).then((claim) => ({ on, claim }))
    })
    expect(await soFar(Promise.race(twins))).toBe('waits')
    one.release(id, false, Date.now())
    const { on, claim } = await Promise.race(twins)
    expect(claim).toEqual(CLAIMED)
    expect(await soFar(Promise.all(twins))).toBe('waits')
    on.confirm(id, 8, Date.now())
    const claims = (await Promise.all(twins)).map((twin) => twin.claim)
    expect(claims.filter(({ kind }) => kind === 'claimed')).toEqual([CLAIMED])
    expect(claims.filter(({ kind }) => kind === 'replay')).toEqual(Array.from({ length: 5 }, () => replayOf(8)))
  })

  it('leaves nothing behind of a key that was released', async () => {
    const id = freshId()
    for (let times = 0; times < 5; times++) {
      const on = node()
      expect(await claimOn(on, id)).toEqual(CLAIMED)
      on.release(id, false, Date.now())
    }
  })

  it('tells of a doubt until the key is accepted, whoever claims it and fails meanwhile', async () => {
    const id = freshId()
    const one = node()
    expect(await claimOn(one, id)).toEqual(CLAIMED)
    const twin = claimOn(one, id)
    one.release(id, true, Date.now())
    expect(await twin).toEqual(CLAIMED_IN_DOUBT)
    one.release(id, false, Date.now())
    for (let times = 0; times < 3; times++) {
      const on = node()
      expect(await claimOn(on, id)).toEqual(CLAIMED_IN_DOUBT)
      on.release(id, false, Date.now())
    }
    const last = node()
    await claimOn(last, id)
    last.confirm(id, 2, Date.now())
    expect(await claimOn(node(), id)).toEqual(replayOf(2))
  })

  it('takes a key from its holder alone: anything else is a fault', () => {
    expect(() => node().confirm(freshId(), 1, Date.now())).toThrow('not in flight')
    expect(() => node().release(freshId(), false, Date.now())).toThrow('not in flight')
  })

  it('has each key handled by one request at a time, and accepted once, whatever fails', async () => {
    // Each request: its key, how long it takes, and whether it is accepted, refused, or refused in doubt.
    const request = fc.record({
      key: fc.nat(3),
      afterMs: fc.nat(5),
      takesMs: fc.nat(5),
      end: fc.constantFrom('accepted', 'refused', 'in doubt'),
    })
    await fc.assert(
      fc.asyncProperty(fc.array(request, { minLength: 1, maxLength: 30 }), async (requests) => {
        const ids = Array.from({ length: 4 }, freshId)
        const holders = [0, 0, 0, 0]
        const accepted: (number | null)[] = [null, null, null, null]
        const doubts = new Set<number>()
        await Promise.all(
          requests.map(async ({ key, afterMs, takesMs, end }, at) => {
            const on = made.nodes[at % made.nodes.length]
            await sleep(afterMs)
            const claim = await claimOn(on, ids[key])
            if (claim.kind === 'replay') {
              expect(claim.events).toBe(accepted[key])
              return
            }
            expect([accepted[key], ++holders[key], claim]).toEqual([
              null,
              1,
              { kind: 'claimed', inDoubt: doubts.has(key) },
            ])
            await sleep(takesMs)
            holders[key]--
            if (end === 'in doubt') doubts.add(key)
            if (end === 'accepted') accepted[key] = at
            if (end === 'accepted') on.confirm(ids[key], at, Date.now())
            else on.release(ids[key], end === 'in doubt', Date.now())
          }),
        )
      }),
      { numRuns: 60, interruptAfterTimeLimit: 30_000, markInterruptAsFailure: false },
    )
  })
})
