// Keeps the spool's cursor: moves it behind what is acknowledged, writes it down, and lets go of what NATS must have synced
// and the audit counts.

import type { NatsConnection } from '@nats-io/transport-node'
import { errorMessage } from '../../lib/errors.ts'
import type { OnNotice } from '../../lib/notice.ts'
import type { Timers } from '../../lib/timers.ts'
import type { Disk } from '../journal/disk.ts'
import type { Journal } from '../journal/journal.ts'
import { comparePositions, type JournalPosition } from '../journal/segments.ts'
import type { DamagedSegments } from './damaged-segments.ts'
import { KeptBatches } from './kept-batches.ts'
import { type SpoolCursor, writeCursor } from './spool-cursor.ts'

/** Between two writings, but for what has to be reserved. */
const SAVE_MS = 1000

/** Between two new segments for what is kept of the one before, so that batches that come now and then make few. */
const RENEW_MS = 10_000

/** So long the audit is waited for. It takes a minute or two, and what is kept takes room in the spool. */
const MAX_UNCOUNTED_MS = 3_600_000

/** Then it is told: not for an outage, but a right that is missing. */
const MOST_UNANSWERED = 10

/** How long a batch that was acknowledged is kept; `syncMs`: NATS has synced it after so long at the most. */
export function keptMs(syncMs: number): number {
  return 2 * syncMs
}

export interface CursorKeeperParts {
  readonly journal: Pick<Journal, 'position' | 'removeBefore' | 'renew'>
  /** Of the spool. */
  readonly directory: string
  readonly damaged: Pick<DamagedSegments, 'setAside'>
  readonly disk: Disk
  readonly timers: Pick<Timers, 'monotonicMs'>
  readonly cursor: SpoolCursor
  /** When NATS syncs what it acknowledges: after so long at the most; 0: before. */
  readonly syncMs: () => number
  /** When the oldest was sent that counts for the limits by the spool alone, by the monotonic clock; infinite: none does. */
  readonly uncountedSinceMs: () => number
  readonly onNotice: OnNotice
}

export class CursorKeeper {
  readonly kept: KeptBatches
  readonly #parts: CursorKeeperParts
  readonly #onProblem: (error: unknown) => void
  /** Called after each writing. */
  readonly #onEnd: () => void
  #cursor: SpoolCursor
  #saved: SpoolCursor
  /** What the last item that was read ends with. */
  #readEnd: JournalPosition
  #busy: Promise<void> | null = null
  #savedAtMs = Number.NEGATIVE_INFINITY
  #renewedAtMs = Number.NEGATIVE_INFINITY
  /** NATS has lost what it acknowledged. */
  hasLost = false
  /** Questions in a row. */
  #unanswered = 0

  constructor(parts: CursorKeeperParts, onProblem: (error: unknown) => void, onEnd: () => void) {
    this.#parts = parts
    this.#onProblem = onProblem
    this.#onEnd = onEnd
    this.#cursor = this.#saved = parts.cursor
    this.#readEnd = parts.cursor.sent
    this.kept = new KeptBatches(parts.timers, parts.cursor)
  }

  get isBusy(): boolean {
    return this.#busy !== null
  }

  get sent(): JournalPosition {
    return this.#cursor.sent
  }

  /** Where what is kept begins. */
  get released(): JournalPosition {
    return this.#cursor.released
  }

  /** What an earlier or this process may have sent. */
  get reserved(): JournalPosition {
    return later(this.#cursor.reserved, this.#cursor.sent)
  }

  /** Nothing is left to send or to keep. */
  get isEmpty(): boolean {
    const { sent } = this.#cursor
    return this.#busy === null && comparePositions(this.#saved.released, sent) === 0 && sent.offset === 0
  }

  isAllSent(): boolean {
    return comparePositions(this.#cursor.sent, this.#parts.journal.position()) >= 0
  }

  /** A record that ends there may be sent. */
  isReserved(end: JournalPosition): boolean {
    return comparePositions(end, this.#saved.reserved) <= 0
  }

  /** All up to there was read, and has to be reserved before it is sent. */
  hasRead(end: JournalPosition): void {
    this.#readEnd = later(this.#readEnd, end)
  }

  move(sent: JournalPosition): void {
    this.#cursor = { ...this.#cursor, sent: later(this.#cursor.sent, sent) }
  }

  /** Goes back to what is kept. Returns where that begins. */
  rewind(): JournalPosition {
    const { released } = this.#cursor
    this.#readEnd = released
    this.#cursor = { ...this.#cursor, reserved: this.reserved, sent: released }
    this.hasLost = false
    void this.save()
    return released
  }

  /** To be called every now and then. */
  look(connection: NatsConnection | null): void {
    if (this.#busy !== null || this.hasLost || this.#parts.timers.monotonicMs() - this.#savedAtMs < SAVE_MS) return
    void this.#do(this.#look(connection))
  }

  async #look(connection: NatsConnection | null): Promise<void> {
    if (connection !== null) await this.#release(connection).then(() => (this.#unanswered = 0), this.#notAnswered)
    const isMoved = comparePositions(this.#cursor.sent, this.#saved.sent) > 0
    const isReleased = comparePositions(this.#cursor.released, this.#saved.released) > 0
    if (!this.hasLost && (isMoved || isReleased || this.#isOver)) await this.#write()
  }

  /** All is sent: a segment to which nothing is added can be let go of as a whole. */
  get #isOver(): boolean {
    const isRare = this.#parts.timers.monotonicMs() - this.#renewedAtMs >= RENEW_MS
    return isRare && this.isAllSent() && this.#parts.journal.position().offset > 0
  }

  /** Asked again with the next look: what NATS does not say for long is told. */
  readonly #notAnswered = (error: unknown): void => {
    this.#unanswered += 1
    if (this.#unanswered === MOST_UNANSWERED)
      this.#parts.onNotice(
        `the spool keeps what it has sent, and may fill: NATS does not say whether it still has it: ${errorMessage(error)}`,
      )
  }

  reserve(): void {
    if (this.#busy === null) void this.save()
  }

  /** Reserves what was read, and writes the cursor down. Resolves where that fails too. */
  async save(): Promise<void> {
    while (this.#busy !== null) await this.#busy
    await this.#do(this.#write())
  }

  #do(task: Promise<void>): Promise<void> {
    this.#savedAtMs = this.#parts.timers.monotonicMs()
    this.#busy = task.catch(this.#onProblem).finally(() => {
      this.#busy = null
      this.#onEnd()
    })
    return this.#busy
  }

  async #write(): Promise<void> {
    const { directory, disk, journal, damaged, timers } = this.#parts
    const segment = this.#isOver ? await journal.renew() : null
    if (segment !== null) {
      this.#renewedAtMs = timers.monotonicMs()
      this.move({ segment, offset: 0 })
    }
    this.kept.close()
    const { witness, sequences } = this.kept
    const cursor = { ...this.#cursor, reserved: later(this.reserved, this.#readEnd), witness, sequences }
    await writeCursor(directory, cursor, disk)
    this.#saved = cursor
    this.#cursor = { ...this.#cursor, reserved: cursor.reserved }
    await journal.removeBefore(cursor.released.segment, damaged.setAside)
  }

  /** Sees at once whether NATS has lost the end of its stream, and lets go of segments that are sent, kept for long enough, counted and there. */
  async #release(connection: NatsConnection): Promise<void> {
    const { witness } = this.kept
    if (witness !== null && !(await this.kept.isThere({ witness }, connection))) this.hasLost = true
    const { syncMs, uncountedSinceMs, timers } = this.#parts
    const nowMs = timers.monotonicMs()
    const untilMs = Math.min(nowMs - keptMs(syncMs()), Math.max(uncountedSinceMs() - 1, nowMs - MAX_UNCOUNTED_MS))
    const { sent } = this.#cursor
    while (!this.hasLost && this.#cursor.released.segment < sent.segment) {
      const { segment } = this.#cursor.released
      const due = this.kept.due(segment, untilMs)
      if (due === null) return
      for (const group of due) if (!(await this.kept.isThere(group, connection))) return void (this.hasLost = true)
      this.kept.release(segment)
      const next = Math.min(this.kept.firstSegment, sent.segment)
      this.#cursor = { ...this.#cursor, released: { segment: next, offset: 0 } }
    }
  }
}

function later(one: JournalPosition, other: JournalPosition): JournalPosition {
  return comparePositions(one, other) >= 0 ? one : other
}
