// The ids that an event is counted by: random ones, each kept for its period and then forgotten, so that nobody can
// tie a device's periods together.

import { type Timers, uuid } from './platform.ts'
import { readJson } from './store.ts'
import type { Store } from './types.ts'

const RETENTION_MS = 90 * 86_400_000
const SESSION_IDLE_MS = 1_800_000
/** How often the use of a session is written down. */
const WRITE_MS = 60_000

const MEMBERS = ['hashed_daily_id', 'hashed_monthly_id', 'hashed_retention_id', 'session_id'] as const

type Ids = Record<(typeof MEMBERS)[number], string>
/** `periods`: what each id belongs to. */
type Kept = { usedMs: number; periods: Ids; ids: Ids }

/** `mayStore`: ids may outlast this client, and be shared with the store's others. */
export function createIdentity(store: Store, timers: Timers, mayStore: () => boolean) {
  let kept: Kept | null = null
  return {
    ids(): Ids {
      const nowMs = timers.nowMs()
      const day = new Date(nowMs).toISOString().slice(0, 10)
      if (kept?.periods.hashed_daily_id === day && Math.abs(nowMs - kept.usedMs) < WRITE_MS) return kept.ids
      const stored = mayStore() ? readJson(store, 'identity', kept) : kept
      const old = stored?.periods && stored.ids ? stored : null
      const periods: Ids = {
        hashed_daily_id: day,
        hashed_monthly_id: day.slice(0, 7),
        hashed_retention_id: String(Math.floor(nowMs / RETENTION_MS)),
        session_id: old && Math.abs(nowMs - old.usedMs) < SESSION_IDLE_MS ? old.periods.session_id : uuid(),
      }
      const ids = Object.fromEntries(
        MEMBERS.map((member) => [member, old?.periods[member] === periods[member] ? old.ids[member] : uuid()]),
      ) as Ids
      kept = { usedMs: nowMs, periods, ids }
      if (mayStore()) store.set('identity', JSON.stringify(kept))
      return ids
    },
    forget(): void {
      kept = null
      store.remove('identity')
    },
  }
}
