// Notices the end of the process that started this one. npm and npx put a shell between themselves and a command: a
// signal to them ends the shell, and the command hears nothing of it.

import type { Timer, Timers } from '../../lib/timers.ts'

const LOOK_EVERY_MS = 250

export interface ParentOptions {
  readonly timers: Timers
  /** The id of the parent process as it is now; it changes when that process ends. */
  readonly parentId: () => number
  readonly onEnd: () => void
}

/** Calls `onEnd` at most once. Returns what ends the watch. */
export function watchParent({ timers, parentId, onEnd }: ParentOptions): () => void {
  const first = parentId()
  const timer: Timer = timers.setInterval(() => {
    if (parentId() === first) return
    timers.clear(timer)
    onEnd()
  }, LOOK_EVERY_MS)
  timer.unref()
  return () => timers.clear(timer)
}
