// The counters of one process, read every five seconds and kept for 15 minutes, and one reading a minute for a day. Rates
// and latencies are differences of two readings, so the path of a request does nothing for them.

import type { Cell, History as Plots } from '../../contract/admin/now.ts'
import { MAX_CELLS, type Range, type Whose } from '../../contract/admin/words.ts'
import { whoseOf } from '../../contract/codes.ts'
import type { Metrics, OutcomeName } from '../../observe/metrics.ts'

export const STEP_SECONDS = 5
const MINUTE_SECONDS = 60

/** Plots of each range: a day and a quarter of an hour are as wide. */
export const RANGES: Readonly<Record<Range, { readonly stepSeconds: Plots['step_seconds']; readonly cells: number }>> =
  {
    '15m': { stepSeconds: STEP_SECONDS, cells: MAX_CELLS },
    '1h': { stepSeconds: MINUTE_SECONDS, cells: 60 },
    '24h': { stepSeconds: 480, cells: MAX_CELLS },
  }
/** Each is one reading more than cells. */
const MAX_READINGS = 181
/** A day of some 1,200 bytes each: less than two megabytes. */
const MAX_MINUTES = 1441

/** What the history reads. */
export type CountedMetrics = Pick<
  Metrics,
  | 'outcomeTotals'
  | 'overloadedTotals'
  | 'events'
  | 'replays'
  | 'requestsReceived'
  | 'answerSeconds'
  | 'stageSeconds'
  | 'redisCallSeconds'
>

/** Gauges that are kept with a reading. null: not known. */
export interface KeptGauges {
  readonly slowestConsumerSeconds: number | null
  readonly queueBytes: number | null
}

export interface Totals extends KeptGauges {
  readonly atMs: number
  readonly requests: number
  /** Requests answered 202, replays among them. */
  readonly taken: number
  readonly accepted: number
  readonly replays: number
  /** By code, and those answered 503 by reason; none is 0. */
  readonly refused: Readonly<Record<string, number>>
  readonly overloaded: Readonly<Record<string, number>>
  /** Of the time from the complete body to the answer: observations in each bucket, the last one without bound. */
  readonly buckets: Float64Array
  readonly redisCalls: { readonly count: number; readonly seconds: number }
  readonly publishes: { readonly count: number; readonly seconds: number }
}

const NO_REFUSALS: ReadonlySet<string> = new Set<OutcomeName>(['accepted', 'replayed', 'preflight', 'aborted'])

export function readTotals(metrics: CountedMetrics, gauges: KeptGauges, atMs: number): Totals {
  const { track, screen, revenue } = metrics.events
  const outcomes = metrics.outcomeTotals()
  const counted = (totals: Readonly<Record<string, number>>): Readonly<Record<string, number>> =>
    Object.fromEntries(Object.entries(totals).filter(([name, count]) => count > 0 && !NO_REFUSALS.has(name)))
  const histogram = ({ counts, sum }: CountedMetrics['redisCallSeconds']): Totals['redisCalls'] => ({
    count: counts.reduce((total, count) => total + count, 0),
    seconds: sum,
  })
  return {
    ...gauges,
    atMs,
    requests: metrics.requestsReceived,
    taken: outcomes.accepted + outcomes.replayed,
    accepted: track + screen + revenue,
    replays: metrics.replays.same + metrics.replays.other + metrics.replays.unknown,
    refused: counted(outcomes),
    overloaded: counted(metrics.overloadedTotals()),
    buckets: metrics.answerSeconds.counts.slice(),
    redisCalls: histogram(metrics.redisCallSeconds),
    publishes: histogram(metrics.stageSeconds.publish),
  }
}

/** What happened between two readings. */
export interface Difference
  extends Pick<Totals, 'requests' | 'taken' | 'accepted' | 'replays' | 'refused' | 'overloaded'> {
  readonly seconds: number
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
    taken: to.taken - from.taken,
    accepted: to.accepted - from.accepted,
    replays: to.replays - from.replays,
    refused: added(from.refused, to.refused),
    overloaded: added(from.overloaded, to.overloaded),
    buckets: Array.from(to.buckets, (count, at) => count - from.buckets[at]),
    redisCallSeconds: mean(from.redisCalls, to.redisCalls),
    publishSeconds: mean(from.publishes, to.publishes),
  }
}

function added(before: Totals['refused'], after: Totals['refused']): Readonly<Record<string, number>> {
  const counts = Object.entries(after).map(([name, count]) => [name, count - (before[name] ?? 0)] as const)
  return Object.fromEntries(counts.filter(([, count]) => count > 0))
}

export class History {
  /** Oldest first, as the next. */
  readonly #readings: Totals[] = []
  /** At whole minutes, and the first one of all. */
  readonly #minutes: Totals[] = []

  add(totals: Totals): void {
    const last = this.#readings.at(-1)
    // The system's clock was set back: older readings cannot be placed.
    if (last !== undefined && totals.atMs <= last.atMs) {
      this.#readings.length = 0
      this.#minutes.length = 0
    }
    this.#readings.push(totals)
    if (this.#readings.length > MAX_READINGS) this.#readings.shift()
    // The last reading of a minute ends it.
    const lastMinute = this.#minutes.length > 1 ? this.#minutes.at(-1) : undefined
    if (lastMinute && stepOf(lastMinute, MINUTE_SECONDS) === stepOf(totals, MINUTE_SECONDS)) this.#minutes.pop()
    this.#minutes.push(totals)
    if (this.#minutes.length > MAX_MINUTES) this.#minutes.shift()
  }

  /** The latest reading that is at least so old, or else the oldest; null: there is none. */
  since(atMs: number): Totals | null {
    return this.#readings.findLast((reading) => reading.atMs <= atMs) ?? this.#readings.at(0) ?? null
  }

  /** The readings from then on, the last one before it included. */
  from(atMs: number): readonly Totals[] {
    return this.#readings.slice(
      Math.max(
        0,
        this.#readings.findLastIndex((reading) => reading.atMs <= atMs),
      ),
    )
  }

  cells(range: Range): Cell[] {
    const { stepSeconds, cells } = RANGES[range]
    const readings = stepSeconds === STEP_SECONDS ? this.#readings : this.#minutes
    // The last reading in a step ends it, and begins the next one.
    const ends = readings.filter((reading, at) => {
      const next = readings.at(at + 1)
      return at === 0 || next === undefined || stepOf(next, stepSeconds) !== stepOf(reading, stepSeconds)
    })
    return ends
      .slice(1)
      .map((reading, at) => cellOf(ends[at], reading, stepSeconds))
      .slice(-cells)
  }
}

/** Unix seconds at the end of the reading's step, divided by its length. A timer comes some milliseconds late. */
function stepOf({ atMs }: Totals, stepSeconds: number): number {
  return Math.ceil((Math.round(atMs / 1000 / STEP_SECONDS) * STEP_SECONDS) / stepSeconds)
}

function cellOf(from: Totals, to: Totals, stepSeconds: number): Cell {
  const { seconds, taken, accepted, refused, buckets } = difference(from, to)
  const perSecond = (whose: Whose): number =>
    Object.entries(refused).reduce((sum, [code, count]) => sum + (whoseOf(code) === whose ? count : 0), 0) / seconds
  return {
    step: stepOf(to, stepSeconds),
    accepted_per_second: accepted / seconds,
    requests_accepted_per_second: taken / seconds,
    ours_per_second: perSecond('ours'),
    client_per_second: perSecond('client'),
    limits_per_second: perSecond('limit'),
    buckets,
    slowest_consumer_seconds: to.slowestConsumerSeconds,
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
