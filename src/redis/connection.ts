// The link to Redis: a circuit breaker around one session at a time. One slow answer is waited for. A lost connection,
// or MAX_MISSES calls in a row without an answer, open the circuit; a session whose probes are answered closes it.

import type { ClusterNode } from 'ioredis'
import type { Status } from '../contract/health.ts'
import type { OnNotice } from '../lib/notice.ts'
import { sleep, systemTimers, type Timers } from '../lib/timers.ts'
import { type RedisAccess, type RedisAddress, toRedisAddress } from './address.ts'
import { BAD_REPLY, connectionFault, type RedisFault } from './fault.ts'
import type { Away, CallOptions, RedisClient, RedisLink } from './link.ts'
import { OutageLog } from './outage-log.ts'
import { type CallResult, CHECK_MS, type OnResult, PendingCalls } from './pending-calls.ts'
import type { Read } from './reply.ts'
import { type OpenSession, openSession, type RedisSession, withTimeout } from './session.ts'

/** The longest that a request waits for Redis. */
const BUDGET_MS = 250
const MAX_MISSES = 3
/** Between attempts to open a session; random, so that nodes do not reconnect in step. */
const RECONNECT_PAUSE_MS = { min: 50, max: 300 } as const
/** After a reply of another shape, so that a server which probes do not find out is not asked several times a second. */
const BAD_REPLY_PAUSE_MS = 1000
const PROBE_PAUSE_MS = 50
/** A session that does not answer a probe in this time is dropped for a new one. */
const PROBE_TIMEOUT_MS = 1000
/** Probes in a row answered within the budget that bring the link up. */
const PROBES_IN_A_ROW = 2
/** Calls beyond are answered 'away' at once: Redis could not answer this many within the budget. */
const MAX_WAITING = 20_000

export interface RedisConnection extends RedisLink {
  /** Redis has answered at least once. */
  readonly hasBeenUp: boolean
  readonly status: Status<'redis'>
}

export interface RedisConnectionOptions {
  readonly redis: RedisAccess | string
  readonly budgetMs?: number
  /** Called once per change: Redis is away and why, or it is back. */
  readonly onNotice: OnNotice
  /** Called once per call, when its caller is answered. */
  readonly onCall?: OnResult
  /** Called once per connection that was dropped for a reply of another shape, or one too many. */
  readonly onBadReply?: () => void
  /** Default: those of this process. */
  readonly timers?: Timers
  /** Returns a number from 0 up to 1, for jitter. */
  readonly random?: () => number
  /** Default: opens a session with the server that the URL names. */
  readonly openSession?: OpenSession
}

/** Returns at once and connects in the background. Throws only for a URL, or a file of one, that cannot be read. */
export function openRedis(options: RedisConnectionOptions): RedisConnection {
  return new Breaker(toRedisAddress(options.redis), { ...DEFAULTS, ...options })
}

const DEFAULTS = {
  budgetMs: BUDGET_MS,
  onCall: () => {},
  onBadReply: () => {},
  timers: systemTimers,
  random: Math.random,
  openSession,
}

/** Waits until the link is up; false: it was not in time. */
export async function untilUp(link: RedisLink, timeoutMs: number, timers: Timers = systemTimers): Promise<boolean> {
  if (link.isUp) return true
  const timeout = new AbortController()
  const up = new Promise<boolean>((resolve) => link.onChange((isUp) => isUp && resolve(true)))
  const late = sleep(timers, timeoutMs, timeout.signal).then(() => false)
  return Promise.race([up, late]).finally(() => timeout.abort())
}

class Breaker implements RedisConnection {
  readonly #p: Required<RedisConnectionOptions>
  #address: RedisAddress
  readonly #calls: PendingCalls
  readonly #outageLog: OutageLog
  readonly #listeners: ((isUp: boolean) => void)[] = []
  readonly #stopping = new AbortController()
  readonly #running: Promise<void>
  /** null: the link is down. */
  #session: RedisSession | null = null
  /** Takes the link down; null: it is down. */
  #takeDown: ((fault: RedisFault) => void) | null = null
  #nextProbeAtMs = 0
  #knownNodes: readonly ClusterNode[] = []
  #hasBeenUp = false
  /** Why the link is down; null: it was not up yet. */
  #fault: RedisFault | null = null
  #hasLoggedDatabase = false

  constructor(address: RedisAddress, options: Required<RedisConnectionOptions>) {
    const { budgetMs, timers, onNotice } = options
    this.#p = options
    this.#address = address
    this.#outageLog = new OutageLog(timers, onNotice)
    const onMisses = (misses: number, atMs: number): void => this.#handleMisses(misses, atMs)
    this.#calls = new PendingCalls({ budgetMs, timers, onMisses })
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

  get status(): Status<'redis'> {
    if (this.#session !== null) {
      const isSlow = this.#calls.misses > 0
      return isSlow ? { state: 'slow', reason: this.#slowFault().reason } : { state: 'ok', reason: null }
    }
    return this.#fault === null ? { state: 'starting', reason: null } : { state: 'away', reason: this.#fault.reason }
  }

  onChange(listener: (isUp: boolean) => void): void {
    this.#listeners.push(listener)
  }

  call<T>(
    command: (client: RedisClient) => Promise<unknown>,
    read: Read<T>,
    options: CallOptions<T> = {},
  ): Promise<T | Away> {
    const session = this.#session
    if (session === null || this.#calls.size >= MAX_WAITING) return Promise.resolve('away')
    return this.#send(session, () => command(session.client), read, this.#p.onCall, options)
  }

  #send<T>(
    session: RedisSession,
    command: () => Promise<unknown>,
    read: Read<T>,
    onResult: OnResult,
    { onLate, onSlotFault }: CallOptions<T> = {},
  ): Promise<T | Away> {
    const onAway = (fault: RedisFault): void => {
      if (fault.isOfSlot && session.isCluster) onSlotFault?.(fault)
      else if (this.#session === session) this.#takeDown?.(fault)
    }
    return this.#calls.run(command, read, onResult, onAway, onLate)
  }

  async stop(): Promise<void> {
    // The last calls may write accepted keys and give buckets back: they get their budget.
    const deadlineMs = this.#p.timers.monotonicMs() + this.#p.budgetMs
    while (this.#calls.size > 0 && this.#p.timers.monotonicMs() < deadlineMs) await sleep(this.#p.timers, 1)
    this.#stopping.abort()
    this.#takeDown?.({ kind: 'stop', reason: 'stopped' })
    await this.#running
    this.#calls.stop()
  }

  async #run(): Promise<void> {
    const { signal } = this.#stopping
    for (let attempt = 0; !signal.aborted; attempt++) {
      // By turns the cluster nodes last seen and the host of the URL: either may be gone for good.
      const fault = await this.#runSession(attempt % 2 === 0 ? this.#knownNodes : [], signal)
      if (signal.aborted) return
      this.#setAway(fault)
      const { min, max } = RECONNECT_PAUSE_MS
      const isBadReply = fault.kind === BAD_REPLY
      if (isBadReply) this.#p.onBadReply()
      await sleep(this.#p.timers, (isBadReply ? BAD_REPLY_PAUSE_MS : min) + this.#p.random() * (max - min), signal)
    }
  }

  /** Opens one session and uses it until it ends. Returns what ended it. */
  async #runSession(knownNodes: readonly ClusterNode[], signal: AbortSignal): Promise<RedisFault> {
    let end: (fault: RedisFault) => void = () => {}
    const ended = new Promise<RedisFault>((resolve) => {
      end = resolve
    })
    const onEnd = (fault: RedisFault = { kind: 'connection', reason: 'connection lost' }) => {
      if (this.#takeDown === null) end(fault)
      else this.#takeDown(fault)
    }
    let session: RedisSession | null = null
    try {
      this.#address = toRedisAddress(this.#p.redis)
      session = await this.#p.openSession({ address: this.#address, knownNodes, onEnd, signal, timers: this.#p.timers })
      for (;;) {
        const failed = await Promise.race([ended, this.#probeUntilQuick(session, signal)])
        if (failed !== null) return failed
        const fault = await this.#serveCalls(session)
        // After slow answers the same session is probed again; a new connection would not make Redis faster.
        if (fault.kind !== 'slow') return fault
      }
    } catch (error) {
      return connectionFault(error)
    } finally {
      session?.drop()
    }
  }

  /** Resolves after PROBES_IN_A_ROW answers within the budget. Rejects if the session does not answer at all. */
  async #probeUntilQuick(session: RedisSession, signal: AbortSignal): Promise<null> {
    for (let inARow = 0; ; ) {
      const sentAtMs = this.#p.timers.monotonicMs()
      await withTimeout(session.probe(), PROBE_TIMEOUT_MS, signal, this.#p.timers)
      const isQuick = this.#p.timers.monotonicMs() - sentAtMs <= this.#p.budgetMs
      inARow = isQuick ? inARow + 1 : 0
      if (inARow === PROBES_IN_A_ROW) return null
      if (!isQuick) this.#setAway(this.#slowFault())
      await sleep(this.#p.timers, PROBE_PAUSE_MS, signal)
      if (signal.aborted) throw new Error('given up')
    }
  }

  /** The link is up until the promise resolves, with the fault that took it down. No caller waits any more by then. */
  #serveCalls(session: RedisSession): Promise<RedisFault> {
    return new Promise((resolve) => {
      this.#takeDown = (fault) => {
        this.#takeDown = null
        this.#session = null
        this.#knownNodes = session.knownNodes
        this.#calls.failAll()
        if (!this.#stopping.signal.aborted) this.#setAway(fault)
        for (const listener of this.#listeners) listener(false)
        resolve(fault)
      }
      this.#session = session
      this.#hasBeenUp = true
      if (session.isCluster) this.#logDatabaseOnce()
      this.#outageLog.back()
      for (const listener of this.#listeners) listener(true)
    })
  }

  #handleMisses(misses: number, atMs: number): void {
    const session = this.#session
    if (session === null) return
    if (misses >= MAX_MISSES) {
      this.#takeDown?.(this.#slowFault())
      return
    }
    if (atMs < this.#nextProbeAtMs) return
    // Where few requests come, probes decide whether Redis is away.
    this.#nextProbeAtMs = atMs + CHECK_MS
    const onResult = (result: CallResult): void => {
      if (result === 'answered') this.#calls.misses = 0
    }
    const probing = this.#send(
      session,
      () => session.probe(),
      (reply) => reply,
      onResult,
    )
    probing.catch((error: unknown) => this.#session === session && this.#takeDown?.(connectionFault(error)))
  }

  #slowFault(): RedisFault {
    return { kind: 'slow', reason: `no answer in ${this.#p.budgetMs} ms` }
  }

  #setAway(fault: RedisFault): void {
    this.#fault = fault
    this.#outageLog.away(fault)
  }

  #logDatabaseOnce(): void {
    const { database } = this.#address
    if (database === 0 || this.#hasLoggedDatabase) return
    this.#hasLoggedDatabase = true
    this.#p.onNotice(`REDIS_URL names database ${database}, but a Redis Cluster has only database 0: using that one`)
  }
}
