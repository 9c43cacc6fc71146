// How much an app has used of its minute, day and month, as commands print it.

import type { PlanName } from '../apps/app.ts'
import { monthTolerancePercent, soldEventsPerMonth } from '../apps/plans.ts'
import type { WindowsUsed } from '../inspect/usage-report.ts'
import { formatCount, formatTable } from './table.ts'

const WINDOWS = ['minute', 'day', 'month'] as const

type Told = { readonly limit: number | null; readonly used: number }

/** As the service tells it, which has a limit for minute and month. */
export function usageIn<T extends Told>(
  { minute, day, month }: Readonly<Record<(typeof WINDOWS)[number], T>>,
  endOf: (window: T) => string,
): WindowsUsed {
  const window = <Limit>(told: T, limit: Limit) => ({ limit, used: told.used, endsAtMs: Date.parse(endOf(told)) })
  return {
    minute: window(minute, Number(minute.limit)),
    day: window(day, day.limit),
    month: window(month, Number(month.limit)),
  }
}

/** With what is left of each, and until when. */
export function windowsTable(plan: PlanName, usage: WindowsUsed): string {
  const rows = WINDOWS.map((name) => {
    const { used, limit, endsAtMs } = usage[name]
    return [
      name,
      formatCount(used),
      limitText(plan, usage, name) ?? 'none',
      limit === null ? '' : formatCount(Math.max(0, limit - used)),
      limit === null ? '' : percentText(used / limit),
      new Date(endsAtMs).toISOString(),
    ]
  })
  return formatTable([['window', 'used', 'limit', 'left', 'share', 'ends'], ...rows])
}

/** Of each window: 12 of 500, or 12 where it has no limit. */
export function usedTexts(plan: PlanName, usage: WindowsUsed): string[] {
  return WINDOWS.map((name) => {
    const limit = limitText(plan, usage, name)
    return formatCount(usage[name].used) + (limit === null ? '' : ` of ${limit}`)
  })
}

/** The month's as it was sold. null: it has none. */
function limitText(plan: PlanName, usage: WindowsUsed, name: (typeof WINDOWS)[number]): string | null {
  const { limit } = usage[name]
  if (limit === null) return null
  return name === 'month' ? monthText(plan, soldEventsPerMonth(plan, limit)) : formatCount(limit)
}

/** As sold, and the tolerance beside it: 100,000 +10%. */
export function monthText(plan: PlanName, eventsPerMonth: number): string {
  const percent = monthTolerancePercent(plan)
  return `${formatCount(eventsPerMonth)}${percent === 0 ? '' : ` +${percent}%`}`
}

/** Empty for a plan without a tolerance. */
export function toleranceText(plan: PlanName): string {
  const percent = monthTolerancePercent(plan)
  return percent === 0 ? '' : `+${percent}%: so far may a paid plan go over its month before it is refused.\n`
}

export function percentText(share: number): string {
  // Cut, not rounded: 100% is a limit that is used up.
  return share < 0.1 ? `${Math.floor(share * 1000) / 10}%` : `${Math.floor(share * 100)}%`
}
