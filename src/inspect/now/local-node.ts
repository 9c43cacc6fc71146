// This process as the console shows it. It costs one reading of the counters each five seconds; the rest is done when
// somebody asks.

import type { NodeReport, NodeState, PartFacts, Queue, RefusedCount } from '../../contract/admin/now.ts'
import type { Range } from '../../contract/admin/words.ts'
import { isUp, type Part, type PartName, viewOf } from '../../contract/health.ts'
import type { Timer, Timers } from '../../lib/timers.ts'
import type { Sampler } from '../../observe/gauges.ts'
import { stateOf } from './state.ts'
import { type CountedMetrics, difference, History, type KeptGauges, readTotals, STEP_SECONDS } from './totals.ts'

const STEP_MS = STEP_SECONDS * 1000
const LATENCY_WINDOW_MS = 60_000
/** Of which the rate is taken that a forecast goes by. A shorter time than the least says too little. */
const GROWTH_WINDOW_MS = 300_000
const MIN_GROWTH_MS = 60_000
const MAX_REFUSED_COUNTS = 400

export interface LocalNodeOptions {
  readonly node: string
  readonly version: string
  readonly metrics: CountedMetrics
  /** What the metrics page shows; the parts of a start replace it. */
  readonly gauges: () => Sampler
  readonly parts: () => readonly Part[]
  readonly queueKind: Queue['kind']
  readonly refusedLastHour: () => readonly RefusedCount[]
  readonly timers: Timers
}

export class LocalNode {
  readonly #options: LocalNodeOptions
  readonly #history = new History()
  readonly startedAtMs: number
  /** Since when each part that is not up was seen so. */
  readonly #downSinceMs = new Map<PartName, number>()
  /** Since when it is degraded or refuses. */
  #degradedSinceMs: number | null = null
  #cpu = { atMs: 0, usage: process.cpuUsage(), percent: 0 }
  #timer: Timer | null = null

  constructor(options: LocalNodeOptions) {
    this.#options = options
    this.startedAtMs = options.timers.nowMs()
    this.#cpu.atMs = options.timers.monotonicMs()
  }

  get name(): string {
    return this.#options.node
  }

  start(): void {
    this.#sample()
  }

  stop(): void {
    if (this.#timer !== null) this.#options.timers.clear(this.#timer)
    this.#timer = null
  }

  /** At whole steps of the clock, so that the cells of all nodes cover the same seconds. */
  #sample(): void {
    const { timers } = this.#options
    const nowMs = timers.nowMs()
    this.#history.add(this.#totals(nowMs))
    this.#noteState(nowMs, this.#state(nowMs, {}))
    this.#measureCpu()
    // A timer may come some milliseconds early.
    const waitMs = STEP_MS - (nowMs % STEP_MS)
    this.#timer = timers.setTimeout(() => this.#sample(), waitMs < STEP_MS / 10 ? waitMs + STEP_MS : waitMs)
    this.#timer.unref()
  }

  #totals(nowMs: number): ReturnType<typeof readTotals> {
    return readTotals(this.#options.metrics, this.#keptGauges(), nowMs)
  }

  #keptGauges(): KeptGauges {
    const gauges = this.#options.gauges()
    const stream = gauges.stream?.() ?? null
    const lags = Object.values(stream?.consumerLagSeconds ?? {})
    return {
      slowestConsumerSeconds: lags.length === 0 ? null : Math.max(...lags),
      queueBytes: stream?.bytes ?? gauges.journalBytes?.() ?? null,
    }
  }

  /** The parts that are not up. */
  #noteDown(nowMs: number): readonly Part[] {
    const down = this.#options.parts().filter((part) => !isUp(part))
    for (const name of this.#downSinceMs.keys()) {
      if (!down.some(({ part }) => part === name)) this.#downSinceMs.delete(name)
    }
    for (const { part } of down) if (!this.#downSinceMs.has(part)) this.#downSinceMs.set(part, nowMs)
    return down
  }

  #measureCpu(): void {
    const atMs = this.#options.timers.monotonicMs()
    const { user, system } = process.cpuUsage(this.#cpu.usage)
    const elapsedMs = atMs - this.#cpu.atMs
    if (elapsedMs <= 0) return
    this.#cpu = { atMs, usage: process.cpuUsage(), percent: (user + system) / 10 / elapsedMs }
  }

  /** `range`: of the cells; null: none are wanted. */
  report(range: Range | null): NodeReport {
    const { node, version, metrics, timers, refusedLastHour } = this.#options
    const gauges = this.#options.gauges()
    const nowMs = timers.nowMs()
    const now = this.#totals(nowMs)
    const recent = difference(this.#history.since(nowMs - STEP_MS) ?? now, now)
    const minute = difference(this.#history.since(nowMs - LATENCY_WINDOW_MS) ?? now, now)
    const seconds = Math.max(recent.seconds, 1)
    const perSecond = (counts: Readonly<Record<string, number>>): Readonly<Record<string, number>> =>
      Object.fromEntries(Object.entries(counts).map(([name, count]) => [name, count / seconds]))
    const state = this.#state(nowMs, perSecond(recent.overloaded))
    this.#noteState(nowMs, state)
    return {
      node,
      version,
      node_js: process.version,
      started_at: new Date(this.startedAtMs).toISOString(),
      ...state,
      degraded_ms: this.#degradedSinceMs,
      connections: gauges.connections?.() ?? 0,
      cpu_percent: Math.round(this.#cpu.percent * 10) / 10,
      rss_bytes: process.memoryUsage.rss(),
      rates: {
        requests_per_second: recent.requests / seconds,
        events_accepted_per_second: recent.accepted / seconds,
        refused_per_second: perSecond(recent.refused),
        replays_per_second: recent.replays / seconds,
      },
      bounds_seconds: [...metrics.answerSeconds.bounds],
      buckets: minute.buckets,
      ring: {
        used_bytes: gauges.ringUsedBytes?.() ?? 0,
        size_bytes: gauges.ringSizeBytes?.() ?? 0,
        requests: gauges.ringRequests?.() ?? 0,
      },
      parser_queue: gauges.parserQueue?.() ?? 0,
      parts: this.#options.parts().map((part) => factsOf(part, minute)),
      queue: this.#queue(nowMs, now.queueBytes),
      refused_last_hour: refusedLastHour().slice(0, MAX_REFUSED_COUNTS),
      cells: range === null ? [] : this.#history.cells(range),
    }
  }

  #noteState(nowMs: number, { state }: NodeState): void {
    if (state === 'degraded' || state === 'refusing') this.#degradedSinceMs ??= nowMs
    else this.#degradedSinceMs = null
  }

  #state(nowMs: number, overloaded: Readonly<Record<string, number>>): NodeState {
    const gauges = this.#options.gauges()
    return stateOf({
      isReady: gauges.ready?.() === true,
      isStopping: gauges.draining?.() === true,
      isStreamUp: this.#options.parts().some((part) => part.kind === 'jetstream' && isUp(part)),
      down: this.#noteDown(nowMs).map((part) => {
        const sinceMs = this.#downSinceMs.get(part.part) ?? nowMs
        return { part, seconds: Math.round((nowMs - sinceMs) / 1000) }
      }),
      overloaded,
    })
  }

  #queue(nowMs: number, bytes: number | null): Queue {
    const { queueKind } = this.#options
    const gauges = this.#options.gauges()
    const stream = gauges.stream?.() ?? null
    const maxBytes = stream?.maxBytes ?? gauges.journalMaxBytes?.() ?? null
    const queue = {
      kind: queueKind,
      bytes,
      max_bytes: maxBytes,
      oldest_seconds: stream?.oldestSeconds ?? null,
      keep_seconds: stream?.keepSeconds ?? gauges.journalKeepSeconds?.() ?? null,
      consumers: Object.entries(stream?.consumerLagSeconds ?? {}).map(([name, lag_seconds]) => ({ name, lag_seconds })),
      audit_lag_seconds: gauges.audit?.()?.lagSeconds ?? null,
    }
    return { ...queue, full_in_seconds: this.#fullInSeconds(nowMs, queue) }
  }

  /**
   * At the rate of the last five minutes, or of the time since it began to grow. null: it does not grow, that is not known
   * yet, nothing bounds it, or what is removed by its age makes room in time.
   */
  #fullInSeconds(nowMs: number, queue: Omit<Queue, 'full_in_seconds'>): number | null {
    const { kind, bytes, max_bytes: maxBytes, oldest_seconds: oldest, keep_seconds: kept } = queue
    if (bytes === null || maxBytes === null) return null
    const known = this.#history
      .from(nowMs - GROWTH_WINDOW_MS)
      .flatMap(({ atMs, queueBytes }) => (queueBytes === null ? [] : [{ atMs, bytes: queueBytes }]))
    known.push({ atMs: nowMs, bytes })
    // A journal removes a whole segment at once, which hides what came since.
    const removal =
      kind === 'journal' ? known.findLastIndex((one, at) => at > 0 && one.bytes < known[at - 1].bytes) : -1
    const whole = known.slice(Math.max(0, removal))
    const [first] = whole
    const from = whole[whole.findIndex((one) => one.bytes > first.bytes) - 1]
    if (from === undefined || nowMs - from.atMs < MIN_GROWTH_MS || bytes <= from.bytes) return null
    const perSecond = ((bytes - from.bytes) / (nowMs - from.atMs)) * 1000
    // Messages are removed one by one: what it grows by now is beyond that.
    const isRemoving = oldest !== null && kept !== null && oldest > kept * 0.9
    if (kept !== null && !isRemoving && perSecond * kept <= maxBytes) return null
    return Math.round(Math.max(0, maxBytes - bytes) / perSecond)
  }
}

type Latencies = Pick<ReturnType<typeof difference>, 'redisCallSeconds' | 'publishSeconds'>

function factsOf(one: Part, { redisCallSeconds, publishSeconds }: Latencies): PartFacts {
  const { part, kind } = one
  const latency_seconds = part === 'queue' ? publishSeconds : kind === 'redis' ? redisCallSeconds : null
  return { part, ...viewOf(one), latency_seconds }
}
