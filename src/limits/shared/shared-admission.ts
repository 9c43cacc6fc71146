// Limits and keys across nodes. A fast app spends from a token budget that this node holds; every other request joins its
// turn's one call to Redis. While Redis is away, each node enforces its share of what was left.

import type { App } from '../../apps/app.ts'
import type { Charge } from '../../contract/charge.ts'
import type { RateLimitView, WindowView } from '../../contract/outcome.ts'
import { partitionOf } from '../../contract/partition.ts'
import type { Claim, Replay } from '../../keys/deduplicator.ts'
import type { OnNotice } from '../../lib/notice.ts'
import { MINUTE_MS } from '../../lib/spans.ts'
import type { Timer } from '../../lib/timers.ts'
import type { QueueRefusal } from '../../queue/queue.ts'
import type { Doubt } from '../../queue/stream/publisher-options.ts'
import type { RedisFault } from '../../redis/fault.ts'
import { RedisTime } from '../../redis/time.ts'
import { type Admission, type Admitted, type End, KEYS_FULL } from '../admission.ts'
import { type DaysUsed, type Usage, windowViews } from '../limiter.ts'
import type { AppBudget } from './app-budget.ts'
import { AppBudgets } from './app-budgets.ts'
import type { SharedContext } from './context.ts'
import { Doubts } from './doubts.ts'
import { Heartbeat } from './nodes.ts'
import { RequestKeys } from './request-keys.ts'
import { SpooledEvents } from './spooled-events.ts'
import { idempotencyKey } from './take.ts'
import { Takes, taken } from './takes.ts'
import { TurnCalls } from './turn-calls.ts'
import { readDays, readUsages, usageOf } from './usage.ts'

const TICK_MS = 1000
/** An app that has sent nothing for longer gives its token budget back. */
const IDLE_AFTER_MS = 1000

/** Calls to Redis by result, and requests that were decided without it. */
export interface LimitCalls {
  answered: number
  slow: number
  failed: number
  without: number
}

export interface SharedAdmissionOptions extends SharedContext {
  /** Most keys that this process remembers: accepted here in the last 300 s, or in flight. */
  readonly maxKeys: number
  readonly seed: number
  /** Incremented here. */
  readonly calls: LimitCalls
  readonly onNotice: OnNotice
}

export class SharedAdmission implements Admission {
  readonly #options: SharedAdmissionOptions
  readonly #time: RedisTime
  readonly #turnCalls: TurnCalls
  readonly #takes: Takes
  readonly #keys: RequestKeys
  readonly #doubts: Doubts
  readonly #budgets: AppBudgets
  readonly #heartbeat: Heartbeat
  readonly #timer: Timer
  #spooled: SpooledEvents | null = null

  constructor(options: SharedAdmissionOptions) {
    this.#options = options
    const { link, timers, partitions } = options
    this.#time = new RedisTime(timers.nowMs(), timers.monotonicMs())
    this.#budgets = new AppBudgets(partitions)
    this.#heartbeat = new Heartbeat({ ...options, time: this.#time })
    this.#turnCalls = new TurnCalls({
      ...options,
      time: this.#time,
      onGranted: (budget) => this.#budgets.withTokens.add(budget),
      onLost: (partitions) => this.#handleLoss(partitions),
      onServed: (partition, fault) => this.#handleServed(partition, fault),
    })
    this.#takes = new Takes({
      ...options,
      turnCalls: this.#turnCalls,
      nowMs: () => this.#nowMs(),
      nodes: () => this.#heartbeat.nodes,
    })
    this.#keys = new RequestKeys({ ...options, turnCalls: this.#turnCalls })
    this.#doubts = new Doubts(options)
    this.#timer = timers.setInterval(() => this.#tick(), TICK_MS)
    this.#timer.unref()
    link.onChange((isUp) => {
      if (!isUp) return this.#turnCalls.abandonLate()
      this.#doubts.write()
      this.#turnCalls.resume()
      void this.#beat()
    })
    if (link.isUp) void this.#beat()
  }

  /** Nodes as last seen, this one included. */
  get nodes(): number {
    return this.#heartbeat.nodes
  }

  get keysRemembered(): number {
    return this.#keys.size
  }

  /** Redis answers, and limits of some partition go by shares, since it has lost its counts. */
  get hasForgotten(): boolean {
    return this.#turnCalls.hasForgotten
  }

  /** Partitions whose hash slots the cluster does not serve: their limits go by shares. */
  get unserved(): readonly number[] {
    return this.#turnCalls.unserved
  }

  /** With a spool, whose batches Redis counts apart. */
  countSpool(spoolId: string): SpooledEvents {
    this.#spooled = new SpooledEvents({ ...this.#options, spoolId })
    return this.#spooled
  }

  /** A key that an earlier process accepted and that is not in the stream yet. */
  restoreKey(batchId: string, events: number, acceptedAtMs: number): void {
    this.#keys.restore(batchId, events, acceptedAtMs)
  }

  admit(app: App, events: number, batchId: string | null, refusal: QueueRefusal | null): Admitted | Promise<Admitted> {
    const atMs = this.#options.timers.monotonicMs()
    const budget = this.#budgetFor(app, atMs)
    if (batchId === null && refusal !== null) return this.#takes.take(budget, events, null, refusal)
    if (batchId === null) {
      budget.countRequest(events, atMs)
      if (this.#spend(budget, events)) {
        return taken(events, budget.tokensMinute, budget.tokensCycle, this.#time.nowMs(atMs))
      }
      return this.#takes.take(budget, events, null, null)
    }
    const claim = this.#keys.claim(batchId)
    const admitClaimed = (result: Claim): Promise<Admitted> =>
      this.#admitKeyed(budget, events, batchId, result, refusal)
    return claim instanceof Promise ? claim.then(admitClaimed) : admitClaimed(claim)
  }

  async #admitKeyed(
    budget: AppBudget,
    events: number,
    batchId: string,
    claim: Claim,
    refusal: QueueRefusal | null,
  ): Promise<Admitted> {
    if (claim.kind === 'replay') return claim
    if (claim.kind === 'full' && !this.#keys.claimBeyondMemory(batchId)) return KEYS_FULL
    let admitted: Admitted | null = null
    try {
      admitted = await this.#takes.take(budget, events, idempotencyKey(budget.partition, batchId), refusal)
    } finally {
      if (admitted?.kind !== 'taken') this.#keys.releaseLocal(batchId)
    }
    return admitted
  }

  replayOf(app: App, batchId: string): Promise<Replay | null> {
    return this.#keys.replayOf(app, batchId)
  }

  end(app: App, charge: Charge, batchId: string | null, end: End, events: number, eventsHash = 0): void {
    // 'unknown' stays counted until the audit knows, and so does what an earlier request took that is in doubt.
    if ((end === 'duplicate' || end === 'refused') && charge.isOfDoubt !== true) this.#refund(app.appId, charge)
    const isStored = end === 'stored' || end === 'duplicate'
    if (isStored && charge.isOfDoubt && batchId !== null) this.#doubts.settled(this.#partitionOf(app), batchId)
    if (batchId !== null) this.#keys.end(app, batchId, end, events, eventsHash)
  }

  /** A batch of this node ends in doubt: to be called before its `end`. */
  doubt(doubt: Doubt): void {
    this.#doubts.add(doubt)
  }

  view(app: App): RateLimitView {
    const minute = this.#minute()
    const used = this.#budgets.find(app.appId)?.usedInMinute(minute) ?? 0
    return {
      limit: app.eventsPerMinute,
      remaining: Math.max(0, app.eventsPerMinute - used),
      resetUnixSeconds: ((minute + 1) * MINUTE_MS) / 1000,
    }
  }

  nearLimits(app: App, always: boolean): readonly WindowView[] | null {
    const minute = this.#minute()
    const budget = this.#budgets.find(app.appId)
    if (budget === undefined || !(always || budget.isNearLimit(app, minute))) return null
    budget.turnCycleTo(minute)
    return windowViews(app, usageOf(app, budget.usedAt(minute), { atMs: this.#nowMs(), minute, cycle: budget.cycle }))
  }

  async days(apps: readonly App[]): Promise<readonly DaysUsed[] | 'away'> {
    // What it has not got back yet would be missing.
    return this.hasForgotten ? 'away' : await readDays(this.#options.link, apps, this.#options.partitions)
  }

  async usages(apps: readonly App[]): Promise<readonly Usage[] | 'away'> {
    const { link, partitions } = this.#options
    return await readUsages(link, apps, { partitions, nowMs: this.#nowMs() })
  }

  /** Gives every token budget back and writes the accepted keys, then takes this node off the list. */
  async stop(): Promise<void> {
    this.#options.timers.clear(this.#timer)
    for (const budget of this.#budgets.withTokens) this.#returnTokens(budget)
    this.#doubts.write()
    await this.#turnCalls.idle()
    try {
      await this.#spooled?.stop()
    } finally {
      await this.#heartbeat.leave()
    }
  }

  /** `app` has to be the newest record: the one of a request that arrives now. */
  #budgetFor(app: App, atMs: number): AppBudget {
    const budget = this.#budgets.get(app)
    budget.use(app, Math.floor(this.#time.nowMs(atMs) / MINUTE_MS), atMs)
    // A changed record or a new minute has emptied the token budget, which Redis still counts.
    if (budget.corrections.size > 0) this.#turnCalls.add(budget)
    return budget
  }

  #partitionOf({ appId }: App): number {
    return partitionOf(appId, this.#options.partitions)
  }

  #minute(): number {
    return Math.floor(this.#nowMs() / MINUTE_MS)
  }

  #nowMs(): number {
    return this.#time.nowMs(this.#options.timers.monotonicMs())
  }

  /** Takes from the token budget, and requests a refill before it runs dry. */
  #spend(budget: AppBudget, events: number): boolean {
    if (!budget.spend(events)) return false
    if (budget.isLow && !budget.needsRefill && this.#options.link.isUp) {
      budget.needsRefill = true
      this.#turnCalls.add(budget)
    }
    return true
  }

  #refund(appId: string, { minute, events }: Charge): void {
    const budget = this.#budgets.find(appId)
    if (budget === undefined || events === 0) return
    budget.correct(minute, events)
    this.#turnCalls.add(budget)
  }

  #returnTokens(budget: AppBudget): void {
    budget.returnTokens()
    this.#budgets.withTokens.delete(budget)
    if (budget.corrections.size > 0) this.#turnCalls.add(budget)
  }

  /** The call of every partition comes after the heartbeat: a Redis that stalls is missed by one call, not by 16. */
  async #beat(): Promise<void> {
    if (await this.#heartbeat.send()) this.#turnCalls.beat()
  }

  /** The calls of a second notice it one partition after the other: the log writes one line of them, and one with the count. */
  #handleLoss(partitions: readonly number[]): void {
    for (const budget of this.#budgets.acknowledgedIn(partitions)) this.#turnCalls.restore(budget)
    this.#spooled?.lost(partitions)
    this.#options.onNotice(
      "Redis has lost counts (it was emptied, or went back to an older state): no event is lost; limits go by this node's share until the audit has written the counts again, some seconds",
    )
  }

  #handleServed(partition: number, fault: RedisFault | null): void {
    if (fault === null) this.#options.onNotice(`Redis Cluster serves partition ${partition} again`, 'info')
    else
      this.#options.onNotice(
        `Redis Cluster does not serve partition ${partition}: ${fault.reason}; requests get 202 as before: limits of its apps go by this node's share until it is served`,
      )
  }

  #tick(): void {
    const atMs = this.#options.timers.monotonicMs()
    const minute = this.#minute()
    for (const budget of this.#budgets.withTokens) {
      if (budget.tokensMinute < minute || atMs - budget.usedAtMs > IDLE_AFTER_MS) this.#returnTokens(budget)
    }
    this.#keys.sweep()
    // While Redis is away, has forgotten or does not serve a partition, a budget is all that enforces its app's limits.
    if (this.#options.link.isUp && !this.hasForgotten && this.unserved.length === 0) this.#budgets.forgetIdle(atMs)
    this.#doubts.write()
    this.#turnCalls.probe()
    void this.#beat()
  }
}
