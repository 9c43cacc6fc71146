// What the service does now: each process says it of itself, and any of them adds the answers up.

import type {
  HistoryView,
  NodeFacts,
  NodeLine,
  Now,
  Part,
  Plot,
  QueueFacts,
  Rates,
  RingFacts,
  State,
} from './now-answer.ts'
import { type Cell, HISTORY_CELLS, quantile, STEP_SECONDS } from './totals.ts'

export interface RefusedCount {
  readonly app_id: string | null
  readonly code: string
  readonly count: number
}

/** One process of itself. Counts can be added to those of others. */
export interface NodeReport extends NodeFacts {
  readonly state: State
  readonly state_reason: string | null
  readonly rates: Rates
  /** Of the last 60 s. */
  readonly bounds_seconds: readonly number[]
  readonly buckets: readonly number[]
  readonly ring: RingFacts
  readonly parser_queue: number
  readonly parts: readonly Part[]
  readonly queue: QueueFacts
  readonly refused_last_hour: readonly RefusedCount[]
  /** Empty where it was not asked for. */
  readonly cells: readonly Cell[]
}

/** A process that answered before and does not now. */
export interface SilentNode {
  readonly report: NodeReport
  readonly silentSeconds: number
}

const TOP = 5

export interface Gathered {
  readonly reports: readonly NodeReport[]
  readonly silent: readonly SilentNode[]
  /** Why other nodes cannot be asked; null: they can, or there are none. */
  readonly problem: string | null
}

export function mergeNow(
  { reports, silent, problem }: Gathered,
  { nowMs, withHistory }: { nowMs: number; withHistory: boolean },
): Now {
  const all = { reports, silent, problem }
  const bounds = reports.at(0)?.bounds_seconds ?? []
  const buckets = addedLists(reports.map((report) => report.buckets))
  const p50 = quantile(0.5, bounds, buckets)
  const p99 = quantile(0.99, bounds, buckets)
  return {
    time: new Date(nowMs).toISOString(),
    ...mergeState(all),
    nodes: nodeLines(all),
    rates: mergeRates(reports.map((report) => report.rates)),
    latency_seconds: p50 === null || p99 === null ? null : { p50, p99 },
    ring: {
      used_bytes: sum(reports, ({ ring }) => ring.used_bytes),
      size_bytes: sum(reports, ({ ring }) => ring.size_bytes),
      requests: sum(reports, ({ ring }) => ring.requests),
    },
    parser_queue: sum(reports, (report) => report.parser_queue),
    parts: mergeParts(reports),
    queue: mergeQueue(reports.map((report) => report.queue)),
    refused_last_hour: mergeRefused(reports.flatMap((report) => report.refused_last_hour)),
    ...(withHistory ? { history: mergeHistory(reports, bounds, nowMs) } : {}),
  }
}

function mergeState({ reports, silent, problem }: Gathered): { state: State; state_reason: string | null } {
  const first = (state: State): NodeReport | undefined => reports.find((report) => report.state === state)
  const isAll = (state: State): boolean => reports.length > 0 && reports.every((report) => report.state === state)
  const count = reports.length + silent.length
  if (reports.length === 0) return { state: 'not ready', state_reason: problem ?? 'no node answers' }
  if (isAll('draining')) return { state: 'draining', state_reason: null }
  if (!reports.some(({ state }) => state === 'serving' || state === 'degraded')) {
    return { state: 'not ready', state_reason: first('not ready')?.state_reason ?? null }
  }
  const degraded = first('degraded')
  if (degraded !== undefined) return { state: 'degraded', state_reason: degraded.state_reason }
  if (problem !== null) return { state: 'degraded', state_reason: problem }
  if (silent.length > 0) {
    return {
      state: 'degraded',
      state_reason: `${silent.length} of ${count} nodes ${silent.length === 1 ? 'does' : 'do'} not answer`,
    }
  }
  const unready = first('not ready')
  if (unready !== undefined) return { state: 'degraded', state_reason: `${unready.node} is not ready` }
  return { state: 'serving', state_reason: null }
}

function nodeLines({ reports, silent }: Gathered): NodeLine[] {
  const line = (report: NodeReport, state: NodeLine['state'], silentSeconds: number): NodeLine => ({
    node: report.node,
    version: report.version,
    node_js: report.node_js,
    started_at: report.started_at,
    state,
    silent_seconds: silentSeconds,
    connections: report.connections,
    cpu_percent: report.cpu_percent,
    rss_bytes: report.rss_bytes,
  })
  return [
    ...reports.map((report) => line(report, report.state, 0)),
    ...silent.map(({ report, silentSeconds }) => line(report, 'silent', silentSeconds)),
  ].toSorted((one, other) => (one.node < other.node ? -1 : 1))
}

function mergeRates(all: readonly Rates[]): Rates {
  const refused: Record<string, number> = {}
  for (const { refused_per_second } of all) {
    for (const [code, rate] of Object.entries(refused_per_second)) refused[code] = (refused[code] ?? 0) + rate
  }
  return {
    requests_per_second: sum(all, (rates) => rates.requests_per_second),
    events_accepted_per_second: sum(all, (rates) => rates.events_accepted_per_second),
    refused_per_second: refused,
    replays_per_second: sum(all, (rates) => rates.replays_per_second),
  }
}

/** A part is as it is on the node where it is down, if there is one. */
function mergeParts(reports: readonly NodeReport[]): Part[] {
  const names = [...new Set(reports.flatMap(({ parts }) => parts.map(({ part }) => part)))]
  const merged = names.map((name): Part => {
    const found = reports.flatMap(({ node, parts }) =>
      parts.filter(({ part }) => part === name).map((part) => ({ node, part })),
    )
    const down = found.filter(({ part }) => !part.up)
    const { part, node } = down.at(0) ?? found[0]
    const state = down.length > 0 && reports.length > 1 ? `${part.state} (${node})` : part.state
    return {
      part: name,
      state,
      up: down.length === 0,
      latency_seconds: most(found.map((one) => one.part.latency_seconds)),
    }
  })
  const connections = sum(reports, (report) => report.connections)
  const used = sum(reports, ({ ring }) => ring.used_bytes)
  const size = sum(reports, ({ ring }) => ring.size_bytes)
  const percent = size === 0 ? 0 : Math.round((100 * used) / size)
  return [
    {
      part: 'http',
      state: `${connections} connection${connections === 1 ? '' : 's'}`,
      up: reports.length > 0,
      latency_seconds: null,
    },
    {
      part: 'ring',
      state: `${percent}% of ${Math.round(size / 1_048_576)} MB`,
      up: reports.length > 0,
      latency_seconds: null,
    },
    ...merged,
  ]
}

/** Every node sees the same stream, each at another moment. */
function mergeQueue(all: readonly QueueFacts[]): QueueFacts | null {
  const known = all.find(({ bytes }) => bytes !== null) ?? all.at(0)
  if (known === undefined) return null
  const lags = new Map<string, number>()
  for (const { name, lag_seconds } of all.flatMap(({ consumers }) => consumers)) {
    lags.set(name, Math.max(lag_seconds, lags.get(name) ?? 0))
  }
  return {
    ...known,
    full_in_seconds: least(all.map((queue) => queue.full_in_seconds)),
    consumers: [...lags].map(([name, lag_seconds]) => ({ name, lag_seconds })).toSorted(byName),
    audit_lag_seconds: most(all.map((queue) => queue.audit_lag_seconds)),
  }
}

function mergeRefused(counts: readonly RefusedCount[]): Now['refused_last_hour'] {
  const top = <Key>(keyOf: (count: RefusedCount) => Key): [Key, number][] => {
    const totals = new Map<Key, number>()
    for (const one of counts) totals.set(keyOf(one), (totals.get(keyOf(one)) ?? 0) + one.count)
    return [...totals].toSorted(([, one], [, other]) => other - one).slice(0, TOP)
  }
  return {
    by_code: top(({ code }) => code).map(([code, count]) => ({ code, count })),
    by_app: top(({ app_id }) => app_id).map(([app_id, count]) => ({ app_id, count })),
  }
}

/** The cells end with the last step that is over for all. */
function mergeHistory(reports: readonly NodeReport[], bounds: readonly number[], nowMs: number): HistoryView {
  const lastStep = Math.floor(nowMs / 1000 / STEP_SECONDS)
  const firstStep = lastStep - HISTORY_CELLS + 1
  const columns: Cell[][] = Array.from({ length: HISTORY_CELLS }, () => [])
  for (const cell of reports.flatMap(({ cells }) => cells)) columns[cell.step - firstStep]?.push(cell)
  const plot = (read: (cells: readonly Cell[]) => number | null): Plot =>
    columns.map((cells) => (cells.length === 0 ? null : read(cells)))
  return {
    step_seconds: STEP_SECONDS,
    from: new Date((firstStep - 1) * STEP_SECONDS * 1000).toISOString(),
    accepted_events_per_second: plot((cells) => sum(cells, (cell) => cell.accepted_per_second)),
    refused_ours_per_second: plot((cells) => sum(cells, (cell) => cell.ours_per_second)),
    refused_rule_per_second: plot((cells) => sum(cells, (cell) => cell.rule_per_second)),
    p99_seconds: plot((cells) => quantile(0.99, bounds, addedLists(cells.map(({ buckets }) => buckets)))),
    slowest_consumer_lag_seconds: plot((cells) => most(cells.map((cell) => cell.slowest_consumer_seconds))),
  }
}

function sum<T>(all: readonly T[], read: (one: T) => number): number {
  return all.reduce((total, one) => total + read(one), 0)
}

function addedLists(lists: readonly (readonly number[])[]): number[] {
  return (lists.at(0) ?? []).map((_, at) => sum(lists, (list) => list[at] ?? 0))
}

function most(values: readonly (number | null)[]): number | null {
  const known = values.filter((value) => value !== null)
  return known.length === 0 ? null : Math.max(...known)
}

function least(values: readonly (number | null)[]): number | null {
  const known = values.filter((value) => value !== null)
  return known.length === 0 ? null : Math.min(...known)
}

function byName(one: { name: string }, other: { name: string }): number {
  return one.name < other.name ? -1 : 1
}
