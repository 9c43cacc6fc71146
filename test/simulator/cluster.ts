// The world of one run: the servers, the nodes as they come and go, and what each step of a history does to them.

import type { App } from '../../src/apps/app.ts'
import { type AppRecord, readApp } from '../../src/apps/app-record.ts'
import type { History, Step } from './history.ts'
import type { LuaMachine } from './lua.ts'
import { NatsServer } from './nats-server.ts'
import { SimulatedNode } from './node.ts'
import type { OpenParts } from './parts.ts'
import { Random } from './random.ts'
import { RedisServer } from './redis-server.ts'
import { Trouble } from './trouble.ts'
import type { Path } from './wire.ts'
import { World } from './world.ts'

/** A Redis that answers so late is away by contract; one that is quicker is waited for. */
const AWAY_MS = 250
const SLOW_COST_MS = 50
/** A changed record reaches each node within a second. */
const MAX_RECORD_LAG_MS = 900
const DEFAULT_COST_MS = 0.02

/** A stretch of time in which NATS took less than it could, and nothing else was amiss with it. */
export interface SlowNats {
  readonly fromMs: number
  untilMs: number
  isSpoilt: boolean
}

export class Cluster {
  readonly world: World
  readonly random: Random
  readonly redis: RedisServer
  readonly nats: NatsServer
  readonly openParts: OpenParts
  readonly trouble = new Trouble()
  readonly nodes: SimulatedNode[] = []
  readonly records: AppRecord[]
  /** The newest record of each app, and those before it, with when they came. */
  readonly versions: { readonly atMs: number; readonly app: App }[][]
  readonly slowNats: SlowNats[] = []
  readonly #heals: (() => void)[] = []

  constructor(history: History, lua: LuaMachine, openParts: OpenParts) {
    this.openParts = openParts
    this.world = new World(history.epochMs)
    this.random = new Random(history.seed)
    this.redis = new RedisServer(this.world, lua)
    this.nats = new NatsServer(this.world, this.random.fork())
    this.records = [...history.apps]
    this.versions = this.records.map((record) => [{ atMs: 0, app: appOf(record) }])
    for (let count = 0; count < history.nodes; count++) this.start()
  }

  /** Those that requests are sent to. */
  get ready(): SimulatedNode[] {
    return this.nodes.filter((node) => node.isReady)
  }

  start(): SimulatedNode {
    const apps = this.versions.map((versions) => (versions.at(-1) as { app: App }).app)
    const node = new SimulatedNode(this, this.random.fork(), apps)
    this.nodes.push(node)
    return node
  }

  discard(): void {
    for (const node of this.nodes) node.discard()
  }

  /** Ends every fault that is still on. Gives when the last event loop goes on. */
  heal(): number {
    for (const heal of this.#heals.splice(0)) heal()
    return Math.max(this.world.nowMs, ...this.nodes.map(({ isDead, host }) => (isDead ? 0 : host.stalledUntilMs)))
  }

  apply(step: Step): void {
    switch (step.kind) {
      case 'send':
        throw new Error('clients send')
      case 'start':
        this.start()
        return
      case 'stop':
        this.#live(step.node)?.stop()
        return
      case 'kill':
        this.#live(step.node)?.kill()
        // What it took without Redis is counted by the audit.
        return this.trouble.more(this.world.nowMs)
      case 'stall':
        this.#live(step.node)?.host.stall(step.forMs)
        return
      case 'path':
        return this.#path(step)
      case 'delay':
        return this.#delay(step)
      case 'clock':
        return this.#clock(step)
      case 'plan':
        return this.#plan(step.app, step.record)
      case 'redis snapshot':
        return this.redis.takeSnapshot()
      case 'redis emptied':
        this.redis.values.clear()
        return this.trouble.lose(this.world.nowMs)
      case 'redis rolled back':
        this.redis.rollBack()
        return this.trouble.lose(this.world.nowMs)
      case 'redis killed':
        return this.#killRedis(step.comesBack, step.forMs)
      case 'redis frozen':
        this.redis.freeze()
        return this.#during(step.forMs, step.forMs >= AWAY_MS, () => this.redis.thaw())
      case 'redis slow':
        this.redis.extraCostMs = step.extraMs
        return this.#during(step.forMs, step.extraMs >= SLOW_COST_MS, () => (this.redis.extraCostMs = 0))
      case 'nats slow':
      case 'nats killed':
      case 'nats lost its tail':
      case 'nats frozen':
      case 'nats full':
      case 'nats without leader':
      case 'nats silent':
      case 'acks late':
      case 'acks lost':
        this.#natsFault(step)
    }
  }

  /** A node that runs, whichever the number names; undefined: none does. */
  #live(number: number): SimulatedNode | undefined {
    const live = this.nodes.filter((node) => !node.isDead && !node.isStopping)
    return live[number % live.length]
  }

  /** Heals after so long, or with everything. `isTrouble`: Redis does not answer meanwhile. */
  #during(forMs: number, isTrouble: boolean, heal: () => void): void {
    const { world, trouble } = this
    if (isTrouble) trouble.begin(world.nowMs)
    this.#healAfter(forMs, () => {
      heal()
      if (isTrouble) trouble.end(world.nowMs)
    })
  }

  /** One node takes its share of what was left, and the others do not know of it. */
  #duringOfOne(forMs: number, isTrouble: boolean, heal: () => void): void {
    this.#during(forMs, isTrouble, heal)
    if (isTrouble) this.trouble.more(this.world.nowMs)
  }

  #healAfter(forMs: number, heal: () => void): void {
    let isHealed = false
    const once = (): void => {
      if (isHealed) return
      isHealed = true
      heal()
    }
    this.#heals.push(once)
    this.world.after(forMs, once)
  }

  /** While it lasts no audit can read what is stored. */
  #withoutNats(forMs: number, heal: () => void): void {
    this.trouble.truthAway()
    for (const slow of this.slowNats) if (slow.untilMs > this.world.nowMs) slow.isSpoilt = true
    this.#healAfter(forMs, () => {
      heal()
      this.trouble.truthBack(this.world.nowMs)
    })
  }

  #path({ node, to, state, forMs }: Extract<Step, { kind: 'path' }>): void {
    const found = this.#live(node)
    if (found === undefined) return
    const path = pathOf(found, to)
    path.set(state)
    const heal = (): void => path.set('ok')
    if (to === 'nats') this.#withoutNats(forMs, heal)
    else this.#duringOfOne(forMs, state === 'cut' || forMs >= AWAY_MS, heal)
  }

  #delay({ node, to, extraMs, forMs }: Extract<Step, { kind: 'delay' }>): void {
    const found = this.#live(node)
    if (found === undefined) return
    const path = pathOf(found, to)
    path.extraMs = extraMs
    const heal = (): void => void (path.extraMs = 0)
    if (to === 'nats') this.#withoutNats(forMs, heal)
    else this.#duringOfOne(forMs, 2 * extraMs >= AWAY_MS, heal)
  }

  #clock({ of, byMs }: Extract<Step, { kind: 'clock' }>): void {
    if (of === 'redis') {
      this.redis.clockOffsetMs += byMs
      this.trouble.lose(this.world.nowMs)
      return
    }
    const node = this.#live(of)
    if (node !== undefined) node.host.clockOffsetMs += byMs
  }

  #plan(number: number, change: Partial<AppRecord>): void {
    this.records[number] = { ...this.records[number], ...change }
    const app = appOf(this.records[number])
    this.versions[number].push({ atMs: this.world.nowMs, app })
    for (const node of this.nodes) {
      this.world.after(this.random.int(0, MAX_RECORD_LAG_MS), () => {
        if ((this.versions[number].at(-1) as { app: App }).app === app) node.apps.set(app.appKey, app)
      })
    }
  }

  #killRedis(comesBack: 'with all' | 'rolled back' | 'empty', forMs: number): void {
    this.redis.kill()
    for (const { redisPath } of this.nodes) redisPath.breakAll()
    if (comesBack === 'empty') this.redis.values.clear()
    if (comesBack === 'rolled back') this.redis.rollBack()
    this.#during(forMs, true, () => this.redis.start())
  }

  #natsFault(step: Extract<Step, { kind: `nats ${string}` | `acks ${string}` }>): void {
    const { nats, world } = this
    switch (step.kind) {
      case 'nats slow':
        nats.costMs = 1000 / step.messagesPerSecond
        this.slowNats.push({
          fromMs: world.nowMs,
          untilMs: world.nowMs + step.forMs,
          isSpoilt: this.trouble.isOn(world.nowMs),
        })
        return this.#healAfter(step.forMs, () => (nats.costMs = DEFAULT_COST_MS))
      case 'nats killed':
        return this.#killNats(step.forMs)
      case 'nats lost its tail':
        for (const stream of nats.streams.values()) stream.loseTail(world.nowMs - step.tailMs)
        return this.#killNats(step.forMs)
      case 'nats frozen':
        nats.freeze()
        return this.#withoutNats(step.forMs, () => nats.thaw())
      case 'nats full':
        for (const stream of nats.streams.values()) stream.isFull = true
        return this.#withoutNats(step.forMs, () => {
          for (const stream of nats.streams.values()) stream.isFull = false
        })
      case 'nats without leader':
      case 'nats silent':
        nats.leader = step.kind === 'nats silent' ? 'silent' : 'gone'
        return this.#withoutNats(step.forMs, () => (nats.leader = 'here'))
      case 'acks late':
        nats.ackDelayMs = step.byMs
        return this.#withoutNats(step.forMs, () => (nats.ackDelayMs = 0))
      case 'acks lost':
        nats.ackLossShare = step.share
        return this.#withoutNats(step.forMs, () => (nats.ackLossShare = 0))
    }
  }

  #killNats(forMs: number): void {
    this.nats.kill()
    for (const { natsPath } of this.nodes) natsPath.breakAll()
    this.#withoutNats(forMs, () => this.nats.start())
  }
}

function pathOf(node: SimulatedNode, to: 'redis' | 'nats'): Path {
  return to === 'redis' ? node.redisPath : node.natsPath
}

export function appOf(record: AppRecord): App {
  const read = readApp(record, '')
  if (read.kind === 'mistakes') throw new Error(read.mistakes.join('; '))
  return read.app
}
