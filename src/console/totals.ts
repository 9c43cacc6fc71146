// The counters of one process, read every five seconds for the last 15 minutes. Rates and latencies are differences of
// two readings, so the path of a request does nothing for them.

import type { Metrics, OutcomeName } from '../observe/metrics.ts'
import { isOurs } from './codes.ts'

export const STEP_SECONDS = 5
/** 15 minutes. */
export const HISTORY_CELLS = 180

/** What the history reads. */
export type CountedMetrics = Pick<
  Metrics,
  'outcomeTotals' | 'events' | 'replays' | 'requestsReceived' | 'answerSeconds' | 'stageSeconds' | 'redisCallSeconds'
>

/** Gauges that are kept with a reading. null: not known. */
export interface KeptGauges {
  readonly slowestConsumerSeconds: number | null
  readonly queueBytes: number | null
}

export interface Totals extends KeptGauges {
  readonly atMs: number
  readonly requests: number
  readonly accepted: number
  readonly replays: number
  readonly refused: Readonly<Record<string, number>>
  /** Of the time from the complete body to the answer: observations in each bucket, the last one without bound. */
  readonly buckets: Float64Array
  readonly redisCalls: { readonly count: number; readonly seconds: number }
  readonly publishes: { readonly count: number; readonly seconds: number }
}

const NO_REFUSALS: ReadonlySet<string> = new Set<OutcomeName>(['accepted', 'replayed', 'preflight', 'aborted'])

export function readTotals(metrics: CountedMetrics, gauges: KeptGauges, atMs: number): Totals {
  const { track, screen, revenue } = metrics.events
  const outcomes = Object.entries(metrics.outcomeTotals())
  const histogram = ({ counts, sum }: CountedMetrics['redisCallSeconds']): Totals['redisCalls'] => ({
    count: counts.reduce((total, count) => total + count, 0),
    seconds: sum,
  })
  return {
    ...gauges,
    atMs,
    requests: metrics.requestsReceived,
    accepted: track + screen + revenue,
    replays: metrics.replays,
    refused: Object.fromEntries(outcomes.filter(([name]) => !NO_REFUSALS.has(name))),
    buckets: metrics.answerSeconds.counts.slice(),
    redisCalls: histogram(metrics.redisCallSeconds),
    publishes: histogram(metrics.stageSeconds.publish),
  }
}

/** What happened between two readings. */
export interface Difference {
  readonly seconds: number
  readonly requests: number
  readonly accepted: number
  readonly replays: number
  readonly refused: Readonly<Record<string, number>>
  readonly buckets: readonly number[]
  /** null: none was made. */
  readonly redisCallSeconds: number | null
  readonly publishSeconds: number | null
}

export function difference(from: Totals, to: Totals): Difference {
  const mean = (before: Totals['redisCalls'], after: Totals['redisCalls']): number | null => {
    const count = after.count - before.count
    return count > 0 ? (after.seconds - before.seconds) / count : null
  }
  return {
    seconds: (to.atMs - from.atMs) / 1000,
    requests: to.requests - from.requests,
    accepted: to.accepted - from.accepted,
    replays: to.replays - from.replays,
    refused: Object.fromEntries(
      Object.entries(to.refused)
        .map(([code, count]) => [code, count - (from.refused[code] ?? 0)] as const)
        .filter(([, count]) => count > 0),
    ),
    buckets: Array.from(to.buckets, (count, at) => count - from.buckets[at]),
    redisCallSeconds: mean(from.redisCalls, to.redisCalls),
    publishSeconds: mean(from.publishes, to.publishes),
  }
}

/** Five seconds of one process, which can be added to those of others. */
export interface Cell {
  /** Unix seconds at its end, divided by the step. */
  readonly step: number
  readonly accepted_per_second: number
  readonly ours_per_second: number
  readonly rule_per_second: number
  readonly buckets: readonly number[]
  readonly slowest_consumer_seconds: number | null
}

export class History {
  /** Oldest first. */
  readonly #readings: Totals[] = []

  add(totals: Totals): void {
    const last = this.#readings.at(-1)
    // The system's clock was set back: older readings cannot be placed.
    if (last !== undefined && totals.atMs <= last.atMs) this.#readings.length = 0
    this.#readings.push(totals)
    if (this.#readings.length > HISTORY_CELLS + 1) this.#readings.shift()
  }

  /** The latest reading that is at least so old, or else the oldest; null: there is none. */
  since(atMs: number): Totals | null {
    return this.#readings.findLast((reading) => reading.atMs <= atMs) ?? this.#readings.at(0) ?? null
  }

  get cells(): Cell[] {
    return this.#readings.slice(1).map((reading, at) => {
      const { seconds, accepted, refused, buckets } = difference(this.#readings[at], reading)
      const sum = (isWanted: (code: string) => boolean): number =>
        Object.entries(refused).reduce((total, [code, count]) => total + (isWanted(code) ? count : 0), 0)
      return {
        step: Math.round(reading.atMs / 1000 / STEP_SECONDS),
        accepted_per_second: accepted / seconds,
        ours_per_second: sum(isOurs) / seconds,
        rule_per_second: sum((code) => !isOurs(code)) / seconds,
        buckets,
        slowest_consumer_seconds: reading.slowestConsumerSeconds,
      }
    })
  }
}

/**
 * The value that so many of the observations do not exceed, between the bounds of its bucket as Prometheus does it. null:
 * there are none. Beyond the last bound it is that bound.
 */
export function quantile(share: number, bounds: readonly number[], buckets: readonly number[]): number | null {
  const total = buckets.reduce((sum, count) => sum + count, 0)
  if (total <= 0) return null
  const rank = share * total
  let seen = 0
  for (let at = 0; at < bounds.length; at++) {
    const count = buckets[at]
    if (count > 0 && seen + count >= rank) {
      const from = at === 0 ? 0 : bounds[at - 1]
      return from + (bounds[at] - from) * ((rank - seen) / count)
    }
    seen += count
  }
  return bounds.at(-1) ?? null
}
