// How much apps have used of their limits: one app, or those that are nearest to one; and by UTC day. For `sluice usage` and the
// console.

import { type App, isValidKey } from '../apps/app.ts'
import { monthTolerancePercent } from '../apps/plans.ts'
import type { UsageByDay, AppUsage as UsageRow } from '../contract/admin/apps.ts'
import { MAX_REPORTED_APPS } from '../contract/bounds.ts'
import { slices } from '../lib/slices.ts'
import { DAY_MS } from '../lib/spans.ts'
import type { Timers } from '../lib/timers.ts'
import type { DaysUsed, Usage } from '../limits/limiter.ts'

/** Read at once. Between two such reads, Redis and the event loop serve requests. */
const SLICE_APPS = 500
const SLICE_APPS_BY_DAY = 200
/** At most this part of what a key has beyond `ak_` and its app is shown, and at most so many characters. */
const SHOWN_SHARE = 4
const MAX_SHOWN_CHARACTERS = 3

/** The usage of some hundred apps, in their order. */
export type ReadUsages = (apps: readonly App[]) => readonly Usage[] | Promise<readonly Usage[] | 'away'>

/** One app, which may not exist, or the `top` that have used most of a limit. */
export type WantedUsage = { readonly appId: string } | { readonly top: number }

export interface AppUsage {
  readonly app: App
  readonly usage: Usage
}

export interface UsageReport {
  /** The nearest to a limit first; of several, the one with more events in its month. */
  readonly apps: readonly AppUsage[]
  readonly totalApps: number
  readonly readAtMs: number
}

/** What the nodes that answered have counted of an app, each since its start. */
export type Seen = Pick<UsageRow, 'last_hour' | 'events_per_second' | 'stored_bytes'>

export const NOT_SEEN: Seen = { last_hour: null, events_per_second: null, stored_bytes: null }

/** away: the counters cannot be read now. */
export async function usageReport(
  apps: Iterable<App>,
  readUsages: ReadUsages,
  wanted: WantedUsage,
  timers: Pick<Timers, 'nowMs' | 'setImmediate'>,
): Promise<UsageReport | 'away'> {
  const most = 'top' in wanted ? Math.min(wanted.top, MAX_REPORTED_APPS) : 1
  let ranked: AppUsage[] = []
  let totalApps = 0
  for await (const slice of slices(apps, SLICE_APPS, timers)) {
    totalApps += slice.length
    const read = 'top' in wanted ? slice : slice.filter(({ appId }) => appId === wanted.appId)
    const usages = read.length === 0 ? [] : await readUsages(read)
    if (usages === 'away') return 'away'
    // Only the first ones are kept, so that 100,000 apps take no memory.
    ranked = ranked.concat(read.map((app, index) => ({ app, usage: usages[index] })))
    ranked = ranked.toSorted(byUse).slice(0, most)
  }
  return { apps: ranked, totalApps, readAtMs: timers.nowMs() }
}

function byUse(one: AppUsage, other: AppUsage): number {
  return (
    shareUsed(other.usage) - shareUsed(one.usage) ||
    other.usage.month.used - one.usage.month.used ||
    (one.app.appId < other.app.appId ? -1 : 1)
  )
}

/** Without the time at which it was read, which an answer of the service does not have. */
export type WindowsUsed = Omit<Usage, 'atMs'>

/** Of the limit that is nearest: 1 is all of it. */
export function shareUsed({ minute, day, month }: WindowsUsed): number {
  const ofDay = day.limit === null ? 0 : day.used / day.limit
  return Math.max(minute.used / minute.limit, ofDay, month.used / month.limit)
}

export function usageReportJson(report: UsageReport, seenOf: (appId: string) => Seen): object {
  const { apps, totalApps, readAtMs } = report
  return {
    apps: apps.map((one) => rowJson(one, seenOf(one.app.appId), readAtMs)),
    total_apps: totalApps,
    read_at: new Date(readAtMs).toISOString(),
  }
}

/** Of one app, for its own developers. */
export function usageForApp({ apps: [one], readAtMs }: UsageReport, seen: Seen): object {
  // Where the events are is the operators' matter.
  const { keys: _, spooled: __, ...row } = rowJson(one, seen, readAtMs)
  return { read_at: new Date(readAtMs).toISOString(), ...row }
}

/** The same as text, with the event loop free on the way: 10,000 apps are four megabytes. */
export async function usageReportText(
  report: UsageReport,
  seenOf: (appId: string) => Seen,
  timers: Pick<Timers, 'setImmediate'>,
): Promise<string> {
  const rows: string[] = []
  for await (const slice of slices(report.apps, SLICE_APPS, timers)) {
    for (const one of slice) rows.push(JSON.stringify(rowJson(one, seenOf(one.app.appId), report.readAtMs)))
  }
  const withoutRows = JSON.stringify(usageReportJson({ ...report, apps: [] }, seenOf))
  return withoutRows.replace('[]', () => `[${rows.join(',')}]`)
}

function rowJson({ app, usage }: AppUsage, seen: Seen, readAtMs: number) {
  return {
    app_id: app.appId,
    name: app.name,
    plan: app.plan,
    subscription: app.subscription,
    minute: windowJson(usage.minute),
    day: windowJson(usage.day),
    // Its limit is the enforced one, so the tolerance is shown beside it.
    month: { ...windowJson(usage.month), tolerance_percent: monthTolerancePercent(app.plan) },
    ...seen,
    keys: keysJson(app, readAtMs),
    spooled:
      usage.spooled === undefined
        ? undefined
        : { events: usage.spooled.events, of_gone_nodes: usage.spooled.ofGoneNodes },
  }
}

function windowJson({ used, limit, endsAtMs }: { used: number; limit: number | null; endsAtMs: number }): object {
  return { used, limit, resets_at: new Date(endsAtMs).toISOString() }
}

/** The keys that are valid, the current one first. */
function keysJson(app: App, nowMs: number): unknown[] {
  const older = app.previousKeys.filter(({ appKey }) => isValidKey(app, appKey, nowMs))
  return [
    { key: maskedKey(app.appKey, app.appId), valid_until: null },
    ...older.map(({ appKey, validUntilMs }) => ({
      key: maskedKey(appKey, app.appId),
      valid_until: new Date(validUntilMs).toISOString(),
    })),
  ]
}

/** Enough to tell an app's keys apart, and not enough to guess one. */
export function maskedKey(key: string, appId: string): string {
  const named = `ak_${appId}_`
  const start = key.startsWith(named) ? named : 'ak_'
  const secret = key.length - start.length
  const shown = Math.min(MAX_SHOWN_CHARACTERS, Math.floor(secret / SHOWN_SHARE))
  return `${start}…${key.slice(key.length - shown)}`
}

/** By day, of some hundred apps, in their order. */
export type ReadDays = (apps: readonly App[]) => readonly DaysUsed[] | Promise<readonly DaysUsed[] | 'away'>

/**
 * The last `days` days, today last, of the first 10,000 apps. Of several apps, those without an event in that time are left
 * out. away: the counters cannot be read now.
 */
export async function usageByDay(
  apps: Iterable<App>,
  readDays: ReadDays,
  { days, isOfOne }: { readonly days: number; readonly isOfOne: boolean },
  timers: Pick<Timers, 'nowMs' | 'setImmediate'>,
): Promise<UsageByDay | 'away'> {
  const nowMs = timers.nowMs()
  const today = Math.floor(nowMs / DAY_MS)
  const found: UsageByDay['apps'][number][] = []
  for await (const slice of slices(apps, SLICE_APPS_BY_DAY, timers)) {
    const used = await readDays(slice)
    if (used === 'away') return 'away'
    for (const [at, { appId }] of slice.entries()) {
      const byDay = Array.from({ length: days }, (_, ago) => today - days + 1 + ago).map((day) => {
        return { day: new Date(day * DAY_MS).toISOString().slice(0, 10), events: used[at].get(day) ?? 0 }
      })
      const isShown = isOfOne || byDay.some(({ events }) => events > 0)
      if (isShown && found.length < MAX_REPORTED_APPS) found.push({ app_id: appId, days: byDay })
    }
  }
  return { apps: found, read_at: new Date(nowMs).toISOString() }
}

/** One line for each app and day. An `app_id` holds nothing that would have to be quoted. */
export function usageByDayCsv({ apps }: UsageByDay): string {
  const lines = apps.flatMap(({ app_id: appId, days }) => days.map(({ day, events }) => `${appId},${day},${events}`))
  return ['app_id,day,events', ...lines, ''].join('\n')
}
