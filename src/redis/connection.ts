// The link to Redis: a circuit breaker around one session at a time. A slow answer is waited for; a lost connection, or
// several calls in a row without an answer, take the link down, and a session that proves itself brings it back.

import type { ClusterNode } from 'ioredis'
import type { OnNotice } from '../lib/notice.ts'
import { sleep, systemTimers, type Timer, type Timers } from '../lib/timers.ts'
import { type RedisAddress, readRedisUrl } from './address.ts'
import { awayFault, connectionFault, type RedisFault } from './fault.ts'
import type { Away, RedisClient, RedisLink } from './link.ts'
import { type OpenSession, openSession, type RedisSession, within } from './session.ts'

/** The longest that a request waits for Redis. */
const BUDGET_MS = 250
/** Calls in a row without an answer in their budget, after which Redis is away. */
const MAX_MISSES = 3
/** Between looks at the calls under way, and between the link's own probes while an answer is missing. */
const TICK_MS = 50
/** A look that comes later than this means that this process was slow: its calls have so much longer. */
const MAX_LATE_MS = 50
/** Between attempts at a new session, drawn anew each time, so that nodes do not come back in step. */
const PAUSE_MS = { least: 50, most: 300 } as const
const SECOND_MS = 1000
const PROBE_PAUSE_MS = 50
/** A session whose probe has gone unanswered for so long is given up for a new one. */
const PROBE_TIMEOUT_MS = 1000
/** Probes answered within the budget, one after the other, that bring the link back. */
const PROBES_IN_A_ROW = 2
/** Beyond, calls hear 'away': so many would not be answered within their budget. */
const MAX_WAITING = 20_000
/** Kinds of fault that one outage names in the log. */
const MAX_FAULTS_TOLD = 8

/** slow: no answer within the budget. failed: an error reply, or the link went down underway. */
export type CallResult = 'answered' | 'slow' | 'failed'

export interface RedisConnection extends RedisLink {
  /** Redis has answered at least once. */
  readonly hasBeenUp: boolean
  /** For /readyz?verbose: `up`, `slow` or `away`, and why. */
  readonly state: string
}

export interface RedisConnectionOptions {
  readonly url: string
  readonly budgetMs?: number
  /** Once a change: Redis is away, and why, or back. */
  readonly onNotice: OnNotice
  /** Once a call, when its caller hears. */
  readonly onCall?: (result: CallResult, seconds: number) => void
  /** Default: those of this process. */
  readonly timers?: Timers
  /** A number from 0 up to 1, for jitter. */
  readonly random?: () => number
  /** Makes a session; default: one with the server that `url` names. */
  readonly openSession?: OpenSession
}

/** Returns at once, connected or not, and goes on trying. Throws only for a URL that cannot be read. */
export function openRedis(options: RedisConnectionOptions): RedisConnection {
  return new Breaker(readRedisUrl(options.url), options)
}

/** Waits until the link is up; false: it is not, after so long. */
export async function untilUp(link: RedisLink, timeoutMs: number, timers: Timers = systemTimers): Promise<boolean> {
  if (link.isUp) return true
  const timeout = new AbortController()
  const up = new Promise<boolean>((resolve) => link.onChange((isUp) => isUp && resolve(true)))
  const late = sleep(timers, timeoutMs, timeout.signal).then(() => false)
  return Promise.race([up, late]).finally(() => timeout.abort())
}

interface Call {
  deadlineMs: number
  /** The caller hears that there is no answer. */
  readonly leave: (result: CallResult) => void
}

class Breaker implements RedisConnection {
  readonly #address: RedisAddress
  readonly #budgetMs: number
  readonly #timers: Timers
  readonly #random: () => number
  readonly #openSession: OpenSession
  readonly #onNotice: OnNotice
  readonly #onCall: (result: CallResult, seconds: number) => void
  readonly #listeners: ((isUp: boolean) => void)[] = []
  readonly #stopping = new AbortController()
  readonly #running: Promise<void>
  /** Those whose callers wait, in the order in which they were made. */
  readonly #waiting = new Set<Call>()
  /** Calls in a row that had no answer in time. A probe that has one, from every node, ends the row. */
  #misses = 0
  #probeAtMs = 0
  /** null: the link is down. */
  #session: RedisSession | null = null
  #lose: ((fault: RedisFault) => void) | null = null
  #knownNodes: readonly ClusterNode[] = []
  #timer: Timer | null = null
  #hasBeenUp = false
  #fault: RedisFault = { kind: 'start', reason: 'not connected yet' }
  /** What this outage has named in the log; null: there is none. */
  #told: { readonly sinceMs: number; readonly kinds: Set<string> } | null = null
  #hasToldDatabase = false

  constructor(address: RedisAddress, options: RedisConnectionOptions) {
    this.#address = address
    this.#budgetMs = options.budgetMs ?? BUDGET_MS
    this.#onNotice = options.onNotice
    this.#onCall = options.onCall ?? (() => {})
    this.#timers = options.timers ?? systemTimers
    this.#random = options.random ?? Math.random
    this.#openSession = options.openSession ?? openSession
    this.#running = this.#run()
  }

  get isUp(): boolean {
    return this.#session !== null
  }

  get isCluster(): boolean {
    return this.#session?.isCluster ?? false
  }

  get hasBeenUp(): boolean {
    return this.#hasBeenUp
  }

  get state(): string {
    if (this.#session === null) return `away: ${this.#fault.reason}`
    return this.#misses > 0 ? `slow: ${this.#tooSlow().reason}` : 'up'
  }

  onChange(listener: (isUp: boolean) => void): void {
    this.#listeners.push(listener)
  }

  call<T>(command: (client: RedisClient) => Promise<T>): Promise<T | Away> {
    const session = this.#session
    if (session === null || this.#waiting.size >= MAX_WAITING) return Promise.resolve('away')
    return this.#send(session, () => command(session.client), this.#onCall)
  }

  #send<T>(
    session: RedisSession,
    command: () => Promise<T>,
    onResult: (result: CallResult, seconds: number) => void,
  ): Promise<T | Away> {
    return new Promise((resolve, reject) => {
      const startedAtMs = this.#timers.monotonicMs()
      const end = (result: CallResult): void => {
        if (this.#waiting.delete(call)) onResult(result, (this.#timers.monotonicMs() - startedAtMs) / SECOND_MS)
      }
      const leave = (result: CallResult): void => {
        end(result)
        resolve('away')
      }
      const call: Call = { deadlineMs: startedAtMs + this.#budgetMs, leave }
      const reply = command()
      this.#waiting.add(call)
      this.#watch()
      reply.then(
        (value) => {
          end(this.#timers.monotonicMs() <= call.deadlineMs ? 'answered' : 'slow')
          return resolve(value)
        },
        (error: unknown) => {
          const fault = awayFault(error)
          if (fault === null) {
            end('failed')
            reject(error)
            return
          }
          leave('failed')
          if (this.#session === session) this.#lose?.(fault)
        },
      )
    })
  }

  async stop(): Promise<void> {
    // What was asked last may be what matters: it has its budget to be answered.
    const deadlineMs = this.#timers.monotonicMs() + this.#budgetMs
    while (this.#waiting.size > 0 && this.#timers.monotonicMs() < deadlineMs) await sleep(this.#timers, 1)
    this.#stopping.abort()
    this.#lose?.({ kind: 'stop', reason: 'stopped' })
    await this.#running
    if (this.#timer !== null) this.#timers.clear(this.#timer)
  }

  async #run(): Promise<void> {
    const { signal } = this.#stopping
    for (let attempt = 0; !signal.aborted; attempt++) {
      // Where the cluster was last seen, and where the URL points, by turns: either may be gone for good.
      const fault = await this.#serve(attempt % 2 === 0 ? this.#knownNodes : [], signal)
      if (signal.aborted) return
      this.#tellAway(fault)
      const pauseMs = PAUSE_MS.least + this.#random() * (PAUSE_MS.most - PAUSE_MS.least)
      await sleep(this.#timers, pauseMs, signal)
    }
  }

  /** One session, from its making to its end; returns what ended it. */
  async #serve(knownNodes: readonly ClusterNode[], signal: AbortSignal): Promise<RedisFault> {
    let end: () => void = () => {}
    const ended = new Promise<RedisFault>((resolve) => {
      end = () => resolve({ kind: 'connection', reason: 'connection lost' })
    })
    const onEnd = () => {
      if (this.#lose === null) end()
      else this.#lose({ kind: 'connection', reason: 'connection lost' })
    }
    let session: RedisSession | null = null
    try {
      session = await this.#openSession({ address: this.#address, knownNodes, onEnd, signal, timers: this.#timers })
      for (;;) {
        const failed = await Promise.race([ended, this.#prove(session, signal)])
        if (failed !== null) return failed
        const fault = await this.#beUp(session)
        // Late answers do not cost a new session: this one proves itself again, or is given up.
        if (fault.kind !== 'slow') return fault
      }
    } catch (error) {
      return connectionFault(error)
    } finally {
      session?.drop()
    }
  }

  /** Waits until the session answers within the budget. Rejects where it does not answer at all. */
  async #prove(session: RedisSession, signal: AbortSignal): Promise<null> {
    for (let inARow = 0; ; ) {
      const sentAtMs = this.#timers.monotonicMs()
      await within(session.probe(), PROBE_TIMEOUT_MS, signal, this.#timers)
      const isQuick = this.#timers.monotonicMs() - sentAtMs <= this.#budgetMs
      inARow = isQuick ? inARow + 1 : 0
      if (inARow === PROBES_IN_A_ROW) return null
      if (!isQuick) this.#tellAway(this.#tooSlow())
      await sleep(this.#timers, PROBE_PAUSE_MS, signal)
      if (signal.aborted) throw new Error('given up')
    }
  }

  /** Resolves with what took the link down again. By then nobody waits for it any more. */
  #beUp(session: RedisSession): Promise<RedisFault> {
    return new Promise((resolve) => {
      this.#lose = (fault) => {
        this.#lose = null
        this.#session = null
        this.#knownNodes = session.knownNodes
        this.#misses = 0
        for (const { leave } of this.#waiting) leave('failed')
        if (!this.#stopping.signal.aborted) this.#tellAway(fault)
        for (const listener of this.#listeners) listener(false)
        resolve(fault)
      }
      this.#session = session
      this.#hasBeenUp = true
      this.#tellBack(session)
      for (const listener of this.#listeners) listener(true)
    })
  }

  /** One timer for all calls: often enough to tell that this process is late, and in time for the oldest call. */
  #watch(): void {
    if (this.#timer !== null) return
    const [oldest] = this.#waiting
    if (oldest === undefined && this.#misses === 0) return
    const nowMs = this.#timers.monotonicMs()
    const delayMs = Math.max(1, Math.ceil(Math.min(TICK_MS, (oldest?.deadlineMs ?? Infinity) - nowMs)))
    this.#timer = this.#timers.setTimeout(() => this.#look(nowMs + delayMs), delayMs)
  }

  #look(dueMs: number): void {
    this.#timer = null
    const nowMs = this.#timers.monotonicMs()
    const lateMs = nowMs - dueMs
    if (lateMs > MAX_LATE_MS) {
      for (const call of this.#waiting) call.deadlineMs = Math.min(call.deadlineMs + lateMs, nowMs + this.#budgetMs)
    }
    this.#watch()
    // What lies in the socket already is read before anyone judges: the first turn of the loop reads, and the second
    // lets go on what a reply has set off. Calls that are made meanwhile are not judged by this look.
    this.#timers.setImmediate(() => this.#timers.setImmediate(() => this.#judge(nowMs)))
  }

  #judge(nowMs: number): void {
    for (const call of this.#waiting) {
      if (call.deadlineMs > nowMs) break
      this.#misses++
      call.leave('slow')
    }
    const session = this.#session
    if (session === null || this.#misses === 0) return
    if (this.#misses >= MAX_MISSES) this.#lose?.(this.#tooSlow())
    else if (nowMs >= this.#probeAtMs) {
      this.#probeAtMs = nowMs + TICK_MS
      const probing = this.#send(
        session,
        () => session.probe(),
        (result) => {
          if (result === 'answered') this.#misses = 0
        },
      )
      probing.catch((error: unknown) => this.#session === session && this.#lose?.(connectionFault(error)))
    }
  }

  #tooSlow(): RedisFault {
    return { kind: 'slow', reason: `no answer in ${this.#budgetMs} ms` }
  }

  #tellAway(fault: RedisFault): void {
    this.#fault = fault
    this.#told ??= { sinceMs: this.#timers.monotonicMs(), kinds: new Set() }
    const { kinds } = this.#told
    if (kinds.has(fault.kind) || kinds.size >= MAX_FAULTS_TOLD) return
    kinds.add(fault.kind)
    this.#onNotice(`Redis is away: ${fault.reason}; going on without it`)
  }

  #tellBack({ isCluster }: RedisSession): void {
    if (isCluster && this.#address.database !== 0 && !this.#hasToldDatabase) {
      this.#hasToldDatabase = true
      this.#onNotice(`REDIS_URL names database ${this.#address.database}: a Redis Cluster has only database 0`)
    }
    if (this.#told === null) return
    const awayMs = this.#timers.monotonicMs() - this.#told.sinceMs
    this.#told = null
    this.#onNotice(`Redis is back after ${(awayMs / SECOND_MS).toFixed(1)} s`, 'info')
  }
}
