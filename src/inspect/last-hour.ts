// What each process counted of apps in the last hour, and all of them together.

import type { LastHourPiece } from '../contract/admin/peers.ts'
import { MAX_BYTES_APPS } from '../contract/admin/words.ts'
import type { StoredBytes } from '../limits/stored-bytes.ts'
import type { AcceptedCounts } from './activity/accepted-counts.ts'
import type { RefusalSource } from './refusals/refusal-view.ts'
import type { Seen } from './usage-report.ts'

/** A shorter time says too little. */
const MIN_RATE_SECONDS = 60

export interface CountedOfApps {
  readonly accepted: AcceptedCounts
  readonly refusals: Pick<RefusalSource, 'rows'>
  readonly bytes: Pick<StoredBytes, 'read'>
}

/** `app`: null: of all. */
export async function lastHourPiece(
  app: string | null,
  { accepted, refusals, bytes }: CountedOfApps,
  nowMs: number,
): Promise<LastHourPiece> {
  const isWanted = (appId: string): boolean => app === null || app === appId
  // An app may be named `__proto__` or `constructor`, which an object has already.
  const refused = new Map<string, Record<string, number>>()
  for (const { app_id, code, count } of refusals.rows(nowMs)) {
    if (app_id === null || !isWanted(app_id)) continue
    const codes = refused.get(app_id) ?? {}
    codes[code] = (codes[code] ?? 0) + count
    refused.set(app_id, codes)
  }
  const stored = await bytes.read(app, MAX_BYTES_APPS)
  const counts = [...accepted.all(nowMs)].filter(([appId]) => isWanted(appId))
  return {
    accepted: Object.fromEntries(counts.map(([appId, total]) => [appId, total])),
    recent: Object.fromEntries(
      counts.flatMap(([appId, , [count, seconds]]) => (count === 0 ? [] : [[appId, [count, Math.round(seconds)]]])),
    ),
    refused: Object.fromEntries(refused),
    has_all: accepted.hasAll,
    bytes: Object.fromEntries(
      stored.apps.map(([appId, { lastHour, today, highestMinute }]) => [appId, [lastHour, today, highestMinute]]),
    ),
    bytes_has_all: stored.hasAll,
  }
}

/** What the processes that answered have counted of an app. */
export function seenOf(appId: string, pieces: readonly LastHourPiece[]): Seen {
  const last_hour = lastHourOf(appId, pieces)
  const events_per_second = last_hour === null ? null : recentRate(appId, pieces)
  return { last_hour, events_per_second, stored_bytes: bytesOf(appId, pieces) }
}

/** null: it is not known of the app. */
function lastHourOf(appId: string, pieces: readonly LastHourPiece[]): Seen['last_hour'] {
  const known = pieces.filter(({ accepted, has_all }) => has_all || Object.hasOwn(accepted, appId))
  if (pieces.length === 0 || known.length < pieces.length) return null
  const refused: Record<string, number> = {}
  let accepted_events = 0
  for (const piece of pieces) {
    accepted_events += Object.hasOwn(piece.accepted, appId) ? piece.accepted[appId] : 0
    const codes = Object.hasOwn(piece.refused, appId) ? piece.refused[appId] : {}
    for (const [code, count] of Object.entries(codes)) refused[code] = (refused[code] ?? 0) + count
  }
  return { accepted_events, refused }
}

/** null: not known, since too many apps store. */
function bytesOf(appId: string, pieces: readonly LastHourPiece[]): Seen['stored_bytes'] {
  const counted = pieces.map(({ bytes, bytes_has_all: hasAll }) =>
    Object.hasOwn(bytes, appId) ? bytes[appId] : hasAll ? [0, 0, 0] : null,
  )
  const sum = (at: number): number => counted.reduce((total, one) => total + (one?.[at] ?? 0), 0)
  if (counted.length === 0 || counted.includes(null)) return null
  return { last_hour: sum(0), today: sum(1), highest_minute_today: sum(2) }
}

/** null: not known yet. */
function recentRate(appId: string, pieces: readonly LastHourPiece[]): number | null {
  const counted = pieces.flatMap(({ recent }) => (Object.hasOwn(recent, appId) ? [recent[appId]] : []))
  if (counted.length > 0 && counted.every(([, seconds]) => seconds < MIN_RATE_SECONDS)) return null
  // A node that has just started adds too little for a minute, and not many times too much.
  return counted.reduce((sum, [count, seconds]) => sum + count / Math.max(seconds, MIN_RATE_SECONDS), 0)
}
