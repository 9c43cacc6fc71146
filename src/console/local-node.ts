// This process as the console shows it. It costs one reading of the counters each five seconds; the rest is done when
// somebody asks.

import type { Health, Parts } from '../http/admin.ts'
import type { Timer, Timers } from '../lib/timers.ts'
import type { Sampler } from '../observe/sampler.ts'
import type { NodeReport, RefusedCount } from './now.ts'
import type { Part, QueueFacts, State } from './now-answer.ts'
import { type CountedMetrics, difference, History, type KeptGauges, readTotals, STEP_SECONDS } from './totals.ts'

const STEP_MS = STEP_SECONDS * 1000
const LATENCY_WINDOW_MS = 60_000
/** A shorter time says too little about when the queue will be full. */
const MIN_GROWTH_MS = 60_000
const MAX_REFUSED_COUNTS = 400

export interface LocalNodeOptions {
  readonly node: string
  readonly version: string
  readonly metrics: CountedMetrics
  /** What the metrics page shows; the parts of a start replace it. */
  readonly gauges: () => Sampler
  readonly health: Health
  readonly queueKind: QueueFacts['kind']
  /** What the settings say of the journal; the stream says it itself. */
  readonly journalKeepSeconds: number | null
  readonly refusedLastHour: () => readonly RefusedCount[]
  readonly timers: Timers
}

export class LocalNode {
  readonly #options: LocalNodeOptions
  readonly #history = new History()
  readonly #startedAtMs: number
  /** When each part was first seen away. */
  readonly #awaySinceMs = new Map<string, number>()
  #cpu = { atMs: 0, usage: process.cpuUsage(), percent: 0 }
  #timer: Timer | null = null

  constructor(options: LocalNodeOptions) {
    this.#options = options
    this.#startedAtMs = options.timers.nowMs()
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
    this.#noteAway(nowMs)
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

  #noteAway(nowMs: number): readonly string[] {
    const { redisUp, natsUp } = this.#options.gauges()
    const away = [redisUp?.() === false ? 'Redis' : null, natsUp?.() === false ? 'NATS' : null].filter(
      (part) => part !== null,
    )
    for (const part of this.#awaySinceMs.keys()) if (!away.includes(part)) this.#awaySinceMs.delete(part)
    for (const part of away) if (!this.#awaySinceMs.has(part)) this.#awaySinceMs.set(part, nowMs)
    return away
  }

  #measureCpu(): void {
    const atMs = this.#options.timers.monotonicMs()
    const { user, system } = process.cpuUsage(this.#cpu.usage)
    const elapsedMs = atMs - this.#cpu.atMs
    if (elapsedMs <= 0) return
    this.#cpu = { atMs, usage: process.cpuUsage(), percent: (user + system) / 10 / elapsedMs }
  }

  async report({ withHistory }: { withHistory: boolean }): Promise<NodeReport> {
    const { node, version, metrics, timers, refusedLastHour } = this.#options
    const gauges = this.#options.gauges()
    const nowMs = timers.nowMs()
    const now = this.#totals(nowMs)
    const recent = difference(this.#history.since(nowMs - STEP_MS) ?? now, now)
    const minute = difference(this.#history.since(nowMs - LATENCY_WINDOW_MS) ?? now, now)
    const seconds = Math.max(recent.seconds, 1)
    const parts = await this.#options.health.parts()
    return {
      node,
      version,
      node_js: process.version,
      started_at: new Date(this.#startedAtMs).toISOString(),
      ...this.#state(nowMs, parts),
      connections: gauges.connections?.() ?? 0,
      cpu_percent: Math.round(this.#cpu.percent * 10) / 10,
      rss_bytes: process.memoryUsage.rss(),
      rates: {
        requests_per_second: recent.requests / seconds,
        events_accepted_per_second: recent.accepted / seconds,
        refused_per_second: Object.fromEntries(
          Object.entries(recent.refused).map(([code, count]) => [code, count / seconds]),
        ),
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
      parts: describeParts(parts, gauges, minute),
      queue: this.#queue(nowMs, now.queueBytes),
      refused_last_hour: refusedLastHour().slice(0, MAX_REFUSED_COUNTS),
      cells: withHistory ? this.#history.cells : [],
    }
  }

  #state(nowMs: number, parts: Parts): { state: State; state_reason: string | null } {
    const gauges = this.#options.gauges()
    if (gauges.draining?.() === true) return { state: 'draining', state_reason: null }
    const away = this.#noteAway(nowMs)
    if (gauges.ready?.() !== true) {
      const waited = away.length > 0 ? `waiting for ${away.join(' and ')}` : parts['service']
      return { state: 'not ready', state_reason: waited ?? null }
    }
    const degraded = Object.entries(gauges.degraded?.() ?? {}).filter(([, isDegraded]) => isDegraded)
    if (away.length === 0 && degraded.length === 0) return { state: 'serving', state_reason: null }
    const reasons = away.map((part) => {
      const seconds = Math.round((nowMs - (this.#awaySinceMs.get(part) ?? nowMs)) / 1000)
      return `${part} away for ${seconds} s`
    })
    return {
      state: 'degraded',
      state_reason: reasons.length > 0 ? reasons.join(', ') : degraded.map(([part]) => `${part} degraded`).join(', '),
    }
  }

  #queue(nowMs: number, bytes: number | null): QueueFacts {
    const { queueKind, journalKeepSeconds } = this.#options
    const gauges = this.#options.gauges()
    const stream = gauges.stream?.() ?? null
    const maxBytes = stream?.maxBytes ?? gauges.journalMaxBytes?.() ?? null
    return {
      kind: queueKind,
      bytes,
      max_bytes: maxBytes,
      oldest_seconds: stream?.oldestSeconds ?? null,
      keep_seconds: queueKind === 'stream' ? (stream?.keepSeconds ?? null) : journalKeepSeconds,
      full_in_seconds: this.#fullInSeconds(nowMs, bytes, maxBytes),
      consumers: Object.entries(stream?.consumerLagSeconds ?? {}).map(([name, lag_seconds]) => ({ name, lag_seconds })),
      audit_lag_seconds: gauges.audit?.()?.lagSeconds ?? null,
    }
  }

  /** At the rate of the last 15 minutes; null: it does not grow, or nothing bounds it. */
  #fullInSeconds(nowMs: number, bytes: number | null, maxBytes: number | null): number | null {
    const oldest = this.#history.since(0)
    if (bytes === null || maxBytes === null || oldest === null || oldest.queueBytes === null) return null
    const elapsedMs = nowMs - oldest.atMs
    const grown = bytes - oldest.queueBytes
    if (elapsedMs < MIN_GROWTH_MS || grown <= 0) return null
    return Math.round(((Math.max(0, maxBytes - bytes) / grown) * elapsedMs) / 1000)
  }
}

interface Latencies {
  readonly redisCallSeconds: number | null
  readonly publishSeconds: number | null
}

/** Under the names that people know: `queue: JetStream connected` is NATS, `limits: Redis connected` is Redis. */
function describeParts(parts: Parts, gauges: Sampler, { redisCallSeconds, publishSeconds }: Latencies): Part[] {
  return Object.entries(parts).map(([name, state]): Part => {
    if (name === 'limits' && gauges.redisUp !== undefined) {
      return { part: 'Redis', state: withoutName(state), up: gauges.redisUp(), latency_seconds: redisCallSeconds }
    }
    if (name === 'queue' && gauges.natsUp !== undefined) {
      return { part: 'NATS', state: withoutName(state), up: gauges.natsUp(), latency_seconds: publishSeconds }
    }
    const up = name === 'queue' ? state === 'journal ok' : gauges.degraded?.()[name] !== true && name !== 'service'
    return { part: name, state, up, latency_seconds: name === 'queue' ? publishSeconds : null }
  })
}

function withoutName(state: string): string {
  return state.replace(/^(?:JetStream|Redis) /, '')
}
