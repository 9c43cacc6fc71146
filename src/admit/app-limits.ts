// One app's limits on one node: its lease, the requests that wait for more than the lease has, and the calls to Redis,
// at most one at a time. Times are monotonic, except where they go into the lease.

import { errorMessage } from '../lib/errors.ts'
import type { App } from './app.ts'
import { type Counts, Lease } from './lease.ts'
import { MAX_COSTS_PER_CALL, type SyncCall, type SyncReply, syncLease } from './lease-script.ts'
import type { LimitRefusal, Standing } from './limiter.ts'
import type { NodeRegistry } from './nodes.ts'
import type { Ledger } from './reclaim.ts'
import type { RedisLink } from './redis.ts'
import type { RedisTime } from './redis-time.ts'

/** What was spent and settled is told at the latest after so long. */
const TOLD_WITHIN_MS = 1000
/** What is in hand goes back after so long without a request. */
const IDLE_MS = 1000
/** Redis does not do a call that reaches it later than this. */
const CALL_DEADLINE_MS = 1000
/** After a call without an answer, the next one. */
const RETRY_MS = 250
/** A lease is spent without asking for so long after its last call was sent; a dead node's is reclaimed much later. */
const TRUSTED_MS = 5000
/** For so long after a refusal, what does not fit by what is known is refused without asking again. */
const REFUSAL_HOLDS_MS = 75
/** Calls in a row that met another window than was meant; then the share decides. */
const MAX_MISSES = 3
/** More than any ring has slots. */
const MAX_WAITING = 1_000_000

/** What the apps of one node share. */
export interface LimitsContext {
  readonly link: RedisLink
  readonly nodeId: string
  readonly monotonicMs: () => number
  readonly time: RedisTime
  readonly registry: NodeRegistry
  readonly ledger: Ledger | null
  readonly leaseRequests: { granted: number; refused: number; failed: number }
  readonly nextSeq: () => number
  readonly nextWindowId: () => number
  /** Redis refused a call. */
  readonly onFailure: (appId: string, message: string) => void
  /** Redis answered a call. */
  readonly onSuccess: (appId: string) => void
  /** Apps whose last call had no answer. */
  readonly away: Set<AppLimits>
  /** Apps that went on with their share, and have not told of it. */
  readonly indebted: Set<AppLimits>
  /** What was granted to calls sent before is not trusted. */
  distrustedBeforeMs: number
}

interface Waiter {
  readonly app: App
  readonly cost: number
  readonly resolve: (taken: number | LimitRefusal) => void
  readonly reject: (error: unknown) => void
}

export class AppLimits {
  readonly #context: LimitsContext
  readonly #lease: Lease
  /** First come, first served; those at the front may be in a call. */
  readonly #waiting: Waiter[] = []
  /** At most one call at a time. */
  #isCalling = false
  #calls: Promise<void> = Promise.resolve()
  #isAway = false
  #retryAtMs = 0
  /** Of the first change that Redis was not told; null: there is none. */
  #changedAtMs: number | null = null
  #usedAtMs = 0
  /** When the last answered call was sent. */
  #sentAtMs = Number.NEGATIVE_INFINITY
  #refusedAtMs = Number.NEGATIVE_INFINITY
  #toldMark: number

  constructor(app: App, context: LimitsContext) {
    this.#context = context
    this.#lease = new Lease(app, context.nextWindowId)
    this.#toldMark = this.#mark
  }

  get appId(): string {
    return this.#lease.appId
  }

  /** Redis is away for this app: its share decides. */
  get isAway(): boolean {
    return this.#isAway || !this.#context.link.isUp
  }

  /** Redis is being called. */
  get isCalling(): boolean {
    return this.#isCalling
  }

  get #mark(): number {
    return Math.max(0, this.#context.ledger?.mark() ?? 0)
  }

  /** The queue's mark at the last full account that Redis has answered: what was stored up to it is in there. */
  get toldMark(): number {
    return this.#toldMark
  }

  /** Resolves when no call is under way. */
  called(): Promise<void> {
    return this.#calls
  }

  take(app: App, cost: number, nowMs: number): number | LimitRefusal | Promise<number | LimitRefusal> {
    this.#usedAtMs = nowMs
    if (this.#waiting.length === 0) {
      const timeMs = this.#context.time.nowMs(nowMs)
      if (this.#isTrusted(nowMs)) {
        const taken = this.#lease.spend(app, cost, timeMs)
        if (taken !== null) {
          this.#changedAtMs ??= nowMs
          if (this.#lease.isLow && !this.#isCalling && !this.isAway) this.sync({ keeps: true })
          return taken
        }
      }
      if (this.isAway) return this.#takeShare(app, cost, timeMs, nowMs)
      if (nowMs - this.#refusedAtMs < REFUSAL_HOLDS_MS) {
        const refusal = this.#lease.knownRefusal(app, cost, timeMs)
        if (refusal !== null) return refusal
      }
    }
    if (this.#waiting.length >= MAX_WAITING) throw new Error('more requests wait for one app than a ring can hold')
    return new Promise((resolve, reject) => {
      this.#waiting.push({ app, cost, resolve, reject })
      this.sync({ keeps: true })
    })
  }

  settle(app: App, cost: number, takenAtMs: number, nowMs: number): void {
    this.#lease.settle(app, cost, takenAtMs)
    this.#changedAtMs ??= nowMs
  }

  /** Less than nothing: it has cost more than was taken. */
  giveBack(app: App, cost: number, takenAtMs: number, nowMs: number): void {
    this.#lease.giveBack(app, cost, takenAtMs)
    if (cost < 0) this.#context.indebted.add(this)
    this.#changedAtMs ??= nowMs
  }

  /** What the answer's headers show. */
  remaining(app: App, nowMs: number): { readonly events: number; readonly endsAtMs: number } {
    const { time, registry } = this.#context
    return this.#lease.remaining(app, time.nowMs(nowMs), this.isAway ? registry.count : 1)
  }

  standing(app: App, nowMs: number): { readonly standing: Standing; readonly isKnown: boolean } {
    return this.#lease.standing(app, this.#context.time.nowMs(nowMs))
  }

  untold(app: App, nowMs: number): Counts {
    return this.#lease.untold(app, this.#context.time.nowMs(nowMs))
  }

  /** Nothing is left of this app that matters, and nobody has used it for so long. */
  isForgettable(nowMs: number, idleMs: number): boolean {
    return !this.#isCalling && nowMs - this.#usedAtMs > idleMs && this.#lease.isClosed
  }

  /** Whether Redis knows all that there is to know, and this node holds nothing. */
  get isAtRest(): boolean {
    return this.#lease.isAtRest
  }

  /** Tells Redis what is due. false: there is nothing to look after here until the next request. */
  sweep(nowMs: number): boolean {
    if (this.#isCalling) return true
    const lease = this.#lease
    const isIdle = nowMs - this.#usedAtMs >= IDLE_MS
    const hasEnded = lease.hasEnded(this.#context.time.nowMs(nowMs))
    const isAtRest = lease.isAtRest
    const isLate = this.#changedAtMs !== null && nowMs - this.#changedAtMs >= TOLD_WITHIN_MS
    if (isLate || hasEnded || this.#isAway || (isIdle && !isAtRest)) {
      const isTried = this.#context.link.isUp && (!this.#isAway || nowMs >= this.#retryAtMs)
      if (isTried) this.sync({ keeps: !isIdle && !hasEnded })
      return true
    }
    return this.#changedAtMs !== null || !isAtRest
  }

  /** Tells Redis how things stand, and asks for what the waiting requests need. */
  sync({ keeps }: { keeps: boolean }): void {
    if (!this.#isCalling) this.#calls = this.#callUntilServed(keeps)
  }

  async #callUntilServed(keeps: boolean): Promise<void> {
    this.#isCalling = true
    let misses = 0
    try {
      for (;;) {
        const isProbe = this.#isAway
        const result = await this.#callOnce(keeps, isProbe)
        if (result === 'missed') misses++
        if (result === 'away' || misses === MAX_MISSES) return this.#serveFromShare()
        if (result === 'done') this.#serveFromLease()
        // A probe has told only what Redis had heard of before.
        if (this.#waiting.length === 0 && !isProbe && result === 'done') return
      }
    } catch (error) {
      if (this.#waiting.length === 0) this.#context.onFailure(this.appId, errorMessage(error))
      for (const { reject } of this.#waiting.splice(0)) reject(error)
    } finally {
      // In the same turn in which nobody was left waiting: whoever comes next makes the next call.
      this.#isCalling = false
    }
  }

  async #callOnce(keeps: boolean, isProbe: boolean): Promise<'done' | 'missed' | 'away'> {
    const { link, registry, time, leaseRequests, monotonicMs } = this.#context
    let call: SyncCall
    let sentAtMs: number
    let reply: SyncReply | 'away'
    try {
      if ((await registry.register(this.#lease.appId)) === 'away') return this.#hasFailed()
      sentAtMs = monotonicMs()
      call = this.#nextCall(keeps, isProbe, sentAtMs)
      reply = await syncLease(link, this.#lease.appId, call)
    } catch (error) {
      this.#context.onFailure(this.appId, errorMessage(error))
      return this.#hasFailed()
    }
    if (reply === 'away') return this.#hasFailed()
    const nowMs = monotonicMs()
    time.learn(reply.clockMs, sentAtMs, nowMs)
    if (reply.kind === 'ignored') return 'missed'

    this.#isAway = false
    this.#context.away.delete(this)
    this.#context.onSuccess(this.appId)
    this.#sentAtMs = sentAtMs
    const results = this.#lease.answered(call, reply)
    this.#toldMark = call.mark
    // A probe leaves out what Redis has not heard of.
    if (!isProbe) this.#context.indebted.delete(this)
    this.#changedAtMs = this.#lease.isTold ? null : nowMs
    if (results === 'again') {
      time.believe(reply.clockMs, nowMs)
      return 'missed'
    }
    const isRefused = results.some((result) => typeof result !== 'number')
    if (isRefused) this.#refusedAtMs = nowMs
    if (isRefused) leaseRequests.refused++
    else if (call.costs.length > 0 || call.hold > 0) leaseRequests.granted++
    for (const [at, { resolve }] of this.#waiting.splice(0, results.length).entries()) resolve(results[at])
    return 'done'
  }

  #nextCall(keeps: boolean, isProbe: boolean, nowMs: number): SyncCall {
    const { nodeId, time, registry, nextSeq } = this.#context
    const timeMs = time.nowMs(nowMs)
    const costs = isProbe ? [] : this.#waiting.slice(0, MAX_COSTS_PER_CALL).map(({ cost }) => cost)
    const isTrusted = this.#isTrusted(nowMs)
    return this.#lease.call(
      {
        node: nodeId,
        seq: nextSeq(),
        deadlineMs: timeMs + CALL_DEADLINE_MS,
        mark: isProbe ? this.#toldMark : this.#mark,
        nodes: registry.count,
        costs,
        keeps: costs.length > 0 || (keeps && isTrusted && !isProbe),
        isProbe,
      },
      timeMs,
      nowMs,
    )
  }

  #hasFailed(): 'away' {
    this.#context.leaseRequests.failed++
    this.#isAway = true
    this.#context.away.add(this)
    this.#retryAtMs = this.#context.monotonicMs() + RETRY_MS
    return 'away'
  }

  /** Those who wait, in their turn, as far as what is in hand goes, or what is known refuses them. */
  #serveFromLease(): void {
    const { time, monotonicMs } = this.#context
    const nowMs = monotonicMs()
    const timeMs = time.nowMs(nowMs)
    const asksAgain = nowMs - this.#refusedAtMs >= REFUSAL_HOLDS_MS
    let served = 0
    for (const { app, cost, resolve } of this.#waiting) {
      const result =
        this.#lease.spend(app, cost, timeMs) ?? (asksAgain ? null : this.#lease.knownRefusal(app, cost, timeMs))
      if (result === null) break
      this.#changedAtMs ??= nowMs
      resolve(result)
      served++
    }
    this.#waiting.splice(0, served)
  }

  #serveFromShare(): void {
    const { time, monotonicMs } = this.#context
    const nowMs = monotonicMs()
    const timeMs = time.nowMs(nowMs)
    for (const { app, cost, resolve } of this.#waiting.splice(0)) resolve(this.#takeShare(app, cost, timeMs, nowMs))
  }

  #takeShare(app: App, cost: number, timeMs: number, nowMs: number): number | LimitRefusal {
    const taken = this.#lease.spendShare(app, cost, timeMs, this.#context.registry.count)
    if (typeof taken !== 'number') return taken
    this.#changedAtMs ??= nowMs
    this.#context.indebted.add(this)
    return taken
  }

  /** A process that was stopped for a while must not spend what others have taken back from it. */
  #isTrusted(nowMs: number): boolean {
    return nowMs - this.#sentAtMs < TRUSTED_MS && this.#sentAtMs > this.#context.distrustedBeforeMs
  }
}
