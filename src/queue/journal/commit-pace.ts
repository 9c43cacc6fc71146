// Keeps commits apart, so that records gather. A fast disk could sync every record by itself, which costs several times
// as much CPU time a record; and the disks of clouds are sold by the number of their operations. It waits for nobody where
// nobody else will come: clients that wait for their answers send nothing before them.

import type { Timer, Timers } from '../../lib/timers.ts'

/** About the time from the beginning of one commit to that of the next. */
const COMMIT_INTERVAL_MS = 1
/** If so many bytes wait already, they are worth a commit of their own. */
const ENOUGH_BYTES = 256 * 1024
/** The most records that were unanswered at once are those of the last 16 to 32 commits. */
const SPAN_COMMITS = 16

export class CommitPace {
  readonly #timers: Pick<Timers, 'monotonicMs' | 'setTimeout' | 'clear'>
  #lastMs = Number.NEGATIVE_INFINITY
  /** Of the commit that is put off; null: none is. */
  #timer: Timer | null = null
  #most = 0
  #mostBefore = 0
  #commits = 0

  constructor(timers: Pick<Timers, 'monotonicMs' | 'setTimeout' | 'clear'>) {
    this.#timers = timers
  }

  /** A record has come, and so many wait or are being written. */
  note(unanswered: number): void {
    if (unanswered > this.#most) this.#most = unanswered
  }

  /** A commit begins now. */
  begin(): void {
    this.#lastMs = this.#timers.monotonicMs()
    this.#commits += 1
    if (this.#commits < SPAN_COMMITS) return
    this.#commits = 0
    this.#mostBefore = this.#most
    this.#most = 0
  }

  /**
   * true: the next commit, of so many records and bytes so far, comes too soon, and `commit` will be called when it is due,
   * unless `isDue` says so before; the timer makes a whole ms of less. false: it may begin now.
   */
  defer(records: number, bytes: number, commit: () => void): boolean {
    if (bytes >= ENOUGH_BYTES || this.#areAll(records)) return false
    const waitMs = this.#lastMs + COMMIT_INTERVAL_MS - this.#timers.monotonicMs()
    if (waitMs <= 0) return false
    this.#timer = this.#timers.setTimeout(() => {
      this.#timer = null
      commit()
    }, waitMs)
    return true
  }

  /** Whether a commit was put off and may begin now, since so many records wait. It is then put off no more. */
  isDue(records: number): boolean {
    if (this.#timer === null || !this.#areAll(records)) return false
    this.#timers.clear(this.#timer)
    this.#timer = null
    return true
  }

  /** As many as were ever unanswered at once of late: whoever sends now waits already. */
  #areAll(records: number): boolean {
    return records >= Math.max(this.#most, this.#mostBefore)
  }
}
