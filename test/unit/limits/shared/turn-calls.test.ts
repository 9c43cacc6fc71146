// What a node sends to Redis when a link goes down and comes back, or a slot of a cluster is not served.

import { beforeEach, expect, test } from 'vitest'
import { AppBudget } from '../../../../src/limits/shared/app-budget.ts'
import { idempotencyKey } from '../../../../src/limits/shared/take.ts'
import { TurnCalls } from '../../../../src/limits/shared/turn-calls.ts'
import type { Away, CallOptions, RedisClient, RedisLink } from '../../../../src/redis/link.ts'
import { RedisTime } from '../../../../src/redis/time.ts'
import { ManualTimers } from '../../../support/timers.ts'
import { anApp } from '../../apps/apps.ts'

const REMEMBERED_MS = 300_000
const OF_SLOT = { kind: 'CLUSTERDOWN', reason: 'the cluster is down (CLUSTERDOWN)', isOfSlot: true } as const

interface SentCall {
  readonly keys: readonly string[]
  readonly options: CallOptions<unknown>
}

/** Answers no call. As the real one, it is one to a cluster only while it is up. */
class SilentCluster implements RedisLink {
  isUp = true
  readonly sent: SentCall[] = []

  get isCluster(): boolean {
    return this.isUp
  }

  async call<T>(command: (client: RedisClient) => Promise<unknown>, _: unknown, options = {}): Promise<T | Away> {
    const evalsha = async (_digest: string, keyCount: number, ...rest: string[]): Promise<null> => {
      this.sent.push({ keys: rest.slice(0, keyCount), options })
      return null
    }
    await command({ evalsha } as unknown as RedisClient)
    return 'away'
  }

  onChange(): void {}
  async stop(): Promise<void> {}
}

let link: SilentCluster
let timers: ManualTimers
let turnCalls: TurnCalls

beforeEach(() => {
  link = new SilentCluster()
  timers = new ManualTimers()
  turnCalls = new TurnCalls({
    link,
    nodeId: 'n',
    partitions: 16,
    time: new RedisTime(0, 0),
    timers,
    calls: { answered: 0, slow: 0, failed: 0 },
    onFault: (error) => {
      throw error
    },
    onGranted: () => {},
    onLost: () => {},
    onServed: () => {},
  })
})

test('keys that were accepted while a cluster was away are written with one hash slot in each call', async () => {
  link.isUp = false
  const keys = [0, 5, 9].map((partition) => idempotencyKey(partition, `batch of ${partition}`))
  for (const [at, partition] of [0, 5, 9].entries()) turnCalls.accept(partition, keys[at], '1', REMEMBERED_MS)
  link.isUp = true
  turnCalls.resume()
  await timers.pass(0)
  expect(link.sent.map((call) => call.keys)).toEqual(keys.map((key) => [key]))
})

test('what was sent again after a late answer is not added twice where the slot turns out not to be served', async () => {
  const budget = new AppBudget(anApp(), 3)
  budget.correct(0, -7)
  turnCalls.add(budget)
  await timers.pass(0)
  // The wait for a late answer is over: the events are sent again.
  await timers.pass(1000)
  expect(link.sent.length).toBeGreaterThan(1)
  link.sent[0].options.onSlotFault?.(OF_SLOT)
  expect([...budget.corrections]).toEqual([])
})

test('each probe of a slot that is not served asks that slot, also after a probe without an answer', async () => {
  turnCalls.add(new AppBudget(anApp(), 3))
  await timers.pass(0)
  link.sent[0].options.onSlotFault?.(OF_SLOT)
  expect(turnCalls.unserved).toEqual([3])
  for (let probes = 1; probes <= 3; probes++) {
    turnCalls.probe()
    await timers.pass(1000)
    expect(link.sent).toHaveLength(1 + probes)
    expect(link.sent[probes].keys).toContain('sluice:{p3}:fence')
  }
})

test('while no slot is served, at most 100,000 accepted keys wait in all, the newest', async () => {
  for (let partition = 0; partition < 16; partition++) {
    turnCalls.add(new AppBudget(anApp(), partition))
    await timers.pass(0)
    link.sent.at(-1)?.options.onSlotFault?.(OF_SLOT)
  }
  const keyOf = (partition: number, at: number): string => idempotencyKey(partition, `batch ${at}`)
  for (let at = 0; at < 7000; at++)
    for (let partition = 0; partition < 16; partition++)
      turnCalls.accept(partition, keyOf(partition, at), '1', REMEMBERED_MS)
  const waiting = new Set<string>()
  for (let sent = -1; waiting.size > sent; ) {
    sent = waiting.size
    const calls = link.sent.length
    turnCalls.probe()
    await timers.pass(0)
    for (const { keys } of link.sent.slice(calls)) for (const key of keys) if (key.includes('batch')) waiting.add(key)
  }
  expect(waiting.size).toBe(100_000)
  expect([waiting.has(keyOf(15, 6999)), waiting.has(keyOf(15, 0))]).toEqual([true, false])
})
