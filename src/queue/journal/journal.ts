// The embedded queue: appends records to NDJSON segments on the local disk. One write is in flight at a time, small ones
// begin about a millisecond apart, and each takes all records that have arrived meanwhile: many records share a sync.

import { type Clock, systemClock } from '../../lib/clock.ts'
import type { OnNotice } from '../../lib/notice.ts'
import { systemTimers, type Timer, type Timers } from '../../lib/timers.ts'
import type { EventQueue, QueueRecord, Settled, Settlement } from '../queue.ts'
import { CommitPace } from './commit-pace.ts'
import { BLOCK_BYTES, MIN_DIRECT_BYTES } from './direct-writes.ts'
import { type Disk, realDisk } from './disk.ts'
import { JournalFiles } from './journal-files.ts'
import type { JournalPosition } from './segments.ts'
import { TimeMarks } from './time-marks.ts'

/** One writev takes at most 1,024 buffers (IOV_MAX), one of which may fill a block. */
const MAX_COMMIT_RECORDS = 1023
/** A larger commit costs no less a record, and its first record waits longer. */
const MAX_COMMIT_BYTES = 2 * 1024 * 1024
/** More than a ring of the default size can hold. Behind a stuck disk, further records are refused. */
const MAX_WAITING_RECORDS = 262_144
const DEFAULT_SEGMENT_BYTES = 64 * 1024 * 1024
/** A full journal has at least this many segments, so that removing old ones frees it in steps. */
const MIN_SEGMENTS = 8
const RETRY_MS = 1000
/** A folder that was removed while the service runs is noticed within this time. */
const SWEEP_MS = 5_000
const HOUR_MS = 3_600_000
/** The minimum, since recovery reads the keys of the last 300 s from the segments. Twice that, as a margin. */
const MIN_KEEP_MS = 600_000

export interface JournalOptions {
  readonly directory: string
  /** Bound on the bytes of all segments; beyond it records are refused. */
  readonly maxBytes: number
  /** Age at which a segment is removed; null: never. */
  readonly keepHours: number | null
  readonly segmentBytes?: number
  /** Both come from `recover`, which describes them. */
  readonly keysFrom?: JournalPosition | null
  readonly resumeAfter?: JournalPosition | null
  readonly clock?: Clock
  readonly timers?: Timers
  readonly disk?: Disk
  /** Called for each durable write. */
  readonly onCommit?: (records: number) => void
  /** Gets a sentence for the log when the disk fails, when it works again, and when a sweep fails. */
  readonly onNotice?: OnNotice
}

interface Batch {
  readonly lines: Uint8Array[]
  readonly settled: Settled[]
  bytes: number
}

/** Creates the folder, truncates a torn last line, and opens the last segment. Throws where it cannot be written. */
export async function openJournal(options: JournalOptions): Promise<Journal> {
  const { directory, maxBytes, resumeAfter = null, disk = realDisk, onNotice = () => {} } = options
  const wantedBytes = options.segmentBytes ?? DEFAULT_SEGMENT_BYTES
  const segmentBytes = Math.max(1, Math.min(wantedBytes, Math.floor(maxBytes / MIN_SEGMENTS)))
  const commitBytes = Math.min(MAX_COMMIT_BYTES, segmentBytes)
  let files: JournalFiles
  try {
    files = await JournalFiles.open({ directory, segmentBytes, commitBytes, resumeAfter, disk, onNotice })
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    const advice = 'Make it a folder that this user may write to, or name another with SLUICE_DATA_DIR'
    throw new Error(`The journal cannot be written in ${directory} (${reason}). ${advice}.`, { cause: error })
  }
  const journal = new Journal(options, files, commitBytes)
  await journal.sweep()
  return journal
}

export class Journal implements EventQueue {
  /** Bytes of a torn line that were truncated when the journal was opened. */
  readonly cutBytes: number
  readonly #files: JournalFiles
  readonly #maxBytes: number
  readonly #keepMs: number
  readonly #commitBytes: number
  readonly #clock: Clock
  readonly #onCommit: (records: number) => void
  readonly #onNotice: OnNotice
  readonly #marks: TimeMarks
  readonly #pace: CommitPace
  readonly #timers: Timers
  readonly #sweeping: Timer

  readonly #waiting: Batch[] = []
  #inFlight: Batch | null = null
  /** A write is in flight, or about to begin. */
  #isBusy = false
  /** Reused by the next write when it is empty. */
  #spare: Batch = emptyBatch()
  /** Records that are waiting or in flight. */
  #unsettledRecords = 0
  #unsettledBytes = 0
  /** Durable bytes of all segments. */
  #durableBytes: number
  #position: JournalPosition
  #refused: Settled[] = []

  #isFull = false
  /** Why the last write failed; null: it did not. */
  #problem: string | null = null
  #lastTryMs = 0
  #isSweeping = false
  /** Why the last sweep failed; null: it did not. */
  #sweepProblem: string | null = null
  #isStopping = false
  #onIdle: (() => void) | null = null

  constructor(options: JournalOptions, files: JournalFiles, commitBytes: number) {
    this.cutBytes = files.cutBytes
    this.#files = files
    this.#maxBytes = options.maxBytes
    this.#keepMs = options.keepHours === null ? Infinity : Math.max(options.keepHours * HOUR_MS, MIN_KEEP_MS)
    this.#commitBytes = commitBytes
    this.#clock = options.clock ?? systemClock
    this.#onCommit = options.onCommit ?? (() => {})
    this.#onNotice = options.onNotice ?? (() => {})
    this.#durableBytes = files.bytes
    this.#position = files.end
    this.#timers = options.timers ?? systemTimers
    this.#pace = new CommitPace(this.#timers)
    this.#marks = new TimeMarks(options.keysFrom ?? { segment: files.firstSegment, offset: 0 })
    this.#marks.note(this.#clock(), this.#position)
    this.#sweeping = this.#timers.setInterval(() => void this.sweep(), SWEEP_MS)
    this.#sweeping.unref()
  }

  /** The end of the last record whose `settled` was called. */
  position(): JournalPosition {
    return this.#position
  }

  /** All records before this position are older than 300 s. */
  keysFrom(nowMs: number): JournalPosition {
    return this.#marks.keysFrom(nowMs)
  }

  /** Durable bytes of all segments. */
  get sizeBytes(): number {
    return this.#durableBytes
  }

  /** 'ok', or why it refuses. */
  get state(): string {
    if (this.#problem !== null) return this.#problem
    return this.#isFull ? 'full: SLUICE_JOURNAL_MAX_MB reached' : 'ok'
  }

  publish(record: QueueRecord, settled: Settled): void {
    const { line } = record
    if (!this.#admits(line.length)) {
      this.#refuse(settled)
      return
    }
    let batch = this.#waiting[this.#waiting.length - 1]
    if (
      batch === undefined ||
      batch.lines.length === MAX_COMMIT_RECORDS ||
      batch.bytes + line.length > this.#commitBytes
    ) {
      batch = this.#spare.lines.length === 0 && batch === undefined ? this.#spare : emptyBatch()
      this.#waiting.push(batch)
    }
    batch.lines.push(line)
    batch.settled.push(settled)
    batch.bytes += line.length
    this.#unsettledRecords += 1
    this.#unsettledBytes += line.length
    if (this.#isBusy) return
    this.#isBusy = true
    if (this.#pace.defer(batch.bytes, this.#commitNext)) return
    // After all sockets of this turn of the event loop were read: otherwise the first record would be written alone,
    // and the others would wait for its sync.
    setImmediate(this.#commitNext)
  }

  async stop(): Promise<void> {
    this.#isStopping = true
    this.#timers.clear(this.#sweeping)
    if (this.#isBusy) await new Promise<void>((resolve) => (this.#onIdle = resolve))
    await this.#files.close()
  }

  /** Removes old segments, and notices those that others have removed. Runs every few seconds. */
  async sweep(): Promise<void> {
    if (this.#isSweeping || this.#isStopping) return
    this.#isSweeping = true
    try {
      await this.#files.removeBefore(this.#clock() - this.#keepMs)
      this.#sweepProblem = null
    } catch (error) {
      const problem = (error as Error).message
      if (problem !== this.#sweepProblem) this.#onNotice(`The journal's old segments were not removed: ${problem}`)
      this.#sweepProblem = problem
    }
    this.#durableBytes = this.#files.bytes
    if (this.#durableBytes < this.#maxBytes) this.#isFull = false
    this.#isSweeping = false
  }

  #admits(lineBytes: number): boolean {
    if (this.#isStopping || this.#unsettledRecords >= MAX_WAITING_RECORDS) return false
    const unsettledBytes = this.#unsettledBytes + lineBytes
    // Each large commit may fill a block.
    const fillBytes = unsettledBytes < MIN_DIRECT_BYTES ? 0 : (this.#waiting.length + 2) * BLOCK_BYTES
    this.#isFull = this.#durableBytes + unsettledBytes + fillBytes > this.#maxBytes
    if (this.#isFull) return false
    if (this.#problem === null) return true
    // After a failure one record at a time tests whether the disk works again; the others are refused at once.
    const nowMs = this.#clock()
    if (this.#isBusy || Math.abs(nowMs - this.#lastTryMs) < RETRY_MS) return false
    this.#lastTryMs = nowMs
    return true
  }

  /** Like any other answer it comes after `publish` has returned. */
  #refuse(settled: Settled): void {
    if (this.#refused.push(settled) > 1) return
    queueMicrotask(() => {
      const refused = this.#refused
      this.#refused = []
      for (const settle of refused) settle('unavailable')
    })
  }

  readonly #commitNext = (): void => {
    const batch = this.#waiting.shift()
    if (batch === undefined) {
      this.#inFlight = null
      this.#isBusy = false
      this.#onIdle?.()
      return
    }
    this.#inFlight = batch
    this.#pace.begin(batch.lines.length)
    if (this.#files.isReady(batch.bytes)) {
      this.#files.append(batch.lines, batch.bytes, this.#onWritten)
      return
    }
    this.#files.prepare(batch.bytes).then(
      () => this.#files.append(batch.lines, batch.bytes, this.#onWritten),
      (error: Error) => this.#onWritten(error),
    )
  }

  readonly #onWritten = (error: Error | null, fileBytes = 0): void => {
    const batch = this.#inFlight
    if (batch === null) throw new Error('a write of the journal ended that had not begun')
    if (error !== null) {
      void this.#fail(batch, error)
      return
    }
    if (this.#problem !== null) this.#onNotice('The journal takes records again', 'info')
    this.#problem = null
    const end = this.#files.end
    // The next write starts before the answers of this one are sent, so that the disk does not idle.
    const [next] = this.#waiting
    if (next === undefined || !this.#pace.defer(next.bytes, this.#commitNext)) this.#commitNext()
    this.#onCommit(batch.lines.length)
    this.#durableBytes += fileBytes
    this.#settle(batch, 'durable', end)
    this.#marks.note(this.#clock(), end)
  }

  /**
   * Refuses all unsettled records, and truncates the segment at once, so that readers do not see a torn line for long.
   */
  async #fail(batch: Batch, error: Error): Promise<void> {
    const reason = (error as NodeJS.ErrnoException).code ?? error.message
    if (this.#problem !== reason) this.#onNotice(`The journal refuses records: ${error.message}`)
    this.#problem = reason
    this.#lastTryMs = this.#clock()
    // Where truncating fails, the next write begins with it.
    await this.#files.prepare(0).catch(() => {})
    const refused = [batch, ...this.#waiting.splice(0)]
    this.#commitNext()
    for (const each of refused) this.#settle(each, 'unavailable', this.#position)
  }

  #settle(batch: Batch, settlement: Settlement, end: JournalPosition): void {
    const { settled } = batch
    this.#unsettledRecords -= settled.length
    this.#unsettledBytes -= batch.bytes
    // In the same turn as the calls below, so that a snapshot taken in a later turn counts exactly the records before
    // it.
    this.#position = end
    for (let index = 0; index < settled.length; index += 1) settled[index](settlement)
    batch.lines.length = 0
    settled.length = 0
    batch.bytes = 0
    this.#spare = batch
  }
}

function emptyBatch(): Batch {
  return { lines: [], settled: [], bytes: 0 }
}
