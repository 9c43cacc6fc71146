// Clock and timers, passed as one parameter. The simulator passes its own.

/** A timer that was set. */
export interface Timer {
  /** It does not keep the process from ending. */
  unref(): unknown
}

export interface Timers {
  /** Unix ms, as an integer. */
  nowMs(): number
  /** A time in ms that never goes back. */
  monotonicMs(): number
  setTimeout(task: () => void, delayMs: number): Timer
  setInterval(task: () => void, intervalMs: number): Timer
  /** Ends a timer of either kind. */
  clear(timer: Timer): void
  /** After all that this turn of the event loop has still to read. */
  setImmediate(task: () => void): void
}

export const systemTimers: Timers = {
  nowMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  setTimeout: (task, delayMs) => setTimeout(task, delayMs),
  setInterval: (task, intervalMs) => setInterval(task, intervalMs),
  clear: (timer) => clearTimeout(timer as NodeJS.Timeout),
  setImmediate: (task) => void setImmediate(task),
}

/** Resolves after so long, or at once where `signal` ends the wait: `signal.aborted` says which. */
export function sleep(timers: Timers, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted === true) {
      resolve()
      return
    }
    const end = (): void => {
      timers.clear(timer)
      signal?.removeEventListener('abort', end)
      resolve()
    }
    const timer = timers.setTimeout(end, ms)
    signal?.addEventListener('abort', end)
  })
}
