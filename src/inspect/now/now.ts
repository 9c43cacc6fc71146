// What the service does now: each process says it of itself, and any of them adds the answers up.

import type {
  Cell,
  History,
  Node,
  NodeReport,
  Now,
  PartFacts,
  Plot,
  Queue,
  Rates,
  RefusedCount,
  ShownPart,
} from '../../contract/admin/now.ts'
import type { Range } from '../../contract/admin/words.ts'
import { mergeState } from './state.ts'
import { quantile, RANGES } from './totals.ts'

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
  { nowMs, range }: { nowMs: number; range: Range | null },
): Now {
  const all = { reports, silent, problem }
  const bounds = reports.at(0)?.bounds_seconds ?? []
  const buckets = addedLists(reports.map((report) => report.buckets))
  const p50 = quantile(0.5, bounds, buckets)
  const p99 = quantile(0.99, bounds, buckets)
  return {
    time: new Date(nowMs).toISOString(),
    ...mergeState(reports, silent.length, problem),
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
    ...(range === null ? {} : { history: mergeHistory(reports, bounds, { nowMs, range }) }),
  }
}

function nodeLines({ reports, silent }: Gathered): Node[] {
  const line = (report: NodeReport, state: Node['state'], silentSeconds: number): Node => ({
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

function mergeParts(reports: readonly NodeReport[]): ShownPart[] {
  const all = reports.flatMap(({ node, parts }) => parts.map((part) => ({ node, part })))
  const names = [...new Set(all.map(({ part }) => part.part))]
  return names.map((name) => mergePart(all.filter(({ part }) => part.part === name)))
}

/** A part is as it is on the node where it is down, if there is one. */
function mergePart(all: readonly { readonly node: string; readonly part: PartFacts }[]): ShownPart {
  const { part, node } = all.find((one) => !one.part.up) ?? all[0]
  const isOfAll = all.every((one) => one.part.up === part.up)
  const latency_seconds = most(all.map((one) => one.part.latency_seconds))
  return { ...part, node: isOfAll ? null : node, latency_seconds }
}

/** Every node sees the same stream, each at another moment. */
function mergeQueue(all: readonly Queue[]): Queue | null {
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
  const top = <Key extends object>(keyOf: (count: RefusedCount) => Key): (Key & { count: number })[] => {
    const totals = new Map<string, Key & { count: number }>()
    for (const one of counts) {
      const key = keyOf(one)
      const name = JSON.stringify(key)
      totals.set(name, { ...key, count: one.count + (totals.get(name)?.count ?? 0) })
    }
    return [...totals.values()].toSorted((one, other) => other.count - one.count).slice(0, TOP)
  }
  return { by_code: top(({ code, reason }) => ({ code, reason })), by_app: top(({ app_id }) => ({ app_id })) }
}

/** The cells end with the last step that is over for all, or with the running one where steps are long. */
function mergeHistory(
  reports: readonly NodeReport[],
  bounds: readonly number[],
  { nowMs, range }: { nowMs: number; range: Range },
): History {
  const { stepSeconds, cells: count } = RANGES[range]
  const lastStep = range === '15m' ? Math.floor(nowMs / 1000 / stepSeconds) : Math.ceil(nowMs / 1000 / stepSeconds)
  const firstStep = lastStep - count + 1
  const columns: Cell[][] = Array.from({ length: count }, () => [])
  for (const cell of reports.flatMap(({ cells }) => cells)) columns[cell.step - firstStep]?.push(cell)
  const plot = (read: (cells: readonly Cell[]) => number | null): Plot =>
    columns.map((cells) => (cells.length === 0 ? null : read(cells)))
  const quantiles = (share: number): Plot =>
    plot((cells) => quantile(share, bounds, addedLists(cells.map(({ buckets }) => buckets))))
  return {
    step_seconds: stepSeconds,
    from: new Date((firstStep - 1) * stepSeconds * 1000).toISOString(),
    accepted_events_per_second: plot((cells) => sum(cells, (cell) => cell.accepted_per_second)),
    // A node of an earlier version does not count them.
    accepted_requests_per_second: plot((cells) => sum(cells, (cell) => cell.requests_accepted_per_second ?? 0)),
    refused_ours_per_second: plot((cells) => sum(cells, (cell) => cell.ours_per_second)),
    refused_client_per_second: plot((cells) => sum(cells, (cell) => cell.client_per_second)),
    refused_limits_per_second: plot((cells) => sum(cells, (cell) => cell.limits_per_second)),
    p50_seconds: quantiles(0.5),
    p99_seconds: quantiles(0.99),
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
