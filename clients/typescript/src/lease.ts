// A lease in the store: one of the tabs or processes that share it sends. Two would do no harm, since a batch keeps its key,
// but twice the work. Not Web Locks: a page that a phone has put to sleep would hold one for as long as it likes.

import { type Timers, unref, uuid } from './platform.ts'
import type { SyncStore } from './types.ts'

const LEASE_MS = 15_000
const RENEW_MS = 5000

export function createLease(store: SyncStore, timers: Timers, onHeld: () => void) {
  const id = uuid()
  let timer: unknown = null
  let held = false
  const look = (): void => {
    const nowMs = timers.nowMs()
    const [owner, untilText] = (store.get('lease') ?? '').split(' ')
    // A lease that ends later than one can was written by a clock that has been set back since.
    held = owner === id || !(Number(untilText) > nowMs && Number(untilText) <= nowMs + LEASE_MS)
    // Where the store is full nobody can take the lease, and each sends.
    if (held) store.set('lease', `${id} ${nowMs + LEASE_MS}`)
    timer = unref(timers.setTimeout(look, RENEW_MS))
    if (held) onHeld()
  }
  return {
    isHeld: (): boolean => held,
    /** Begins to wait for it, and says again and again that it is held: others may have stored batches to send. */
    acquire: (): void => void (timer ?? look()),
    release(): void {
      timers.clear(timer)
      timer = null
      held = false
      if (store.get('lease')?.startsWith(id) === true) store.remove('lease')
    },
  }
}
