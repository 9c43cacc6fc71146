// The ids that an event is counted by: random ones, each kept for its period and then forgotten, so that nobody can
// tie a device's periods together.

import { type Timers, uuid } from './platform.ts'
import { readJson } from './store.ts'
import type { Store } from './types.ts'

const RETENTION_MS = 90 * 86_400_000
const SESSION_IDLE_MS = 1_800_000
/** How often the use of a session is written down. */
const WRITE_MS = 60_000

const freshIds = () => ({
  hashed_daily_id: uuid().replaceAll('-', ''),
  hashed_monthly_id: uuid().replaceAll('-', ''),
  hashed_retention_id: uuid().replaceAll('-', ''),
  session_id: uuid(),
})

type Kept = { day: string; retention: number; usedMs: number; ids: ReturnType<typeof freshIds> }

/** `mayStore`: ids may outlast this client, and be shared with the store's others. */
export function createIdentity(store: Store, timers: Timers, mayStore: () => boolean) {
  let kept: Kept | null = null
  return {
    ids(): Kept['ids'] {
      const nowMs = timers.nowMs()
      const day = new Date(nowMs).toISOString().slice(0, 10)
      const retention = Math.floor(nowMs / RETENTION_MS)
      if (kept?.day === day && Math.abs(nowMs - kept.usedMs) < WRITE_MS) return kept.ids
      const ids = freshIds()
      const old = mayStore() ? readJson(store, 'identity', kept) : kept
      if (old?.day === day) ids.hashed_daily_id = old.ids.hashed_daily_id
      if (old?.day.slice(0, 7) === day.slice(0, 7)) ids.hashed_monthly_id = old.ids.hashed_monthly_id
      if (old?.retention === retention) ids.hashed_retention_id = old.ids.hashed_retention_id
      if (old && Math.abs(nowMs - old.usedMs) < SESSION_IDLE_MS) ids.session_id = old.ids.session_id
      kept = { day, retention, usedMs: nowMs, ids }
      if (mayStore()) store.set('identity', JSON.stringify(kept))
      return ids
    },
    forget(): void {
      kept = null
      store.remove('identity')
    },
  }
}
