// One of the tabs or processes that share a store sends. Two would do no harm, since a batch keeps its key, but twice
// the work.

import { type Timers, unref, uuid } from './platform.ts'
import type { Store } from './types.ts'

const LEASE_MS = 15_000
const RENEW_MS = 5000

export interface Lock {
  isHeld(): boolean
  /** Begins to wait for it, and says when it is held. A page that came back asks again. */
  acquire(): void
  release(): void
}

/** Web Locks: the browser gives it back when the tab ends. */
export function webLock(locks: Pick<LockManager, 'request'>, name: string, onHeld: () => void): Lock {
  let abort: AbortController | null = null
  let held = false
  return {
    isHeld: () => held,
    acquire() {
      if (abort !== null) return
      const { signal } = (abort = new AbortController())
      const hold = async (): Promise<void> => {
        held = !signal.aborted
        if (!held) return
        onHeld()
        await new Promise((resolve) => signal.addEventListener('abort', resolve))
      }
      // It rejects where release() came first.
      locks.request(name, { signal }, hold).catch(() => {})
    },
    release() {
      held = false
      abort?.abort()
      abort = null
    },
  }
}

/** A lease in the store itself, where there are no Web Locks: on pages over plain http, and on Node. */
export function leaseLock(store: Store, timers: Timers, onHeld: () => void): Lock {
  const id = uuid()
  let timer: unknown = null
  let held = false
  const look = (): void => {
    const nowMs = timers.nowMs()
    const [owner, untilText] = (store.get('lease') ?? '').split(' ')
    const wasHeld = held
    // A lease that ends later than one can was written by a clock that has been set back since.
    held = owner === id || !(Number(untilText) > nowMs && Number(untilText) <= nowMs + LEASE_MS)
    // Where the store is full nobody can take the lease, and each sends.
    if (held) store.set('lease', `${id} ${nowMs + LEASE_MS}`)
    timer = unref(timers.setTimeout(look, RENEW_MS))
    if (held && !wasHeld) onHeld()
  }
  return {
    isHeld: () => held,
    acquire: () => void (timer ?? look()),
    release() {
      timers.clear(timer)
      timer = null
      held = false
      if (store.get('lease')?.startsWith(id) === true) store.remove('lease')
    },
  }
}
