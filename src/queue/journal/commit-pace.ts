// Keeps commits apart, so that records gather. A fast disk could sync every record by itself, which costs several times
// as much CPU time a record; and the disks of clouds are sold by the number of their operations.

/** About the time from the beginning of one commit to that of the next. */
const COMMIT_INTERVAL_MS = 1
/** If so many bytes wait already, they are worth a commit of their own. */
const ENOUGH_BYTES = 256 * 1024
/** A wait that gathered nothing was in vain: so many commits do not wait. One client that waits for its answers is served so. */
const UNPACED_COMMITS = 16

export class CommitPace {
  readonly #monotonicMs: () => number
  #lastMs = Number.NEGATIVE_INFINITY
  /** The next commit has waited. */
  #hasWaited = false
  #unpaced = 0

  constructor(monotonicMs: () => number) {
    this.#monotonicMs = monotonicMs
  }

  /** A commit of so many records begins now. */
  begin(records: number): void {
    this.#lastMs = this.#monotonicMs()
    if (this.#unpaced > 0) this.#unpaced -= 1
    else if (this.#hasWaited && records === 1) this.#unpaced = UNPACED_COMMITS
    this.#hasWaited = false
  }

  /** How long the next commit is to wait, of so many bytes so far. 0: it may begin now. A timer makes a whole ms of less. */
  waitMs(bytes: number): number {
    if (bytes >= ENOUGH_BYTES || this.#unpaced > 0) return 0
    const waitMs = Math.max(0, this.#lastMs + COMMIT_INTERVAL_MS - this.#monotonicMs())
    this.#hasWaited = waitMs > 0
    return waitMs
  }
}
