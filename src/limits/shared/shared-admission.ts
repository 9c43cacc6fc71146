// Limits and keys of many nodes. An app that sends fast spends from a bucket that this node holds; every other request
// joins the one call to Redis of its turn. While Redis is away each node goes on with its share of what was left.

import type { App } from '../../apps/app.ts'
import { MINUTE_MS } from '../../apps/plans.ts'
import { IDEMPOTENCY_WINDOW_SECONDS } from '../../bounds.ts'
import { type Claim } from '../../keys/deduplicator.ts'
import { createMemoryDeduplicator, type MemoryDeduplicator } from '../../keys/memory-deduplicator.ts'
import { sleep, type Timer, type Timers } from '../../lib/timers.ts'
import type { RateLimitView } from '../../outcome.ts'
import type { Charge } from '../../queue/charge.ts'
import { partitionOf } from '../../queue/partition.ts'
import type { RedisLink } from '../../redis/link.ts'
import { RedisTime } from '../../redis/time.ts'
import type { Admission, Admitted, End } from '../admission.ts'
import { type LimitRefusal, type Standing, secondsUntilRoom } from '../limiter.ts'
import { Room, type TakeOutcome } from './app-budget.ts'
import { beat, leave } from './nodes.ts'
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
/** Calls without an answer in time, after which a request is answered 503. */
const MAX_SILENCES = 3

const OVERLOADED: Admitted = { kind: 'overloaded' }
const REFUSALS: Readonly<Record<number, LimitRefusal>> = {
  [ANSWER.month]: 'monthly_limit_exceeded',
  [ANSWER.day]: 'daily_limit_exceeded',
  [ANSWER.minute]: 'rate_limit_exceeded',
}

/** Calls to Redis by how they ended, and requests that were judged without it. */
export interface LimitCalls {
  answered: number
  slow: number
  failed: number
  without: number
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
  readonly calls: LimitCalls
  /** Redis refused a call: the requests in it went on without it. */
  readonly onFault: (error: unknown) => void
}

export class SharedAdmission implements Admission {
  readonly #options: SharedAdmissionOptions
  readonly #memory: MemoryDeduplicator
  readonly #time: RedisTime
  readonly #turns: Turns
  /** Keys in flight for which the memory had no place. */
  readonly #beyondMemory = new Set<string>()
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
    const room = this.#roomFor(app, nowMs)
    if (batchId === null) {
      room.countRequest(events, nowMs)
      if (this.#spend(room, events)) return taken(events, room.bucketMinute, room.bucketCycle, this.#time.nowMs(nowMs))
      return this.#take(room, events, null)
    }
    const claim = this.#memory.claim(batchId, this.#options.timers.nowMs())
    if (claim instanceof Promise) return claim.then((passedOn) => this.#admitKeyed(room, events, batchId, passedOn))
    return this.#admitKeyed(room, events, batchId, claim)
  }

  async #admitKeyed(room: Room, events: number, batchId: string, claim: Claim): Promise<Admitted> {
    if (claim.kind === 'replay') return claim
    // Redis and the queue tell repeats then, but for two at once on this node.
    if (claim.kind === 'full' && this.#beyondMemory.has(batchId)) return OVERLOADED
    if (claim.kind === 'full') this.#beyondMemory.add(batchId)
    let admitted: Admitted = OVERLOADED
    try {
      admitted = await this.#take(room, events, idempotencyKey(room.partition, batchId))
    } finally {
      if (admitted.kind !== 'taken') this.#releaseHere(batchId)
    }
    return admitted
  }

  /** Joins this turn's call, and waits while another node holds the key. Without Redis: from this node's share. */
  async #take(room: Room, events: number, key: string | null): Promise<Admitted> {
    const { timers, link } = this.#options
    const startedAtMs = timers.monotonicMs()
    let silences = 0
    let hasEmptied = false
    for (let pauseMs: number = POLL_MS.first; ; ) {
      const outcome = link.isUp ? await this.#ask(room, events, key) : 'away'
      if (outcome === 'away') return this.#takeAlone(room, events)
      if (outcome === 'unanswered') {
        // By then either it answers again, or it is known to be away.
        if (++silences < MAX_SILENCES) continue
        this.#releaseUnsure(room, key, silences)
        return OVERLOADED
      }
      if (outcome === 'ask again') continue
      const { answer, minute, cycleMinute, nowMs } = outcome
      if (answer === ANSWER.done) return taken(events, minute, cycleMinute, nowMs)
      if (answer >= ANSWER.replay) return { kind: 'replay', events: answer - ANSWER.replay }
      if (Object.hasOwn(REFUSALS, answer)) {
        // What the bucket holds may be enough together with what Redis has left.
        if (room.tokens > 0 && !hasEmptied) {
          hasEmptied = true
          room.emptyBucket()
          continue
        }
        this.#releaseUnsure(room, key, silences)
        return this.#overLimit(room, REFUSALS[answer])
      }
      if (timers.monotonicMs() - startedAtMs >= MAX_WAIT_MS) return OVERLOADED
      await sleep(timers, pauseMs)
      pauseMs = Math.min(pauseMs * 1.5, POLL_MS.longest)
    }
  }

  /** A call without an answer may have claimed the key all the same, and another node would wait for it. */
  #releaseUnsure(room: Room, key: string | null, silences: number): void {
    if (key !== null && silences > 0) this.#turns.release(room.partition, key)
  }

  #ask(room: Room, events: number, key: string | null): Promise<TakeOutcome> {
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
      const key = idempotencyKey(partitionOf(app.appId, this.#options.partitions), batchId)
      const giveUpAtMs = timers.monotonicMs() + MAX_WAIT_MS
      for (;;) {
        const held = await link.call((client) => client.get(key))
        if (held === 'away' || held === null) return null
        if (/^\d{1,3}$/.test(held)) return Number(held)
        if (held === this.#options.nodeId || timers.monotonicMs() >= giveUpAtMs) return null
        await sleep(timers, POLL_MS.longest)
      }
    } finally {
      this.#memory.release(batchId)
    }
  }

  end({ appId }: App, charge: Charge, batchId: string | null, end: End, events: number): void {
    // In doubt it stays counted, until the audit knows.
    if (end === 'duplicate' || end === 'refused') this.#giveBack(appId, charge)
    if (batchId === null) return
    const partition = partitionOf(appId, this.#options.partitions)
    const key = idempotencyKey(partition, batchId)
    if (end === 'stored' || end === 'duplicate') {
      if (!this.#beyondMemory.delete(batchId)) {
        this.#memory.confirm(batchId, events, this.#options.timers.nowMs())
      }
      this.#turns.accept(partition, key, events, WINDOW_MS)
    } else {
      this.#turns.release(partition, key)
      this.#releaseHere(batchId)
    }
  }

  view(app: App): RateLimitView {
    const minute = this.#minute()
    const used = this.#rooms.get(app.appId)?.usedInMinute(minute) ?? 0
    return {
      limit: app.eventsPerMinute,
      remaining: Math.max(0, app.eventsPerMinute - used),
      resetUnixSeconds: ((minute + 1) * MINUTE_MS) / 1000,
    }
  }

  async standing(app: App): Promise<Standing> {
    const { link, partitions } = this.#options
    const standing = await readStanding(link, app, { partitions, nowMs: this.#nowMs() })
    return standing === 'away' ? this.#standingOf(this.#roomFor(app, this.#options.timers.monotonicMs())) : standing
  }

  /** Gives every bucket back, tells what is accepted, and says goodbye. */
  async stop(): Promise<void> {
    const { timers, link, nodeId } = this.#options
    timers.clear(this.#timer)
    for (const room of this.#withBucket) this.#emptyBucket(room)
    await this.#turns.idle()
    if (link.isUp) await leave(link, nodeId).catch(this.#options.onFault)
  }

  /** For a request that comes now: its record is the newest. */
  #roomFor(app: App, nowMs: number): Room {
    let room = this.#rooms.get(app.appId)
    if (room === undefined) {
      room = new Room(app, partitionOf(app.appId, this.#options.partitions))
      this.#rooms.set(app.appId, room)
    }
    room.use(app, Math.floor(this.#time.nowMs(nowMs) / MINUTE_MS), nowMs)
    // What an older record, or an older minute, has granted goes back.
    if (room.givenBack.size > 0) this.#turns.add(room)
    return room
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
    this.#options.calls.without++
    const refusal = room.takeAlone(events, minute, this.nodes)
    if (refusal !== null) return this.#overLimit(room, refusal)
    this.#turns.add(room)
    return taken(events, minute, room.cycle.first, this.#nowMs())
  }

  #nowMs(): number {
    return this.#time.nowMs(this.#options.timers.monotonicMs())
  }

  #giveBack(appId: string, { minute, events }: Charge): void {
    const room = this.#rooms.get(appId)
    if (room === undefined || events === 0) return
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
    if (!this.#beyondMemory.delete(batchId)) this.#memory.release(batchId)
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
      const heartbeat = await beat(link, nodeId)
      if (heartbeat === 'away') return
      this.#time.learn(heartbeat.nowMs, sentAtMs, timers.monotonicMs())
      this.nodes = Math.max(1, heartbeat.nodes.length)
    } catch (error) {
      onFault(error)
    } finally {
      this.#isBeating = false
    }
  }
}

/** `nowMs`: by Redis's clock; a time within the minute stands for it. */
function taken(events: number, minute: number, cycleMinute: number, nowMs: number): Admitted {
  const startMs = minute * MINUTE_MS
  const takenAtMs = Math.min(Math.max(nowMs, startMs), startMs + MINUTE_MS - 1)
  return { kind: 'taken', charge: { events, takenAtMs, minute, cycleMinute } }
}
