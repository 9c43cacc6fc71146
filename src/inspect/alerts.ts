// The alerts that were decided since some time, of one app or of all.

import type { Alerts } from '../contract/admin/alerts.ts'
import { ALERTS_KEPT_MS, type Alert } from '../contract/alert.ts'
import { isUuid } from '../contract/ids.ts'
import { parseTimestamp } from '../lib/timestamp.ts'

/** Of one app, or of all (null); away: they cannot be read now. */
export type ReadAlerts = (appId: string | null) => Promise<readonly Alert[] | 'away'>

export const MAX_ALERTS_SHOWN = 1000
/** Whoever decides one may store it after a later one of another app. */
const OUT_OF_ORDER_MS = 60_000

export interface AlertQuestion {
  /** null: all that are kept. */
  readonly since: string | null
  /** The id of the last one that is known already; null: none is. One that is not kept any more is behind none. */
  readonly after: string | null
  readonly limit: number
}

/** A sentence where the question is wrong. */
export async function alertsSince(
  read: ReadAlerts,
  appId: string | null,
  { since, after, limit }: AlertQuestion,
  nowMs: number,
): Promise<Alerts | 'away' | { readonly mistake: string }> {
  const sinceMs = since === null ? 0 : parseTimestamp(since, { needsZone: true })
  if (sinceMs === null) return { mistake: 'since: must be a date and time with its zone, such as 2026-12-31T00:00:00Z' }
  if (after !== null && !isUuid(after)) return { mistake: 'after: must be the id of an alert' }
  const alerts = await read(appId)
  if (alerts === 'away') return 'away'
  const last = alerts.find(({ id }) => id === after)
  const afterMs = last === undefined ? 0 : Date.parse(last.at) - OUT_OF_ORDER_MS
  const oldest = new Date(Math.max(sinceMs, afterMs, nowMs - ALERTS_KEPT_MS)).toISOString()
  const found = alerts
    .filter((alert) => alert.at >= oldest && alert !== last)
    .toSorted((one, other) => (placeOf(one) < placeOf(other) ? -1 : 1))
  // What whoever goes on may know comes once more, beside the limit, so that each page gets further.
  const from = last === undefined ? '' : placeOf(last)
  const again = found.findLastIndex((alert) => placeOf(alert) < from || Date.parse(alert.at) === sinceMs)
  // Those of one time stay together, so that whoever goes on from the last time misses none.
  const end = found.findIndex((alert, at) => at > again + limit && alert.at !== found[at - 1].at)
  return end === -1 ? { alerts: found, more: false } : { alerts: found.slice(0, end), more: true }
}

/** Of one length, and so in the order of the times. */
const placeOf = ({ at, id }: Alert): string => at + id
