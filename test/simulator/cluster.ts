// The servers and nodes of one run, and the effect of each step of a history on them.

import type { App } from '../../src/apps/app.ts'
import { type AppRecord, readApp } from '../../src/apps/app-record.ts'
import { EVENTS_STREAM } from '../../src/nats/store-names.ts'
import { FaultPeriod } from './fault-period.ts'
import type { History, Step } from './history.ts'
import type { LuaMachine } from './lua.ts'
import { NatsServer } from './nats-server.ts'
import { SimulatedNode } from './node.ts'
import type { OpenParts } from './parts.ts'
import { Random } from './random.ts'
import { RedisServer } from './redis-server.ts'
import type { Path } from './wire.ts'
import { World } from './world.ts'

/** From this delay on Redis is away by the contract; a faster answer is waited for. */
const AWAY_MS = 250
const SLOW_COST_MS = 50
/** A changed record reaches each node within a second. */
const MAX_RECORD_LAG_MS = 900
const DEFAULT_COST_MS = 0.02

/** A period in which NATS was slow. `isSpoilt`: it had another fault too. */
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
  readonly faultPeriod = new FaultPeriod()
  readonly nodes: SimulatedNode[] = []
  readonly records: AppRecord[]
  /** Every record of each app, oldest first, with the time of its change. */
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

  /** The nodes that clients send to. */
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

  /** Ends every active fault. Returns when the last stalled event loop continues. */
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
        // The events that it took without Redis are not counted until the audit has read them.
        return this.faultPeriod.addFault(this.world.nowMs)
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
      case 'stream aged':
        return this.nats.streams.get(EVENTS_STREAM)?.age(this.world.nowMs - step.olderThanMs)
      case 'counts lost':
        this.nats.streams.delete('KV_SLUICE_COUNTS')
        return
      case 'app deleted':
        for (const node of this.nodes) node.apps.delete(this.records[step.app].app_key)
        return
      case 'redis snapshot':
        return this.redis.takeSnapshot()
      case 'redis emptied':
        this.redis.values.clear()
        return this.faultPeriod.loseData(this.world.nowMs)
      case 'redis rolled back':
        this.redis.rollBack()
        return this.faultPeriod.loseData(this.world.nowMs)
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

  /** A running node, by the number modulo their count; undefined: none runs. */
  #live(number: number): SimulatedNode | undefined {
    const live = this.nodes.filter((node) => !node.isDead && !node.isStopping)
    return live[number % live.length]
  }

  /** Heals after `forMs`, or at the end. `isFaulty`: Redis does not answer meanwhile. */
  #during(forMs: number, isFaulty: boolean, heal: () => void): void {
    const { world, faultPeriod } = this
    if (isFaulty) faultPeriod.begin(world.nowMs)
    this.#healAfter(forMs, () => {
      heal()
      if (isFaulty) faultPeriod.end(world.nowMs)
    })
  }

  /** A fault of one node: it takes from its share, which the other nodes do not see. */
  #duringOfOne(forMs: number, isFaulty: boolean, heal: () => void): void {
    this.#during(forMs, isFaulty, heal)
    if (isFaulty) this.faultPeriod.addFault(this.world.nowMs)
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

  /** A fault of NATS: no audit can read the stream meanwhile. */
  #withoutNats(forMs: number, heal: () => void): void {
    this.faultPeriod.natsAway()
    for (const slow of this.slowNats) if (slow.untilMs > this.world.nowMs) slow.isSpoilt = true
    this.#healAfter(forMs, () => {
      heal()
      this.faultPeriod.natsBack(this.world.nowMs)
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
      this.faultPeriod.loseData(this.world.nowMs)
      return
    }
    const node = this.#live(of)
    if (node === undefined) return
    node.host.clockOffsetMs += byMs
    // A node whose clock is wrong does not audit, and there may be no other.
    this.#heals.push(() => (node.host.clockOffsetMs = 0))
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
          isSpoilt: this.faultPeriod.isActive(world.nowMs),
        })
        return this.#healAfter(step.forMs, () => (nats.costMs = DEFAULT_COST_MS))
      case 'nats killed':
        return this.#killNats(step.forMs)
      case 'nats lost its tail':
        for (const [name, stream] of nats.streams) {
          if ((step.stream ?? name) === name) stream.loseTail(world.nowMs - step.tailMs)
        }
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
