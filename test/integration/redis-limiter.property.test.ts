// Nodes over one real Redis against a naive model, in a time that the test sets: nodes take, settle, give back, crash,
// are cut off, miss answers, and call late. Redis is emptied now and then.

import type { Redis } from 'ioredis'
import * as fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { App } from '../../src/admit/app.ts'
import { DEAD_AFTER_MS } from '../../src/admit/nodes.ts'
import { cycleAt } from '../../src/admit/plans.ts'
import { readStanding } from '../../src/admit/read-standing.ts'
import type { StoredRecord } from '../../src/admit/reclaim.ts'
import { connect, type LinkFault, type TestNode, testNode } from '../support/limiters.ts'
import { type RedisServer, startRedis } from '../support/redis.ts'
import { anApp } from '../unit/admit/apps.ts'

const SEED = Number(process.env['SLUICE_TEST_SEED'] ?? Date.now() % 1_000_000)
const RUNS = Number(process.env['SLUICE_TEST_RUNS'] ?? 60)
const START_MS = Date.UTC(2026, 10, 29, 23, 57, 30)
const MINUTE_MS = 60_000
const NODES = 3
const BEAT_EVERY_MS = 5000
const ANCHORS = [null, Date.UTC(2026, 10, 30, 0, 1, 30)]

let server: RedisServer
let client: Redis
beforeAll(async () => {
  server = await startRedis()
  client = connect(server.url)
})
afterAll(async () => {
  client.disconnect()
  await server.stop()
})

interface Taken {
  readonly node: string
  readonly app: App
  readonly cost: number
  readonly atMs: number
  state: 'in flight' | 'settled' | 'given back'
  /** Stored before its node crashed, though the node never heard so. */
  mark: number
}

const anyNode = fc.nat(NODES - 1)
const anyApp = fc.nat(ANCHORS.length - 1)
const take = fc.record({
  kind: fc.constant('take' as const),
  node: anyNode,
  app: anyApp,
  cost: fc.integer({ min: 1, max: 12 }),
})
const burst = fc.record({ kind: fc.constant('burst' as const), node: anyNode, app: anyApp, count: fc.nat(15) })
const settle = fc.record({ kind: fc.constant('settle' as const), which: fc.nat(1000) })
const giveBack = fc.record({ kind: fc.constant('give back' as const), which: fc.nat(1000) })
const step = fc.record({
  kind: fc.constant('step' as const),
  byMs: fc.constantFrom(1, 90, 250, 1000, 1000, 3000, 20_000, MINUTE_MS),
})
const sweep = fc.record({ kind: fc.constant('sweep' as const), node: anyNode })
const beat = fc.record({ kind: fc.constant('beat' as const), node: anyNode })
const fault = fc.record({
  kind: fc.constant('fault' as const),
  node: anyNode,
  fault: fc.constantFrom<LinkFault>('none', 'none', 'unsent', 'unanswered', 'late'),
})
/** What is taken and stored while Redis is away, and whether the node is heard before it tells of it. */
const outage = fc.record({
  kind: fc.constant('outage' as const),
  node: anyNode,
  app: anyApp,
  fault: fc.constantFrom<LinkFault>('unsent', 'unanswered'),
  isSwept: fc.boolean(),
  isHeard: fc.boolean(),
})
const deliver = fc.record({ kind: fc.constant('deliver' as const), node: anyNode })
const crash = fc.record({ kind: fc.constant('crash' as const), node: anyNode, stored: fc.nat(3) })

/** Everything that nodes do, and what is true of it. */
class World {
  nowMs = START_MS
  readonly apps: readonly App[]
  readonly taken: Taken[] = []
  readonly stored: (StoredRecord & { node: string })[] = []
  readonly nodes: TestNode[] = []
  readonly names: string[] = []
  readonly crashed: string[] = []
  readonly heardAtMs: number[] = []
  mark = 0
  started = 0

  constructor(limits: Partial<App>) {
    this.apps = ANCHORS.map((billingAnchorMs, at) => anApp({ appId: `app${at}`, billingAnchorMs, ...limits }))
  }

  async startAll(): Promise<this> {
    for (let at = 0; at < NODES; at++) await this.start(at)
    return this
  }

  /** Heard once: what a node of which Redis never heard had stored is counted by nobody. */
  async start(at: number): Promise<void> {
    const name = `node${this.started++}`
    this.names[at] = name
    this.nodes[at] = testNode({
      client,
      nodeId: name,
      nowMs: () => this.nowMs,
      ledger: {
        mark: () => this.mark,
        storedBy: async (nodeId, afterMark) =>
          this.stored.filter(({ node, mark }) => node === nodeId && mark > afterMark),
      },
    })
    await this.beat(at)
  }

  async take(at: number, app: App, cost: number): Promise<void> {
    const node = this.names[at]
    const atMs = await this.nodes[at].limiter.take(app, cost, this.nowMs)
    if (typeof atMs === 'number') this.taken.push({ node, app, cost, atMs, state: 'in flight', mark: 0 })
  }

  store(one: Taken): void {
    one.mark = ++this.mark
    this.stored.push({ appId: one.app.appId, cost: one.cost, receivedAtMs: one.atMs, mark: one.mark, node: one.node })
  }

  inFlight(): Taken[] {
    return this.taken.filter(({ state, node }) => state === 'in flight' && !this.crashed.includes(node))
  }

  settle(one: Taken): void {
    this.store(one)
    one.state = 'settled'
    this.nodes[this.names.indexOf(one.node)].limiter.settle(one.app, one.cost, one.atMs)
  }

  settleAll(): void {
    for (const one of this.inFlight()) this.settle(one)
  }

  /** What counts, by the requests themselves. */
  sum(app: App, holds: (timeMs: number) => boolean): number {
    return this.taken
      .filter((one) => one.app.appId === app.appId && one.state !== 'given back' && holds(one.atMs))
      .reduce((total, { cost }) => total + cost, 0)
  }

  spent(app: App): { minute: number; day: number; month: number } {
    const cycle = cycleAt(app.billingAnchorMs, this.nowMs)
    const same = (lengthMs: number) => (timeMs: number) =>
      Math.floor(timeMs / lengthMs) === Math.floor(this.nowMs / lengthMs)
    return {
      minute: this.sum(app, same(MINUTE_MS)),
      day: this.sum(app, same(86_400_000)),
      month: this.sum(app, (timeMs) => cycle.startMs <= timeMs && timeMs < cycle.endMs),
    }
  }

  /** Nodes beat by themselves. */
  async pass(forMs: number): Promise<void> {
    for (const endMs = this.nowMs + forMs; this.nowMs < endMs; ) {
      this.nowMs = Math.min(endMs, this.nowMs + BEAT_EVERY_MS)
      if (forMs < 1000) continue
      for (const at of this.nodes.keys()) await this.beat(at)
    }
  }

  async beat(at: number): Promise<void> {
    const { link, limiter } = this.nodes[at]
    await limiter.beat()
    await limiter.quiet()
    if (link.fault === 'none') this.heardAtMs[at] = this.nowMs
  }

  /**
   * What a node stores after others took it for dead is counted once it is heard again: one that was cut off for so
   * long does not die before that.
   */
  async beHeard(at: number): Promise<void> {
    if (this.nowMs - this.heardAtMs[at] < DEAD_AFTER_MS - BEAT_EVERY_MS) return
    const { link, limiter } = this.nodes[at]
    const { fault } = link
    link.fault = 'none'
    await link.deliver()
    await this.beat(at)
    for (let round = 0; round < 2; round++) {
      limiter.sweep()
      await limiter.quiet()
    }
    link.fault = fault
  }

  /** Every node has told all that it has to tell, and nothing is in hand. */
  async calm(): Promise<void> {
    for (let round = 0; round < 4; round++) {
      this.nowMs += 1100
      for (const { limiter } of this.nodes) limiter.sweep()
      for (const { limiter } of this.nodes) await limiter.quiet()
    }
  }

  /** Long enough for crashed nodes to be found, and what they held to be taken back. */
  async mourn(): Promise<void> {
    for (let beat = 0; beat < 50; beat++) {
      this.nowMs += 1000
      for (const at of this.nodes.keys()) await this.beat(at)
    }
  }
}

type Action =
  | { kind: 'take'; node: number; app: number; cost: number }
  | { kind: 'burst'; node: number; app: number; count: number }
  | { kind: 'settle'; which: number }
  | { kind: 'give back'; which: number }
  | { kind: 'step'; byMs: number }
  | { kind: 'sweep'; node: number }
  | { kind: 'beat'; node: number }
  | { kind: 'fault'; node: number; fault: LinkFault }
  | { kind: 'outage'; node: number; app: number; fault: LinkFault; isSwept: boolean; isHeard: boolean }
  | { kind: 'deliver'; node: number }
  | { kind: 'crash'; node: number; stored: number }

async function perform(world: World, action: Action): Promise<void> {
  switch (action.kind) {
    case 'take':
      return world.take(action.node, world.apps[action.app], action.cost)
    case 'burst': {
      const takes = Array.from({ length: action.count }, () => world.take(action.node, world.apps[action.app], 2))
      await Promise.all(takes)
      return
    }
    case 'settle': {
      const one = world.inFlight()[action.which % Math.max(1, world.inFlight().length)]
      if (one === undefined) return
      return world.settle(one)
    }
    case 'give back': {
      const one = world.inFlight()[action.which % Math.max(1, world.inFlight().length)]
      if (one === undefined) return
      one.state = 'given back'
      world.nodes[world.names.indexOf(one.node)].limiter.giveBack(one.app, one.cost, one.atMs)
      return
    }
    case 'step':
      return world.pass(action.byMs)
    case 'sweep':
      world.nodes[action.node].limiter.sweep()
      return world.nodes[action.node].limiter.quiet()
    case 'beat':
      return world.beat(action.node)
    case 'fault':
      world.nodes[action.node].link.fault = action.fault
      return
    case 'outage': {
      const { link, limiter } = world.nodes[action.node]
      const { fault } = link
      link.fault = action.fault
      await world.take(action.node, world.apps[action.app], 3)
      if (action.isSwept) limiter.sweep()
      await limiter.quiet()
      for (const one of world.inFlight()) if (one.node === world.names[action.node]) world.settle(one)
      link.fault = 'none'
      if (action.isHeard) await world.beat(action.node)
      link.fault = fault
      return
    }
    case 'deliver':
      return world.nodes[action.node].link.deliver()
    case 'crash': {
      await world.beHeard(action.node)
      const name = world.names[action.node]
      // Of what was in flight some was stored, though the node did not live to hear it.
      for (const [at, one] of world
        .inFlight()
        .filter(({ node }) => node === name)
        .entries()) {
        if (at < action.stored) world.store(one)
        one.state = at < action.stored ? 'settled' : 'given back'
      }
      world.crashed.push(name)
      return world.start(action.node)
    }
  }
}

const limits = fc.record({
  eventsPerMinute: fc.constantFrom(20, 60),
  eventsPerDay: fc.constantFrom(null, 50, 100),
  eventsPerMonth: fc.constantFrom(80, 200),
})

/** At the end: everybody tells, the dead are found, and what is in flight lands. */
async function end(world: World): Promise<void> {
  for (const { link } of world.nodes) {
    link.fault = 'none'
    await link.deliver()
  }
  world.settleAll()
  await world.calm()
  await world.mourn()
  await world.calm()
}

async function counted(world: World, app: App): Promise<unknown> {
  const standing = await readStanding(world.nodes[0].link, app, world.nowMs)
  if (standing === 'away') throw new Error('the link is down')
  return { minute: standing.minute.used, day: standing.day.used, month: standing.month.used }
}

async function totals(app: App, world: World): Promise<unknown> {
  const stored = JSON.parse((await client.hget(`sluice:{${app.appId}}:limits`, 'totals')) ?? 'null')
  const cycle = cycleAt(app.billingAnchorMs, world.nowMs)
  return stored?.cycles.find((one: { startMs: number }) => one.startMs === cycle.startMs)?.used ?? 0
}

describe(`nodes over one Redis (seed ${SEED})`, () => {
  it('are never over a limit while Redis answers, and right to the event at the end', async () => {
    const actions = fc.array(
      fc.oneof(take, take, burst, burst, settle, settle, giveBack, step, step, sweep, beat, crash),
      {
        maxLength: 80,
      },
    )
    await fc.assert(
      fc.asyncProperty(limits, actions, async (figures, sequence) => {
        await client.flushall()
        const world = await new World(figures).startAll()
        for (const action of sequence) {
          await perform(world, action)
          for (const app of world.apps) {
            const { minute, day, month } = world.spent(app)
            expect(minute).toBeLessThanOrEqual(app.eventsPerMinute)
            expect(day).toBeLessThanOrEqual(app.eventsPerDay ?? Number.POSITIVE_INFINITY)
            expect(month).toBeLessThanOrEqual(app.eventsPerMonth)
          }
        }
        await end(world)
        for (const app of world.apps) {
          expect(await counted(world, app)).toEqual(world.spent(app))
          expect(await totals(app, world)).toBe(world.spent(app).month)
        }
      }),
      { numRuns: RUNS, seed: SEED },
    )
  })

  it('count each event once, whatever calls are lost, late or unheard, and whoever dies meanwhile', async () => {
    const actions = fc.array(
      fc.oneof(
        take,
        take,
        burst,
        settle,
        settle,
        giveBack,
        step,
        step,
        sweep,
        sweep,
        beat,
        fault,
        fault,
        outage,
        outage,
        deliver,
        crash,
      ),
      { maxLength: 80 },
    )
    await fc.assert(
      fc.asyncProperty(limits, actions, async (figures, sequence) => {
        await client.flushall()
        const world = await new World(figures).startAll()
        for (const action of sequence) await perform(world, action)
        await end(world)
        for (const app of world.apps) {
          // Of one that Redis had never heard of it knows no cycle: what a dead node stored is counted at its next call.
          if ((await client.hexists(`sluice:{${app.appId}}:limits`, 'totals')) === 0) continue
          expect(await counted(world, app)).toEqual(world.spent(app))
          expect(await totals(app, world)).toBe(world.spent(app).month)
        }
      }),
      { numRuns: RUNS, seed: SEED },
    )
  })

  it('together remember what a Redis that came back empty has lost', async () => {
    const actions = fc.array(fc.oneof(take, take, burst, settle, settle, giveBack, step, sweep, beat), {
      maxLength: 30,
    })
    await fc.assert(
      fc.asyncProperty(limits, actions, actions, fc.boolean(), async (figures, before, after, isSettled) => {
        await client.flushall()
        const world = await new World(figures).startAll()
        for (const action of before) await perform(world, action)
        if (isSettled) {
          world.settleAll()
          world.nowMs += MINUTE_MS
        }
        await world.calm()
        await client.flushall()
        for (const action of after) await perform(world, action)
        // Nodes tell what they know as soon as they have something to ask for.
        for (const at of world.nodes.keys()) for (const app of world.apps) await world.take(at, app, 1)
        await end(world)
        for (const app of world.apps) {
          expect(await counted(world, app)).toEqual(world.spent(app))
          expect(await totals(app, world)).toBe(world.spent(app).month)
        }
      }),
      { numRuns: RUNS, seed: SEED },
    )
  })
})
