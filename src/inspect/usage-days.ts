// The events that were stored for apps, by UTC day, as the counters have them: of one app, or of all.

import type { App } from '../apps/app.ts'
import type { UsageByDay } from '../contract/admin/apps.ts'
import { MAX_REPORTED_APPS } from '../contract/bounds.ts'
import { slices } from '../lib/slices.ts'
import { DAY_MS } from '../lib/spans.ts'
import type { Timers } from '../lib/timers.ts'
import type { DaysUsed } from '../limits/limiter.ts'

/** Read at once. Between two such reads, Redis and the event loop serve requests. */
const SLICE_APPS = 200

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
  for await (const slice of slices(apps, SLICE_APPS, timers)) {
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
