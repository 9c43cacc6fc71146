// The ids that an event is counted by: random ones, each kept for its period and then forgotten, so that nobody can
// tie a device's periods together.

import { isoTime, listJson, type Timers, uuid } from './platform.ts'
import { readJson } from './store.ts'
import type { SyncStore } from './types.ts'

const RETENTION_MS = 90 * 86_400_000
const SESSION_IDLE_MS = 1_800_000
/** How often the use of a session is written down. */
const WRITE_MS = 60_000

/** Ids of the day, the month, 90 days and the session, and the period that each belongs to. */
type Kept = { usedMs: number; periods: string[]; ids: string[] }

/** `mayStore`: ids may outlast this client, and be shared with the store's others. */
export function createIdentity(store: SyncStore, timers: Timers, mayStore: () => boolean) {
  let kept: Kept | null = null
  /** Not yet, where the user is still to be asked. */
  let isStored = false

  function renew(nowMs: number, day: string): Kept {
    // What was stored and is no more has been forgotten, in another tab too.
    const stored = mayStore() ? readJson(store, 'identity', isStored ? null : kept) : kept
    const old = Array.isArray(stored?.periods) && Array.isArray(stored?.ids) ? stored : null
    const session = old && Math.abs(nowMs - old.usedMs) < SESSION_IDLE_MS ? old.periods[3] : uuid()
    const periods = [day, day.slice(0, 7), String(Math.floor(nowMs / RETENTION_MS)), session]
    const ids = periods.map((period, index) => (old?.periods[index] === period ? old.ids[index] : uuid()))
    const renewed = { usedMs: nowMs, periods, ids }
    isStored = mayStore()
    if (isStored) store.set('identity', `{"usedMs":${nowMs},"periods":${listJson(periods)},"ids":${listJson(ids)}}`)
    return renewed
  }

  return {
    ids() {
      const nowMs = timers.nowMs()
      const day = isoTime(nowMs).slice(0, 10)
      const isFresh = kept?.periods[0] === day && Math.abs(nowMs - kept.usedMs) < WRITE_MS && isStored === mayStore()
      if (kept === null || !isFresh || (isStored && store.get('identity') === null)) kept = renew(nowMs, day)
      const [hashed_daily_id, hashed_monthly_id, hashed_retention_id, session_id] = kept.ids
      return { hashed_daily_id, hashed_monthly_id, hashed_retention_id, session_id }
    },
    forget(): void {
      kept = null
      store.remove('identity')
    },
  }
}
