// Where in the journal the last 300 s begin: a few (time, position) marks, so that a start need not read further back
// than idempotency keys are remembered.

import { IDEMPOTENCY_WINDOW_SECONDS } from '../../bounds.ts'
import type { JournalPosition } from './segments.ts'

const WINDOW_MS = IDEMPOTENCY_WINDOW_SECONDS * 1000
/** At most this much is read in vain; the window then holds about 60 marks. */
const SPACING_MS = 5000

interface Mark {
  /** Every record before `position` was durable by then, and so received before then. */
  readonly atMs: number
  readonly position: JournalPosition
}

export class TimeMarks {
  /** Oldest first; the first one is the last that lies outside the window. */
  readonly #marks: Mark[]

  constructor(start: JournalPosition) {
    this.#marks = [{ atMs: Number.NEGATIVE_INFINITY, position: start }]
  }

  /** Says that the journal ends at `position` now. Time that goes backwards is taken to stand still. */
  note(nowMs: number, position: JournalPosition): void {
    if (nowMs - this.#marks[this.#marks.length - 1].atMs < SPACING_MS) return
    this.#forget(nowMs)
    this.#marks.push({ atMs: nowMs, position })
  }

  /** No record before the position it returns is younger than 300 s. */
  keysFrom(nowMs: number): JournalPosition {
    this.#forget(nowMs)
    return this.#marks[0].position
  }

  #forget(nowMs: number): void {
    while (this.#marks.length > 1 && this.#marks[1].atMs <= nowMs - WINDOW_MS) this.#marks.shift()
  }
}
