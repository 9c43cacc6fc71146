// Limits and keys of many nodes. An app that sends fast spends from a bucket that this node holds; every other request
// joins the one call to Redis of its turn. While Redis is away each node goes on with its share of what was left.

import type { App } from '../../admit/app.ts'
import { type LimitRefusal, secondsUntilRoom, type Standing } from '../../admit/limiter.ts'
import { createMemoryDeduplicator, type MemoryDeduplicator } from '../../admit/memory-deduplicator.ts'
import { MINUTE_MS } from '../../admit/plans.ts'
import type { RedisLink } from '../../admit/redis.ts'
import { RedisTime } from '../../admit/redis-time.ts'
import { IDEMPOTENCY_WINDOW_SECONDS } from '../../admit/deduplicator.ts'
import { sleep, type Timer, type Timers } from '../../lib/timers.ts'
import type { RateLimitView } from '../../outcome.ts'
import { partitionOf } from '../../queue/stream.ts'
import type { Admission, Admitted, Charge, End } from '../admission.ts'
import { beat, leave } from './nodes.ts'
import { Room, type TakeOutcome } from './room.ts'
import { readStanding, standingOf } from './standing.ts'
import { ANSWER, idempotencyKey } from './take.ts'
import { Turns } from './turns.ts'

const WINDOW_MS = IDEMPOTENCY_WINDOW_SECONDS * 1000
const BEAT_MS = 1000
/** An app that sent nothing for so long has gone quiet: its bucket goes back. */
const QUIET_MS = 1000
const FORGOTTEN_AFTER_MS = 600_000
const FORGOTTEN_A_BEAT = 5000
/** Between looks at a key that another node holds: the first, and the longest. */
const POLL_MS = { first: 10, longest: 50 } as const
/** A key may pass from one failing request to the next; whoever has waited for so long is answered 503. */
const MAX_WAIT_MS = 20_000
/** A take is asked again where Redis's minute is of another billing cycle, or the app's record has changed. */
const MAX_TRIES = 4

const OVERLOADED: Admitted = { kind: 'overloaded' }
const REFUSALS: Readonly<Record<number, LimitRefusal>> = {
  [ANSWER.month]: 'monthly_limit_exceeded',
  [ANSWER.day]: 'daily_limit_exceeded',
  [ANSWER.minute]: 'rate_limit_exceeded',
}

export interface SharedAdmissionOptions {
  readonly link: RedisLink
  /** Of this process alone, and new at each start. */
  readonly nodeId: string
  readonly partitions: number
  /** Most keys accepted here in the last 300 s and in flight that this process itself knows. */
  readonly maxKeys: number
  readonly seed: number
  readonly timers: Timers
  /** Calls for limits and keys by how they ended; added to. */
  readonly calls: { answered: number; slow: number; failed: number }
  /** Redis refused a call: the requests in it went on without it. */
  readonly onFault: (error: unknown) => void
}

export class SharedAdmission implements Admission {
  readonly #options: SharedAdmissionOptions
  readonly #memory: MemoryDeduplicator
  readonly #time: RedisTime
  readonly #turns: Turns
  readonly #rooms = new Map<string, Room>()
  /** Those whose bucket may hold something. */
  readonly #withBucket = new Set<Room>()
  readonly #timer: Timer
  #oldRooms: IterableIterator<[string, Room]>
  /** Nodes that Redis last knew of, this one among them. */
  nodes = 1
  #isBeating = false

  constructor(options: SharedAdmissionOptions) {
    this.#options = options
    const { link, nodeId, timers, calls, onFault, maxKeys, seed } = options
    this.#memory = createMemoryDeduplicator({ maxKeys, seed })
    this.#time = new RedisTime(timers.nowMs(), timers.monotonicMs())
    this.#turns = new Turns({
      link,
      nodeId,
      timers,
      calls,
      onFault,
      time: this.#time,
      onGranted: (room) => this.#withBucket.add(room),
    })
    this.#oldRooms = this.#rooms.entries()
    this.#timer = timers.setInterval(() => this.#tick(), BEAT_MS)
    this.#timer.unref()
    link.onChange((isUp) => {
      if (!isUp) return
      this.#turns.resume()
      void this.#beat()
    })
    if (link.isUp) void this.#beat()
  }

  /** Accepted keys that this process itself knows. */
  get keysRemembered(): number {
    return this.#memory.size
  }

  admit(app: App, events: number, batchId: string | null): Admitted | Promise<Admitted> {
    const nowMs = this.#options.timers.monotonicMs()
    const room = this.#roomOf(app, nowMs)
    room.countRequest(events, nowMs)
    if (batchId === null) {
      if (this.#spend(room, events)) return this.#taken(room, events, room.bucketMinute, this.#time.nowMs(nowMs))
      return this.#take(room, events, null)
    }
    const claim = this.#memory.claim(batchId, this.#options.timers.nowMs())
    if (claim instanceof Promise)
      return claim.then(async (passedOn) => this.#admitKeyed(room, events, batchId, passedOn))
    return this.#admitKeyed(room, events, batchId, claim)
  }

  #admitKeyed(
    room: Room,
    events: number,
    batchId: string,
    claim: Awaited<ReturnType<MemoryDeduplicator['claim']>>,
  ): Admitted | Promise<Admitted> {
    if (claim.kind === 'replay') return claim
    if (claim.kind === 'full') return OVERLOADED
    return this.#takeKeyed(room, events, batchId).then(
      (admitted) => {
        if (admitted.kind !== 'taken') this.#releaseHere(batchId)
        return admitted
      },
      (error: unknown) => {
        this.#releaseHere(batchId)
        throw error
      },
    )
  }

  async #takeKeyed(room: Room, events: number, batchId: string): Promise<Admitted> {
    const key = idempotencyKey(room.partition, batchId)
    const { timers, link } = this.#options
    const giveUpAtMs = timers.monotonicMs() + MAX_WAIT_MS
    for (let pauseMs: number = POLL_MS.first; ; pauseMs = Math.min(pauseMs * 1.5, POLL_MS.longest)) {
      let admitted: Admitted | 'held'
      if (link.isUp && this.#spend(room, events)) {
        const charge = this.#charge(room, events, room.bucketMinute)
        const answer = await this.#turns.claim(room.partition, key)
        if (answer === 'away' || answer === ANSWER.done) return { kind: 'taken', charge }
        this.#giveBack(room, charge)
        admitted = answer >= ANSWER.replay ? { kind: 'replay', events: answer - ANSWER.replay } : 'held'
      } else {
        admitted = await this.#takeOrHeld(room, events, key)
      }
      if (admitted !== 'held') return admitted
      if (timers.monotonicMs() >= giveUpAtMs) return OVERLOADED
      await sleep(timers, pauseMs)
    }
  }

  async #take(room: Room, events: number, key: null): Promise<Admitted> {
    const admitted = await this.#takeOrHeld(room, events, key)
    return admitted === 'held' ? OVERLOADED : admitted
  }

  /** Joins this turn's call, or takes from this node's share. */
  async #takeOrHeld(room: Room, events: number, key: string | null): Promise<Admitted | 'held'> {
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const outcome = this.#options.link.isUp ? await this.#ask(room, events, key) : 'away'
      if (outcome === 'away') return this.#takeAlone(room, events)
      if (outcome === 'unanswered') return OVERLOADED
      const { answer, minute, nowMs } = outcome
      if (answer === ANSWER.done) {
        return this.#taken(room, events, minute, nowMs)
      }
      if (answer === ANSWER.held) return 'held'
      if (answer >= ANSWER.replay) return { kind: 'replay', events: answer - ANSWER.replay }
      if (answer !== ANSWER.otherCycle) return this.#overLimit(room, REFUSALS[answer])
      room.turnTo(minute)
    }
    return OVERLOADED
  }

  #ask(room: Room, events: number, key: string | null): Promise<TakeOutcome> {
    // What is too little for this batch may be enough together with what Redis has left.
    room.emptyBucket()
    return new Promise((resolve) => {
      room.takes.push({ events, key, resolve, askedAtMs: this.#options.timers.monotonicMs() })
      this.#turns.add(room)
    })
  }

  async replayOf(app: App, batchId: string): Promise<number | null> {
    const { timers, link } = this.#options
    const claim = await this.#memory.claim(batchId, timers.nowMs())
    if (claim.kind === 'replay') return claim.events
    if (claim.kind === 'full') return null
    try {
      const key = idempotencyKey(this.#partitionOf(app), batchId)
      const giveUpAtMs = timers.monotonicMs() + MAX_WAIT_MS
      for (;;) {
        const held = await link.call((client) => client.get(key))
        if (held === 'away' || held === null) return null
        if (/^\d{1,3}$/.test(held)) return Number(held)
        if (held === this.#options.nodeId || timers.monotonicMs() >= giveUpAtMs) return null
        await sleep(timers, POLL_MS.longest)
      }
    } finally {
      this.#releaseHere(batchId)
    }
  }

  end(app: App, charge: Charge, batchId: string | null, end: End, events: number): void {
    const room = this.#roomOf(app)
    // In doubt it stays counted, until the audit knows.
    if (end === 'duplicate' || end === 'refused') this.#giveBack(room, charge)
    if (batchId === null) return
    const key = idempotencyKey(room.partition, batchId)
    if (end === 'stored' || end === 'duplicate') {
      this.#memory.confirm(batchId, events, this.#options.timers.nowMs())
      this.#turns.accept(room.partition, key, events, WINDOW_MS)
    } else {
      this.#turns.release(room.partition, key)
      this.#releaseHere(batchId)
    }
  }

  view(app: App): RateLimitView {
    const minute = this.#minute()
    const used = this.#rooms.get(app.appId)?.usedAt(minute).minute ?? 0
    return {
      limit: app.eventsPerMinute,
      remaining: Math.max(0, app.eventsPerMinute - used),
      resetUnixSeconds: ((minute + 1) * MINUTE_MS) / 1000,
    }
  }

  async standing(app: App): Promise<Standing> {
    const { link, partitions } = this.#options
    const standing = await readStanding(link, app, { partitions, nowMs: this.#nowMs() })
    return standing === 'away' ? this.#standingOf(this.#roomOf(app)) : standing
  }

  /** Gives every bucket back, tells what is accepted, and says goodbye. */
  async stop(): Promise<void> {
    const { timers, link, nodeId } = this.#options
    timers.clear(this.#timer)
    for (const room of this.#withBucket) this.#emptyBucket(room)
    await this.#turns.idle()
    if (link.isUp) await leave(link, nodeId).catch(this.#options.onFault)
  }

  #roomOf(app: App, nowMs = this.#options.timers.monotonicMs()): Room {
    let room = this.#rooms.get(app.appId)
    if (room === undefined) {
      room = new Room(app, this.#partitionOf(app))
      this.#rooms.set(app.appId, room)
    }
    room.use(app, Math.floor(this.#time.nowMs(nowMs) / MINUTE_MS), nowMs)
    // What an older record, or an older minute, has granted goes back.
    if (room.givenBack.size > 0) this.#turns.add(room)
    return room
  }

  #partitionOf({ appId }: App): number {
    return partitionOf(appId, this.#options.partitions)
  }

  #minute(): number {
    return Math.floor(this.#time.nowMs(this.#options.timers.monotonicMs()) / MINUTE_MS)
  }

  /** From the bucket, which is filled again in time. */
  #spend(room: Room, events: number): boolean {
    if (!room.spend(events)) return false
    if (room.isBucketLow && !room.isFillWanted && this.#options.link.isUp) {
      room.isFillWanted = true
      this.#turns.add(room)
    }
    return true
  }

  #takeAlone(room: Room, events: number): Admitted {
    const minute = this.#minute()
    room.turnTo(minute)
    const refusal = room.takeAlone(events, minute, this.nodes)
    if (refusal !== null) return this.#overLimit(room, refusal)
    this.#turns.add(room)
    return this.#taken(room, events, minute)
  }

  #taken(room: Room, events: number, minute: number, nowMs?: number): Admitted {
    return { kind: 'taken', charge: this.#charge(room, events, minute, nowMs) }
  }

  #charge(room: Room, events: number, minute: number, nowMs = this.#nowMs()): Charge {
    const startMs = minute * MINUTE_MS
    const takenAtMs = Math.min(Math.max(nowMs, startMs), startMs + MINUTE_MS - 1)
    return { events, takenAtMs, minute, cycleMinute: room.cycle.first }
  }

  #nowMs(): number {
    return this.#time.nowMs(this.#options.timers.monotonicMs())
  }

  #giveBack(room: Room, { minute, events }: Charge): void {
    if (events === 0) return
    room.giveBack(minute, events)
    this.#turns.add(room)
  }

  #overLimit(room: Room, refusal: LimitRefusal): Admitted {
    return { kind: 'over limit', refusal, retryAfterSeconds: secondsUntilRoom(this.#standingOf(room), refusal) }
  }

  #standingOf(room: Room): Standing {
    const minute = this.#minute()
    room.turnTo(minute)
    return standingOf(room.app, room.usedAt(minute), { atMs: this.#nowMs(), minute, cycle: room.cycle })
  }

  #releaseHere(batchId: string): void {
    this.#memory.release(batchId)
  }

  #emptyBucket(room: Room): void {
    room.emptyBucket()
    this.#withBucket.delete(room)
    if (room.givenBack.size > 0) this.#turns.add(room)
  }

  #tick(): void {
    const nowMs = this.#options.timers.monotonicMs()
    const minute = this.#minute()
    for (const room of this.#withBucket) {
      if (room.bucketMinute < minute || nowMs - room.usedAtMs > QUIET_MS) this.#emptyBucket(room)
    }
    this.#memory.sweep(this.#options.timers.nowMs())
    this.#forget(nowMs)
    void this.#beat()
  }

  /** A part of the apps each time, so that none of it takes long. */
  #forget(nowMs: number): void {
    for (let count = 0; count < FORGOTTEN_A_BEAT; count++) {
      const next = this.#oldRooms.next()
      if (next.done === true) {
        this.#oldRooms = this.#rooms.entries()
        return
      }
      const [appId, room] = next.value
      if (nowMs - room.usedAtMs > FORGOTTEN_AFTER_MS && this.#options.link.isUp) this.#rooms.delete(appId)
    }
  }

  async #beat(): Promise<void> {
    const { link, nodeId, timers, onFault } = this.#options
    if (this.#isBeating || !link.isUp) return
    this.#isBeating = true
    try {
      const sentAtMs = timers.monotonicMs()
      const heard = await beat(link, nodeId)
      if (heard === 'away') return
      this.#time.learn(heard.nowMs, sentAtMs, timers.monotonicMs())
      this.nodes = Math.max(1, heard.nodes.length)
    } catch (error) {
      onFault(error)
    } finally {
      this.#isBeating = false
    }
  }
}
