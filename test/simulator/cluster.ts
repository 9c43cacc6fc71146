// The servers and nodes of one run, and the effect of each step of a history on them.

import type { App } from '../../src/apps/app.ts'
import { type AppRecord, readApp } from '../../src/apps/app-record.ts'
import { STORE_NAMES, STREAM_OF } from '../../src/installation/record.ts'
import { FaultPeriod } from './fault-period.ts'
import type { History, Step } from './history.ts'
import { SimulatedDisk } from './journal/disk.ts'
import { SimulatedFolder } from './journal/files.ts'
import { Machine } from './journal/machine.ts'
import { appsBucket, Losses } from './losses.ts'
import type { LuaMachine } from './lua.ts'
import { Replicas } from './nats-replicas.ts'
import { NatsServer } from './nats-server.ts'
import { SimulatedNode } from './node.ts'
import { type OpenParts, SPOOL_FOLDER } from './parts.ts'
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
/** A node learns with its second heartbeat of those that started with it. */
const KNOWS_OTHERS_MS = 1500
/** Between two looks whether a process has stopped. */
const STOP_LOOK_MS = 20
/** Whoever watches the process starts it again. */
const RESTART_MS = 1000
/** From here on a node does not audit. */
const SKEWED_MS = 30_000

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
  /** When nodes were killed. */
  readonly kills: number[] = []
  readonly losses: Losses
  /** Of a history of one machine, which has neither Redis nor NATS. */
  readonly machine: Machine | null
  /** In the order in which nodes took them first. */
  readonly spoolDisks: SimulatedDisk[] = []
  /** Lines that are durable in a spool. */
  onSpooled: (lines: Buffer) => void = () => {}
  readonly #hasSpools: boolean
  readonly #isSynced: boolean
  readonly #heals: (() => void)[] = []
  /** The last message of a delayed path has come by then. */
  #delayedUntilMs = 0

  constructor(history: History, lua: LuaMachine, openParts: OpenParts) {
    this.world = new World(history.epochMs)
    this.#hasSpools = history.hasSpools === true
    this.#isSynced = history.isSynced === true
    this.random = new Random(history.seed)
    this.machine = history.isOneMachine ? new Machine(history, this.world, new Random(history.seed + 3)) : null
    this.openParts = this.machine?.openParts ?? openParts
    if (this.machine !== null) this.machine.notices = () => this.nodes.flatMap(({ notices }) => notices)
    if (this.machine !== null) this.machine.onEnded = () => this.world.after(RESTART_MS, () => this.#startAgain())
    this.redis = new RedisServer(this.world, lua)
    // Of its own, so that no other number of an older history changes.
    const replicas = new Replicas(this.world, new Random(history.seed + 2))
    this.nats = new NatsServer(this.world, this.random.fork(), replicas)
    this.records = [...history.apps]
    this.versions = this.records.map((record) => [{ atMs: 0, app: appOf(record) }])
    this.losses = new Losses(this.nats)
    this.nats.streams.set(STREAM_OF.apps, appsBucket(this.records.map(({ app_key }) => app_key)))
    for (let count = 0; count < history.nodes; count++) this.start()
  }

  /** The nodes that clients send to. */
  get ready(): SimulatedNode[] {
    return this.nodes.filter((node) => node.isReady)
  }

  start(): SimulatedNode {
    this.faultPeriod.nodeStarts(this.world.nowMs)
    const apps = this.versions.map((versions) => (versions.at(-1) as { app: App }).app)
    const spoolDisk = this.#freeDisk()
    const node = new SimulatedNode(
      { ...this.#servers(), spoolDisk, isSynced: this.#isSynced },
      this.random.fork(),
      apps,
    )
    this.nodes.push(node)
    return node
  }

  #servers() {
    const { world, redis, nats, openParts } = this
    return { world, redis, nats, openParts }
  }

  /** A node that starts takes the disk of one that is gone. */
  #freeDisk(): SimulatedDisk | null {
    if (!this.#hasSpools) return null
    const free = this.spoolDisks.find((disk) => !this.nodes.some((node) => !node.isDead && node.spoolDisk === disk))
    if (free !== undefined) return free
    const disk = new SimulatedDisk(this.world, this.random.fork())
    disk.folders.set(SPOOL_FOLDER, new SimulatedFolder())
    disk.onStored = (lines) => this.onSpooled(lines)
    this.spoolDisks.push(disk)
    return disk
  }

  /** Starts a node on each disk that has none. */
  startOnDisks(): void {
    while (this.spoolDisks.some((disk) => !this.nodes.some((node) => !node.isDead && node.spoolDisk === disk)))
      this.start()
  }

  discard(): void {
    for (const node of this.nodes) node.discard()
  }

  /** Ends every active fault. Returns when the last stalled event loop continues, and what was delayed has come. */
  heal(): number {
    for (const heal of this.#heals.splice(0)) heal()
    return Math.max(
      this.world.nowMs,
      this.#delayedUntilMs,
      ...this.nodes.map(({ isDead, host }) => (isDead ? 0 : host.stalledUntilMs)),
    )
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
        this.kills.push(this.world.nowMs)
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
        this.losses.mayBeTold('stream')
        return this.nats.streams.get(STREAM_OF.stream)?.age(this.world.nowMs - step.olderThanMs)
      case 'stream lost':
      case 'counts lost':
      case 'apps lost':
        return this.losses.deleteStore(
          step.kind === 'stream lost' ? 'stream' : step.kind === 'apps lost' ? 'apps' : 'counts',
        )
      case 'app deleted':
        for (const node of this.nodes) node.apps.delete(this.records[step.app].app_key)
        return
      case 'redis snapshot':
        return this.redis.takeSnapshot()
      case 'redis emptied':
        this.redis.values.clear()
        return this.#redisForgot()
      case 'redis rolled back':
        this.redis.rollBack()
        return this.#redisForgot()
      case 'redis killed':
        return this.#killRedis(step.comesBack, step.forMs)
      case 'redis frozen':
        this.redis.freeze()
        return this.#during(step.forMs, step.forMs >= AWAY_MS, () => this.redis.thaw())
      case 'redis slow':
        this.redis.extraCostMs = step.extraMs
        return this.#during(step.forMs, step.extraMs >= SLOW_COST_MS, () => (this.redis.extraCostMs = 0))
      case 'process killed':
      case 'power cut':
        this.machine?.disk.crashAt(step.operations, () => this.#crash(step.kind === 'power cut', step.forMs))
        this.#heals.push(() => this.machine?.disk.crashAt(0, null))
        return
      case 'process stopped':
        this.#live(0)?.stop()
        return this.#healAfter(step.forMs, () => this.#startAgain())
      case 'disk slow':
      case 'disk full':
      case 'disk fails':
      case 'sync lies':
      case 'stray bytes':
      case 'segment cut':
      case 'bit flips': {
        const heal = this.machine?.apply(step) ?? null
        return heal === null ? undefined : this.#healAfter('forMs' in step ? step.forMs : 0, heal)
      }
      case 'server cut':
      case 'server behind': {
        if (!this.nats.setApart(step.place, step.kind === 'server cut' ? 'cut' : 'behind')) return
        return this.#withoutNats(step.forMs, () => this.nats.rejoin())
      }
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
    if (isFaulty) faultPeriod.begin(world.nowMs, this.#young())
    this.#healAfter(forMs, () => {
      heal()
      if (isFaulty) faultPeriod.end(world.nowMs)
    })
  }

  #young(): number {
    return this.nodes.filter(({ isDead, host }) => !isDead && host.ageMs < KNOWS_OTHERS_MS).length
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
      this.losses.faultEnds()
    }
    this.losses.faultBegins()
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
    const heal = (): void => {
      path.extraMs = 0
      this.#delayedUntilMs = Math.max(this.#delayedUntilMs, this.world.nowMs + extraMs)
    }
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
    // Until its clock is right nobody writes what Redis has lost.
    if (!this.nodes.some(({ host }) => !host.isDead && Math.abs(host.clockOffsetMs) < SKEWED_MS)) {
      this.faultPeriod.natsAway()
      this.#heals.push(() => this.faultPeriod.natsBack(this.world.nowMs))
    }
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
    if (comesBack !== 'with all') this.losses.redisForgets()
    if (comesBack === 'empty') this.redis.values.clear()
    if (comesBack === 'rolled back') this.redis.rollBack()
    this.#during(forMs, true, () => this.redis.start())
    if (comesBack !== 'with all') this.faultPeriod.forgets()
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
        for (const store of STORE_NAMES) {
          if ((step.stream ?? STREAM_OF[store]) === STREAM_OF[store])
            this.losses.loseTail(store, world.nowMs - step.tailMs)
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

  #crash(isPowerCut: boolean, forMs: number): void {
    for (const node of this.nodes) node.kill()
    if (isPowerCut) this.machine?.disk.powerFailed()
    this.#healAfter(forMs, () => this.#startAgain())
  }

  /** Of the one process of a machine: there is never a second one. */
  #startAgain(): void {
    if (this.nodes.every(({ isDead }) => isDead)) this.start()
    else if (this.nodes.some(({ isDead, isStopping }) => !isDead && isStopping))
      this.world.after(STOP_LOOK_MS, () => this.#startAgain())
  }

  #redisForgot(): void {
    this.faultPeriod.loseData(this.world.nowMs)
    this.losses.redisForgets()
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
