// Keeps commits apart. A fast disk could sync every record by itself, which costs several times as much CPU time a
// record; and the disks of clouds are sold by the number of their operations.

/** The least time from the beginning of one commit to the beginning of the next. */
const COMMIT_INTERVAL_MS = 1
/** So many bytes are worth a commit of their own. */
const ENOUGH_BYTES = 256 * 1024

export class CommitPace {
  readonly #monotonicMs: () => number
  #lastMs = Number.NEGATIVE_INFINITY

  constructor(monotonicMs: () => number) {
    this.#monotonicMs = monotonicMs
  }

  /** A commit begins now. */
  begin(): void {
    this.#lastMs = this.#monotonicMs()
  }

  /** How long a commit of so many bytes is to wait, at most COMMIT_INTERVAL_MS. 0: it may begin now. */
  waitMs(bytes: number): number {
    if (bytes >= ENOUGH_BYTES) return 0
    return Math.max(0, this.#lastMs + COMMIT_INTERVAL_MS - this.#monotonicMs())
  }
}
