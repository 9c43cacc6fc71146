// Reads from Redis what an app has used, and writes nothing: for the commands, and for an app new to this node.

import type { App } from './app.ts'
import { type Counts, standingOf } from './lease.ts'
import { limitsKey } from './lease-script.ts'
import type { Standing } from './limiter.ts'
import { cycleAt, DAY_MS, MINUTE_MS, windowStartMs } from './plans.ts'
import type { Away, RedisLink } from './redis.ts'

interface StoredTotal {
  readonly startMs: number
  readonly used: number
}

interface StoredTotals {
  readonly minute: StoredTotal
  readonly day: StoredTotal
  readonly cycles: readonly (StoredTotal & { readonly endMs: number })[]
}

interface StoredRecord {
  readonly windows: readonly {
    readonly startMs: number
    readonly cycleStartMs: number
    readonly cycleEndMs: number
    readonly granted: number
    readonly spent: number
  }[]
}

/** `untold`: what Redis has not heard yet. What is granted to a node, and by its last word unspent, does not count as used. */
export async function readStanding(
  link: RedisLink,
  app: App,
  nowMs: number,
  untold: Counts = { minute: 0, day: 0, month: 0 },
): Promise<Standing | Away> {
  const fields = await link.call((client) => client.hgetall(limitsKey(app.appId)))
  if (fields === 'away') return 'away'
  const cycle = cycleAt(app.billingAnchorMs, nowMs)
  const spent = { ...untold }
  if (fields.totals !== undefined) {
    const { minute, day, cycles } = JSON.parse(fields.totals) as StoredTotals
    const isCycle = (startMs: number, endMs: number): boolean => startMs === cycle.startMs && endMs === cycle.endMs
    const isMinute = (timeMs: number): boolean => windowStartMs(timeMs, MINUTE_MS) === windowStartMs(nowMs, MINUTE_MS)
    const isDay = (timeMs: number): boolean => windowStartMs(timeMs, DAY_MS) === windowStartMs(nowMs, DAY_MS)
    if (isMinute(minute.startMs)) spent.minute += minute.used
    if (isDay(day.startMs)) spent.day += day.used
    spent.month += cycles.find(({ startMs, endMs }) => isCycle(startMs, endMs))?.used ?? 0
    for (const [field, text] of Object.entries(fields)) {
      if (field === 'totals') continue
      const { windows } = JSON.parse(text) as StoredRecord
      // Lua writes an empty list as an empty object.
      if (!Array.isArray(windows)) continue
      for (const { startMs, cycleStartMs, cycleEndMs, granted, spent: used } of windows as StoredRecord['windows']) {
        if (isMinute(startMs)) spent.minute -= granted - used
        if (isDay(startMs)) spent.day -= granted - used
        if (isCycle(cycleStartMs, cycleEndMs)) spent.month -= granted - used
      }
    }
  }
  return standingOf(app, spent, { startMs: nowMs, cycle }, nowMs)
}
