// Keeps commits apart, so that records gather. A fast disk could sync every record by itself, which costs several times
// as much CPU time a record; and the disks of clouds are sold by the number of their operations.

import type { Timers } from '../../lib/timers.ts'

/** About the time from the beginning of one commit to that of the next. */
const COMMIT_INTERVAL_MS = 1
/** If so many bytes wait already, they are worth a commit of their own. */
const ENOUGH_BYTES = 256 * 1024
/** A wait that gathered nothing was in vain: so many commits do not wait. One client that waits for its answers is served so. */
const UNPACED_COMMITS = 16

export class CommitPace {
  readonly #timers: Pick<Timers, 'monotonicMs' | 'setTimeout'>
  #lastMs = Number.NEGATIVE_INFINITY
  #isDeferred = false
  #unpaced = 0

  constructor(timers: Pick<Timers, 'monotonicMs' | 'setTimeout'>) {
    this.#timers = timers
  }

  /** A commit of so many records begins now. */
  begin(records: number): void {
    this.#lastMs = this.#timers.monotonicMs()
    if (this.#unpaced > 0) this.#unpaced -= 1
    else if (this.#isDeferred && records === 1) this.#unpaced = UNPACED_COMMITS
    this.#isDeferred = false
  }

  /**
   * true: the next commit, of `bytes` so far, comes too soon, and `commit` will be called when it is due; the timer makes
   * a whole ms of less. false: it may begin now.
   */
  defer(bytes: number, commit: () => void): boolean {
    if (bytes >= ENOUGH_BYTES || this.#unpaced > 0) return false
    const waitMs = this.#lastMs + COMMIT_INTERVAL_MS - this.#timers.monotonicMs()
    this.#isDeferred = waitMs > 0
    if (this.#isDeferred) this.#timers.setTimeout(commit, waitMs)
    return this.#isDeferred
  }
}
