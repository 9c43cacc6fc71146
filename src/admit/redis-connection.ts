// The link to Redis: a circuit breaker around one session at a time. Every call settles within its budget; the first
// that does not, or a lost connection, takes the link down, and a new session brings it back once it has proved itself.

import type { ClusterNode } from 'ioredis'
import type { OnNotice } from '../lib/notice.ts'
import { sleep, systemTimers, type Timer, type Timers } from '../lib/timers.ts'
import type { Away, RedisClient, RedisLink } from './redis.ts'
import { type RedisAddress, readRedisUrl } from './redis-address.ts'
import { awayFault, connectionFault, type RedisFault } from './redis-fault.ts'
import { type OpenSession, openSession, type RedisSession, within } from './redis-session.ts'

/**
 * A slow Redis may add 50 ms to a request. The first call that takes longer than this takes the link down, so that no
 * other one waits; calls that stay just below it add up, two for a key and a lease.
 */
const BUDGET_MS = 40
/** Between attempts at a new session, drawn anew each time, so that nodes do not come back in step. */
const PAUSE_MS = { least: 50, most: 300 } as const
const SECOND_MS = 1000
const PROBE_PAUSE_MS = 50
/** A session whose probe has gone unanswered for so long is given up for a new one. */
const PROBE_TIMEOUT_MS = 1000
/** Probes answered within the budget, one after the other, that bring the link back. */
const PROBES_IN_A_ROW = 2
/** Calls without an answer. Beyond, calls hear 'away': so many would not be answered within their budget. */
const MAX_OUTSTANDING = 20_000
/** Kinds of fault that one outage names in the log. */
const MAX_FAULTS_TOLD = 8

export interface RedisConnection extends RedisLink {
  /** Redis has answered at least once. */
  readonly hasBeenUp: boolean
  /** For /readyz?verbose: `up`, or why not. */
  readonly state: string
}

export interface RedisConnectionOptions {
  readonly url: string
  readonly budgetMs?: number
  /** Once a change: Redis is away, and why, or back. */
  readonly onNotice: OnNotice
  /** Once a call, when it is answered, however late, or fails. */
  readonly onReply?: (seconds: number) => void
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
  readonly startedAtMs: number
  readonly leave: (away: Away) => void
}

class Breaker implements RedisConnection {
  readonly #address: RedisAddress
  readonly #budgetMs: number
  readonly #timers: Timers
  readonly #random: () => number
  readonly #openSession: OpenSession
  readonly #onNotice: OnNotice
  readonly #onReply: (seconds: number) => void
  readonly #listeners: ((isUp: boolean) => void)[] = []
  readonly #stopping = new AbortController()
  readonly #running: Promise<void>
  /** In the order in which they were made. */
  readonly #outstanding = new Set<Call>()
  /** null: the link is down. */
  #session: RedisSession | null = null
  #lose: ((fault: RedisFault) => void) | null = null
  #knownNodes: readonly ClusterNode[] = []
  #timer: Timer | null = null
  #isJudging = false
  #hasBeenUp = false
  #fault: RedisFault = { kind: 'start', reason: 'not connected yet' }
  /** What this outage has named in the log; null: there is none. */
  #told: { readonly sinceMs: number; readonly kinds: Set<string> } | null = null
  #hasToldDatabase = false

  constructor(address: RedisAddress, options: RedisConnectionOptions) {
    this.#address = address
    this.#budgetMs = options.budgetMs ?? BUDGET_MS
    this.#onNotice = options.onNotice
    this.#onReply = options.onReply ?? (() => {})
    this.#timers = options.timers ?? systemTimers
    this.#random = options.random ?? Math.random
    this.#openSession = options.openSession ?? openSession
    this.#running = this.#run()
  }

  get isUp(): boolean {
    return this.#session !== null
  }

  get hasBeenUp(): boolean {
    return this.#hasBeenUp
  }

  get state(): string {
    return this.#session === null ? `away: ${this.#fault.reason}` : 'up'
  }

  onChange(listener: (isUp: boolean) => void): void {
    this.#listeners.push(listener)
  }

  call<T>(command: (client: RedisClient) => Promise<T>): Promise<T | Away> {
    const session = this.#session
    if (session === null || this.#outstanding.size >= MAX_OUTSTANDING) return Promise.resolve('away')
    return new Promise((resolve, reject) => {
      const call: Call = { startedAtMs: this.#timers.monotonicMs(), leave: resolve }
      const reply = command(session.client)
      this.#outstanding.add(call)
      this.#watch()
      reply.then(
        (value) => resolve(this.#over(call, value)),
        (error: unknown) => {
          const fault = awayFault(this.#over(call, error))
          if (fault === null) {
            reject(error)
            return
          }
          resolve('away')
          if (this.#session === session) this.#lose?.(fault)
        },
      )
    })
  }

  #over<T>(call: Call, result: T): T {
    this.#outstanding.delete(call)
    this.#onReply((this.#timers.monotonicMs() - call.startedAtMs) / SECOND_MS)
    return result
  }

  async stop(): Promise<void> {
    // What was asked last may be what matters: it has its budget to be answered.
    const deadlineMs = this.#timers.monotonicMs() + this.#budgetMs
    while (this.#outstanding.size > 0 && this.#timers.monotonicMs() < deadlineMs) await sleep(this.#timers, 1)
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
      session = await this.#openSession({ address: this.#address, knownNodes, onEnd, signal })
      for (;;) {
        const failed = await Promise.race([ended, this.#prove(session, signal)])
        if (failed !== null) return failed
        const fault = await this.#beUp(session)
        // One answer that came a little late does not cost a new session: this one proves itself again, or is given up.
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
        for (const { leave } of this.#outstanding) leave('away')
        this.#outstanding.clear()
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

  /** One timer for all calls, set for the oldest. */
  #watch(): void {
    if (this.#timer !== null || this.#isJudging) return
    const [oldest] = this.#outstanding
    if (oldest === undefined) return
    const leftMs = oldest.startedAtMs + this.#budgetMs - this.#timers.monotonicMs()
    this.#timer = this.#timers.setTimeout(() => this.#look(), Math.max(1, Math.ceil(leftMs)))
  }

  #look(): void {
    this.#timer = null
    if (!this.#isOverdue()) {
      this.#watch()
      return
    }
    // It may be this process that was slow: what lies in the socket already is read before anyone judges. The first
    // turn of the loop reads, and the second lets go on what a reply has set off.
    this.#isJudging = true
    this.#timers.setImmediate(() => {
      this.#timers.setImmediate(() => {
        this.#isJudging = false
        if (this.#isOverdue()) this.#lose?.(this.#tooSlow())
        else this.#watch()
      })
    })
  }

  #isOverdue(): boolean {
    const [oldest] = this.#outstanding
    return oldest !== undefined && this.#timers.monotonicMs() - oldest.startedAtMs >= this.#budgetMs
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
