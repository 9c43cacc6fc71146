// Keeps (time, position) marks of the last 300 s, so that a start reads the journal only as far back as idempotency
// keys are remembered.

import { IDEMPOTENCY_WINDOW_SECONDS } from '../../contract/bounds.ts'
import type { JournalPosition } from './segments.ts'

const WINDOW_MS = IDEMPOTENCY_WINDOW_SECONDS * 1000
/** A start reads at most this much more than it needs. The window then has about 60 marks. */
const SPACING_MS = 5000

interface Mark {
  /** All records before `position` were received before this time. */
  readonly atMs: number
  readonly position: JournalPosition
}

export class TimeMarks {
  /** Oldest first. The first one is the newest that lies outside the window. */
  readonly #marks: Mark[]

  constructor(start: JournalPosition) {
    this.#marks = [{ atMs: Number.NEGATIVE_INFINITY, position: start }]
  }

  /** Notes that the journal ends at `position` now. A clock that goes back adds no mark. */
  note(nowMs: number, position: JournalPosition): void {
    if (nowMs - this.#marks[this.#marks.length - 1].atMs < SPACING_MS) return
    this.#forget(nowMs)
    this.#marks.push({ atMs: nowMs, position })
  }

  /** All records before this position are older than 300 s. */
  keysFrom(nowMs: number): JournalPosition {
    this.#forget(nowMs)
    return this.#marks[0].position
  }

  #forget(nowMs: number): void {
    while (this.#marks.length > 1 && this.#marks[1].atMs <= nowMs - WINDOW_MS) this.#marks.shift()
  }
}
