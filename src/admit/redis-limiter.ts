// The limits of all nodes together, counted in Redis. A request spends what this node holds; only where that does not
// suffice does it wait, in turn, for one call of its app to Redis. Without Redis a node goes on with its share.

import type { OnNotice } from '../lib/notice.ts'
import { errorMessage } from '../lib/errors.ts'
import { sleep, type Timer, type Timers } from '../lib/timers.ts'
import type { RateLimitView } from '../outcome.ts'
import type { App } from './app.ts'
import { AppLimits, type LimitsContext } from './app-limits.ts'
import type { Limiter, LimitRefusal, Standing } from './limiter.ts'
import { NodeRegistry } from './nodes.ts'
import { MINUTE_MS, windowStartMs } from './plans.ts'
import { readStanding } from './read-standing.ts'
import { type Ledger, UNUSED_MARK } from './reclaim.ts'
import { Reclaimer } from './reclaimer.ts'
import type { RedisLink } from './redis.ts'
import { RedisTime } from './redis-time.ts'

/** How often apps are looked through for something to tell Redis. */
const SWEEP_MS = 100
const BEAT_MS = 1000
/** Sweeps from one look for apps to forget to the next. */
const SWEEPS_PER_FORGET = 100
/** An app is forgotten so long after its last request: its windows are over by then. */
const FORGOTTEN_AFTER_MS = 2 * MINUTE_MS
/** Apps that a sweep lets call Redis at the same time. */
const MAX_CALLS = 64
/** The two clocks of a machine do not part by more, unless it slept or was set. */
const CLOCKS_PARTED_MS = 1000
/** All that `stop` may take for giving back. */
const STOP_MS = 1000
const STOP_PAUSE_MS = 20
/** Kinds of failure that are told until all of it works again. */
const MAX_FAILURES_TOLD = 8

/** 'some': Redis answers, but not for every app. */
type Mode = 'counted' | 'some' | 'away'

export interface RedisLimiterParts {
  readonly link: RedisLink
  /** New with every start of a process. */
  readonly nodeId: string
  readonly timers: Timers
  /** null: no queue is shared, and nobody can tell what a dead node had stored. */
  readonly ledger: Ledger | null
  readonly leaseRequests: { granted: number; refused: number; failed: number }
  /** Once a change: this node goes on with its share, or with all of them again; and what was taken back. */
  readonly onNotice: OnNotice
  /** For tests: no timers; `sweep` and `beat` are called by hand. */
  readonly isManual?: boolean
}

export interface RedisLimiter extends Limiter {
  /** Redis is away, for some app or for all. */
  readonly isDegraded: boolean
  /** Nodes heard lately. */
  readonly nodes: number
  /** Gives back what is in hand. Nothing may be taken after. */
  stop(): Promise<void>
}

export function openRedisLimiter(parts: RedisLimiterParts): LeasingLimiter {
  return new LeasingLimiter(parts)
}

export class LeasingLimiter implements RedisLimiter {
  readonly #parts: RedisLimiterParts
  readonly #registry: NodeRegistry
  readonly #reclaimer: Reclaimer
  readonly #context: LimitsContext
  readonly #limitsOfApp = new Map<string, AppLimits>()
  /** Apps of which Redis may have to hear. */
  readonly #active = new Set<AppLimits>()
  readonly #running: Timer[] = []
  /** Wall time minus monotonic time. */
  #wallOffsetMs: number
  #lastSeq = 0
  #lastWindowId = 0
  #sweeps = 0
  #isBeating = false
  #isStopped = false
  #isTimeUp = false
  #beatIsAway = false
  #toldMode: Mode = 'counted'
  /** What Redis refuses to count now. */
  readonly #failing = new Set<string>()
  /** Told since something began to fail. */
  readonly #toldFailures = new Set<string>()

  constructor(parts: RedisLimiterParts) {
    this.#parts = parts
    const { link, nodeId, timers, ledger, leaseRequests } = parts
    const monotonicMs = (): number => timers.monotonicMs()
    const time = new RedisTime(timers.nowMs(), monotonicMs())
    this.#wallOffsetMs = timers.nowMs() - monotonicMs()
    this.#registry = new NodeRegistry({ link, nodeId, mark: () => this.#beatMark() })
    this.#context = {
      link,
      nodeId,
      monotonicMs,
      time,
      registry: this.#registry,
      ledger,
      leaseRequests,
      nextSeq: () => ++this.#lastSeq,
      nextWindowId: () => ++this.#lastWindowId,
      onFailure: (appId, message) => this.#tellFailure(`of app ${appId}`, message),
      onSuccess: (appId) => this.#failing.delete(`of app ${appId}`),
      away: new Set(),
      indebted: new Set(),
      distrustedBeforeMs: Number.NEGATIVE_INFINITY,
    }
    this.#reclaimer = new Reclaimer({
      link,
      ledger,
      monotonicMs,
      timeMs: () => time.nowMs(monotonicMs()),
      onNotice: (message) => parts.onNotice(message),
      onFailure: (message) => {
        if (message === null) this.#failing.delete('of dead nodes')
        else this.#tellFailure('of dead nodes', message)
      },
    })
    link.onChange((isUp) => {
      if (isUp) this.#registry.linkIsBack(monotonicMs())
      else this.#registry.loseSight(monotonicMs())
      this.#tellMode()
      if (isUp && parts.isManual !== true) void this.beat()
    })
    if (parts.isManual === true) return
    this.#running.push(timers.setInterval(() => this.sweep(), SWEEP_MS))
    this.#running.push(timers.setInterval(() => void this.beat(), BEAT_MS))
    void this.beat()
  }

  /** What was stored up to here was granted, or told of: whoever reclaims need not read it. */
  #beatMark(): number {
    let mark = this.#parts.ledger?.mark() ?? UNUSED_MARK
    for (const { toldMark } of this.#context.indebted) mark = Math.min(mark, toldMark)
    return mark
  }

  get isDegraded(): boolean {
    return this.#mode !== 'counted'
  }

  get nodes(): number {
    return this.#registry.count
  }

  take(app: App, cost: number, wallMs: number): number | LimitRefusal | Promise<number | LimitRefusal> {
    if (!(cost >= 1)) throw new Error(`a request cannot cost ${cost}`)
    const nowMs = this.#parts.timers.monotonicMs()
    this.#compareClocks(wallMs, nowMs)
    const limits = this.#limitsOf(app)
    this.#active.add(limits)
    return limits.take(app, cost, nowMs)
  }

  settle(app: App, cost: number, takenAtMs: number): void {
    this.#limitsThatTook(app).settle(app, cost, takenAtMs, this.#parts.timers.monotonicMs())
  }

  giveBack(app: App, cost: number, takenAtMs: number): void {
    this.#limitsThatTook(app).giveBack(app, cost, takenAtMs, this.#parts.timers.monotonicMs())
  }

  view(app: App): RateLimitView {
    const nowMs = this.#parts.timers.monotonicMs()
    const limit = app.eventsPerMinute
    const limits = this.#limitsOfApp.get(app.appId)
    if (limits === undefined) {
      const minuteMs = windowStartMs(this.#context.time.nowMs(nowMs), MINUTE_MS)
      return { limit, remaining: limit, resetUnixSeconds: (minuteMs + MINUTE_MS) / 1000 }
    }
    const { events, endsAtMs } = limits.remaining(app, nowMs)
    return { limit, remaining: events, resetUnixSeconds: endsAtMs / 1000 }
  }

  standing(app: App): Standing | Promise<Standing> {
    const nowMs = this.#parts.timers.monotonicMs()
    const limits = this.#limitsOfApp.get(app.appId)
    const known = limits?.standing(app, nowMs)
    if (known?.isKnown || (known !== undefined && limits?.isAway)) return known.standing
    return this.#askStanding(app, limits)
  }

  async #askStanding(app: App, limits: AppLimits | undefined): Promise<Standing> {
    const nowMs = this.#parts.timers.monotonicMs()
    const timeMs = this.#context.time.nowMs(nowMs)
    const standing = await readStanding(this.#parts.link, app, timeMs, limits?.untold(app, nowMs))
    if (standing !== 'away') return standing
    return (limits ?? new AppLimits(app, this.#context)).standing(app, nowMs).standing
  }

  /** Lets each app tell Redis what is due, and forgets those that are done with. */
  sweep(): void {
    const nowMs = this.#parts.timers.monotonicMs()
    const callers: AppLimits[] = []
    for (const limits of this.#active) {
      if (callers.length >= MAX_CALLS) break
      if (!limits.sweep(nowMs)) this.#active.delete(limits)
      if (limits.isCalling) callers.push(limits)
    }
    // Those that had their turn go behind those that wait for theirs.
    for (const limits of callers) {
      this.#active.delete(limits)
      this.#active.add(limits)
    }
    this.#tellMode()
    this.#sweeps++
    if (this.#sweeps % SWEEPS_PER_FORGET !== 0) return
    for (const [appId, limits] of this.#limitsOfApp) {
      // One that Redis may have to hear of would be swept beside its successor, and undo what that one tells.
      if (this.#active.has(limits) || !limits.isForgettable(nowMs, FORGOTTEN_AFTER_MS)) continue
      this.#limitsOfApp.delete(appId)
      this.#context.onSuccess(appId)
    }
  }

  /** Makes this node heard, and takes back from those that are not. */
  async beat(): Promise<void> {
    if (this.#isBeating || this.#isStopped || !this.#parts.link.isUp) return
    this.#isBeating = true
    try {
      const sentAtMs = this.#parts.timers.monotonicMs()
      this.#compareClocks(this.#parts.timers.nowMs(), sentAtMs)
      this.#wallOffsetMs = this.#parts.timers.nowMs() - sentAtMs
      const beat = await this.#registry.beat(sentAtMs)
      this.#beatIsAway = beat === 'away'
      if (beat === 'away') return
      this.#context.time.learn(beat.clockMs, sentAtMs, this.#parts.timers.monotonicMs())
      this.#failing.delete('of nodes')
      this.#reclaimer.look(beat.dead)
    } catch (error) {
      this.#beatIsAway = true
      this.#tellFailure('of nodes', errorMessage(error))
    } finally {
      this.#isBeating = false
      this.#tellMode()
    }
  }

  /** Resolves when no app is calling Redis and nothing is being taken back. */
  async quiet(): Promise<void> {
    await Promise.all(Array.from(this.#limitsOfApp.values(), (limits) => limits.called()))
    await this.#reclaimer.quiet()
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    const { timers } = this.#parts
    for (const timer of this.#running) timers.clear(timer)
    const given = new AbortController()
    const timeUp = sleep(timers, STOP_MS, given.signal).then(() => (this.#isTimeUp = true))
    await Promise.race([this.#giveAllBack(), timeUp])
    given.abort()
  }

  /** What it could not give back in its time, others take back: they find this node silent. */
  async #giveAllBack(): Promise<void> {
    await Promise.all(Array.from(this.#limitsOfApp.values(), (limits) => limits.called()))
    for (;;) {
      const rest = [...this.#limitsOfApp.values()].filter(({ isAtRest }) => !isAtRest)
      if (rest.length === 0) return this.#registry.leave()
      if (this.#isTimeUp) return
      for (let at = 0; at < rest.length && this.#parts.link.isUp; at += MAX_CALLS) {
        const some = rest.slice(at, at + MAX_CALLS)
        for (const limits of some) limits.sync({ keeps: false })
        await Promise.all(some.map((limits) => limits.called()))
      }
      // Redis may have been lost sight of just now, and be back in a moment.
      if (rest.some(({ isAtRest }) => !isAtRest)) await sleep(this.#parts.timers, STOP_PAUSE_MS)
    }
  }

  #limitsOf(app: App): AppLimits {
    let limits = this.#limitsOfApp.get(app.appId)
    if (limits === undefined) {
      limits = new AppLimits(app, this.#context)
      this.#limitsOfApp.set(app.appId, limits)
    }
    return limits
  }

  #limitsThatTook(app: App): AppLimits {
    const limits = this.#limitsOfApp.get(app.appId)
    if (limits === undefined) throw new Error(`nothing was taken for ${app.appId}`)
    this.#active.add(limits)
    return limits
  }

  /** Where they have parted, the machine slept, or its clock was set: what is in hand may be another's by now. */
  #compareClocks(wallMs: number, nowMs: number): void {
    const partedByMs = wallMs - nowMs - this.#wallOffsetMs
    if (partedByMs < CLOCKS_PARTED_MS && partedByMs > -CLOCKS_PARTED_MS) return
    this.#wallOffsetMs += partedByMs
    this.#context.distrustedBeforeMs = nowMs
    this.#context.time.shift(partedByMs)
  }

  get #mode(): Mode {
    if (!this.#parts.link.isUp || this.#beatIsAway) return 'away'
    return this.#context.away.size > 0 ? 'some' : 'counted'
  }

  #tellMode(): void {
    const mode = this.#mode
    // After an outage one app after the other comes back: that is its end, and no news.
    if (this.#isStopped || mode === this.#toldMode || (mode === 'some' && this.#toldMode === 'away')) return
    this.#toldMode = mode
    this.#parts.onNotice(this.#noticeOf(mode), mode === 'counted' ? 'info' : undefined)
  }

  #noticeOf(mode: Mode): string {
    const share = `one share of ${this.nodes}, and what is accepted is counted later`
    switch (mode) {
      case 'away':
        return `Redis is away: limits go on with ${share}`
      case 'some': {
        const [first] = this.#context.away
        return `Redis does not answer for app ${first?.appId}, or others: their limits go on with ${share}`
      }
      case 'counted':
        return 'limits are counted in Redis again'
    }
  }

  /** Once, however often it is tried, until nothing fails any more. */
  #tellFailure(what: string, message: string): void {
    if (this.#failing.size === 0) this.#toldFailures.clear()
    this.#failing.add(what)
    if (this.#toldFailures.has(message) || this.#toldFailures.size >= MAX_FAILURES_TOLD) return
    this.#toldFailures.add(message)
    this.#parts.onNotice(`Redis refuses to count limits ${what}: ${message}`)
  }
}
