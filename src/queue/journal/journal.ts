// The embedded queue: appends records to NDJSON segments on the local disk. One write is in flight at a time, small ones
// begin about a millisecond apart, and each takes all records that have arrived meanwhile: many records share a sync.

import type { Status } from '../../contract/health.ts'
import { systemClock } from '../../lib/clock.ts'
import { errorCode, errorMessage } from '../../lib/errors.ts'
import type { OnNotice } from '../../lib/notice.ts'
import { HOUR_MS } from '../../lib/spans.ts'
import { systemTimers, type Timer } from '../../lib/timers.ts'
import type { EventQueue, OnAck, QueueAck, QueueRecord, QueueRefusal } from '../queue.ts'
import { RefusedRecords } from '../refused-records.ts'
import { CommitPace } from './commit-pace.ts'
import { BLOCK_BYTES, MIN_DIRECT_BYTES } from './direct-writes.ts'
import { DISK_FULL, NO_ROOM, realDisk } from './disk.ts'
import { JournalFiles } from './journal-files.ts'
import { removalTime, startHoldMs } from './journal-keep.ts'
import type { DamageKind } from './segment-cursor.ts'
import type { JournalPosition } from './segments.ts'
import { TimeMarks } from './time-marks.ts'

/** One writev takes at most 1,024 buffers (IOV_MAX), one of which may fill a block. */
const MAX_COMMIT_RECORDS = 1023
/** A larger commit costs no less a record, and its first record waits longer. */
const MAX_COMMIT_BYTES = 2 * 1024 * 1024
/** More than a ring of the default size can hold. Behind a stuck disk, further records are refused. */
const MAX_WAITING_RECORDS = 262_144
/** A full journal has at least this many segments, so that removing old ones frees it in steps. */
const MIN_SEGMENTS = 8
const RETRY_MS = 1000
/** A folder that was removed while the service runs is noticed within this time. */
const SWEEP_MS = 5_000
/** The minimum, since recovery reads the keys of the last 300 s from the segments. Twice that, as a margin. */
const MIN_KEEP_MS = 600_000

const DEFAULTS = {
  segmentBytes: 64 * 1024 * 1024,
  /** Both come from `recover`, which describes them. */
  keysFrom: null as JournalPosition | null,
  /** An operator has set `keepHours`: they hold from the start on. */
  isKeepNamed: false,
  resumeAfter: null as JournalPosition | null,
  clock: systemClock,
  timers: systemTimers,
  disk: realDisk,
  /** Called for each durable write. */
  onCommit: (_records: number): void => {},
  /** Called for each record that is refused at the maximum size, and for each write that a full disk refuses. */
  onNoRoom: (): void => {},
  /** Called for each place where a segment, or what lies beside it, is found damaged. */
  onDamage: (_kind: DamageKind): void => {},
  /** Gets a sentence for the log when the disk fails, but for a full one, when it works again, and when a sweep fails. */
  onNotice: ((): void => {}) as OnNotice,
}

export interface JournalOptions extends Partial<typeof DEFAULTS> {
  readonly directory: string
  /** Bound on the bytes of all segments; beyond it records are refused. */
  readonly maxBytes: number
  /** Age at which a segment is removed; null: never. */
  readonly keepHours: number | null
}

interface Batch {
  readonly lines: Uint8Array[]
  readonly onAck: OnAck[]
  bytes: number
}

/** Creates the folder, truncates a torn last line, and opens the last segment. Throws where it cannot be written. */
export async function openJournal(options: JournalOptions): Promise<Journal> {
  const all = { ...DEFAULTS, ...options }
  const { directory, maxBytes, disk } = all
  const segmentBytes = Math.max(1, Math.min(all.segmentBytes, Math.floor(maxBytes / MIN_SEGMENTS)))
  const commitBytes = Math.min(MAX_COMMIT_BYTES, segmentBytes)
  let files: JournalFiles
  try {
    files = await JournalFiles.open({ ...all, segmentBytes, commitBytes })
  } catch (error) {
    // Of the process, which may reserve no more addresses (ulimit -v).
    if (error instanceof RangeError) throw error
    const cure = NO_ROOM.includes(errorCode(error) ?? '')
      ? 'Make room there'
      : 'Make it a folder that this user may write to, or name another with SLUICE_DATA_DIR'
    throw new Error(`The journal cannot be written in ${directory} (${errorMessage(error)}). ${cure}.`, {
      cause: error,
    })
  }
  const keepMs = Math.max((all.keepHours ?? Infinity) * HOUR_MS, MIN_KEEP_MS)
  const holdMs = all.isKeepNamed ? 0 : await startHoldMs(directory, all.clock() - keepMs, disk)
  const journal = new Journal(all, files, { commitBytes, keepMs, holdMs })
  await journal.sweep()
  return journal
}

export class Journal implements EventQueue {
  /** Bytes of a torn line that were truncated when the journal was opened. */
  readonly cutBytes: number
  readonly #options: Required<JournalOptions>
  readonly #files: JournalFiles
  readonly #removalTime: () => number
  readonly #commitBytes: number
  readonly #marks: TimeMarks
  readonly #pace: CommitPace
  readonly #sweeping: Timer

  readonly #waiting: Batch[] = []
  #inFlight: Batch | null = null
  /** A write is in flight, or about to begin. */
  #isBusy = false
  /** Reused by the next write when it is empty. */
  #spare: Batch = emptyBatch()
  /** Records that are waiting or in flight. */
  #unackedRecords = 0
  #unackedBytes = 0
  /** Durable bytes of all segments. */
  #durableBytes: number
  #position: JournalPosition
  readonly #refused = new RefusedRecords()

  /** Of the last record for which there was no room. */
  #refusedBytes = 0
  /** Why the last write failed; null: it did not. */
  #problem: string | null = null
  #lastTryMs = 0
  #isSweeping = false
  /** Why the last sweep failed; null: it did not. */
  #sweepProblem: string | null = null
  #isStopping = false
  #onIdle: (() => void) | null = null

  constructor(
    options: Required<JournalOptions>,
    files: JournalFiles,
    { commitBytes, keepMs, holdMs }: { commitBytes: number; keepMs: number; holdMs: number },
  ) {
    const { clock, timers, onNotice, keysFrom } = options
    this.cutBytes = files.cutBytes
    this.#options = options
    this.#files = files
    this.#commitBytes = commitBytes
    this.#durableBytes = files.bytes
    this.#position = files.end
    this.#removalTime = removalTime({ keepMs, holdMs, clock, timers, onNotice })
    this.#pace = new CommitPace(timers)
    this.#marks = new TimeMarks(keysFrom ?? { segment: files.firstSegment, offset: 0 })
    this.#marks.note(clock(), this.#position)
    this.#sweeping = timers.setInterval(() => void this.sweep(), SWEEP_MS)
    this.#sweeping.unref()
  }

  /** The end of the last record whose `onAck` was called. */
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

  get status(): Status<'journal'> {
    const problem = this.#problem
    if (problem !== null) {
      return { state: refusalFor(problem) === 'journal_full' ? 'disk_full' : 'disk_error', reason: problem }
    }
    const refusal = this.#noRoomFor(this.#refusedBytes)
    if (refusal === 'journal_full') return { state: 'full', reason: 'SLUICE_JOURNAL_MAX_MB reached' }
    return refusal === 'journal_stuck'
      ? { state: 'stuck', reason: `${MAX_WAITING_RECORDS.toLocaleString('en-US')} records wait` }
      : { state: 'ok', reason: null }
  }

  publish(record: QueueRecord, onAck: OnAck): void {
    const { line } = record
    const refusal = this.#admit(line.length)
    if (refusal !== null) {
      this.#refused.add(onAck, refusal)
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
    batch.onAck.push(onAck)
    batch.bytes += line.length
    this.#unackedRecords += 1
    this.#unackedBytes += line.length
    this.#pace.note(this.#unackedRecords)
    const waiting = this.#unackedRecords - (this.#inFlight?.lines.length ?? 0)
    const wasBusy = this.#isBusy
    this.#isBusy = true
    if (wasBusy ? !this.#pace.isDue(waiting) : this.#pace.defer(waiting, batch.bytes, this.#commitNext)) return
    // After all sockets of this turn of the event loop were read: otherwise the first record would be written alone,
    // and the others would wait for its sync.
    this.#options.timers.setImmediate(this.#commitNext)
  }

  refusalNow(lineBytes: number): QueueRefusal | null {
    return this.#noRoomFor(lineBytes) ?? (this.#problem === null ? null : refusalFor(this.#problem))
  }

  async stop(): Promise<void> {
    this.#isStopping = true
    this.#options.timers.clear(this.#sweeping)
    if (this.#isBusy) await new Promise<void>((resolve) => (this.#onIdle = resolve))
    await this.#files.close()
  }

  /** Removes old segments, and notices those that others have removed. Runs every few seconds. */
  async sweep(): Promise<void> {
    if (this.#isSweeping || this.#isStopping) return
    this.#isSweeping = true
    this.#files.syncBeside()
    try {
      await this.#files.removeBefore(this.#removalTime())
      this.#sweepProblem = null
    } catch (error) {
      const problem = (error as Error).message
      if (problem !== this.#sweepProblem)
        this.#options.onNotice(
          `old segments of the journal were not removed, and take their room until the next try: ${problem}`,
        )
      this.#sweepProblem = problem
    }
    this.#durableBytes = this.#files.bytes
    this.#isSweeping = false
  }

  /** Removes the segments before this one. */
  async removeBefore(segment: number, setAside: (path: string) => Promise<boolean>): Promise<void> {
    await this.#files.removeSegments(segment, setAside)
    this.#durableBytes = this.#files.bytes
  }

  /** Begins a new segment. Returns its number; null: a write was under way. Rejects where the disk fails. */
  async renew(): Promise<number | null> {
    if (this.#isBusy || this.#isStopping) return null
    this.#isBusy = true
    try {
      await this.#files.renew()
      this.#position = this.#files.end
      return this.#position.segment
    } finally {
      this.#commitNext()
    }
  }

  /** null: the record is written. */
  #admit(lineBytes: number): QueueRefusal | null {
    const refusal = this.#noRoomFor(lineBytes)
    if (refusal === 'journal_full') {
      this.#refusedBytes = lineBytes
      this.#options.onNoRoom()
    }
    if (refusal !== null || this.#problem === null) return refusal
    // After a failure one record at a time tests whether the disk works again; the others are refused at once.
    const nowMs = this.#options.clock()
    if (this.#isBusy || Math.abs(nowMs - this.#lastTryMs) < RETRY_MS) return refusalFor(this.#problem)
    this.#lastTryMs = nowMs
    return null
  }

  #noRoomFor(lineBytes: number): QueueRefusal | null {
    if (this.#isStopping) return 'stopping'
    if (this.#unackedRecords >= MAX_WAITING_RECORDS) return 'journal_stuck'
    const unackedBytes = this.#unackedBytes + lineBytes
    // Each large commit may fill a block.
    const fillBytes = unackedBytes < MIN_DIRECT_BYTES ? 0 : (this.#waiting.length + 2) * BLOCK_BYTES
    return this.#durableBytes + unackedBytes + fillBytes > this.#options.maxBytes ? 'journal_full' : null
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
    this.#pace.begin()
    this.#files.append(batch.lines, batch.bytes, this.#onWritten)
  }

  readonly #onWritten = (error: Error | null, fileBytes = 0): void => {
    const batch = this.#inFlight
    if (batch === null) throw new Error('a write of the journal ended that had not begun')
    if (error !== null) {
      void this.#fail(batch, error)
      return
    }
    if (this.#problem !== null && this.#problem !== DISK_FULL) {
      this.#options.onNotice('the journal takes records again: requests get 202 as before', 'info')
    }
    this.#problem = null
    const end = this.#files.end
    // The next write starts before the answers of this one are sent, so that the disk does not idle.
    const [next] = this.#waiting
    const waiting = this.#unackedRecords - batch.lines.length
    this.#inFlight = null
    if (next === undefined || !this.#pace.defer(waiting, next.bytes, this.#commitNext)) this.#commitNext()
    this.#durableBytes += fileBytes
    this.#options.onCommit(batch.lines.length)
    this.#ack(batch, 'durable', end)
    this.#marks.note(this.#options.clock(), end)
  }

  /**
   * Refuses all unacknowledged records, and truncates the segment at once, so that readers do not see a torn line for long.
   */
  async #fail(batch: Batch, error: Error): Promise<void> {
    const reason = (error as NodeJS.ErrnoException).code ?? error.message
    if (reason === DISK_FULL) this.#options.onNoRoom()
    else if (this.#problem !== reason) this.#options.onNotice(refusalText(error, reason))
    this.#problem = reason
    this.#lastTryMs = this.#options.clock()
    // Where truncating fails, the next write begins with it.
    await this.#files.prepare(0).catch(() => {})
    const refused = [batch, ...this.#waiting.splice(0)]
    this.#commitNext()
    for (const each of refused) this.#ack(each, refusalFor(reason), this.#position)
  }

  #ack(batch: Batch, ack: QueueAck, end: JournalPosition): void {
    const { onAck } = batch
    this.#unackedRecords -= onAck.length
    this.#unackedBytes -= batch.bytes
    // In the same turn as the calls below, so that a snapshot taken in a later turn counts exactly the records before
    // it.
    this.#position = end
    for (let index = 0; index < onAck.length; index += 1) onAck[index](ack)
    batch.lines.length = 0
    onAck.length = 0
    batch.bytes = 0
    this.#spare = batch
  }
}

/** `problem`: the code of the failed write. */
function refusalFor(problem: string): QueueRefusal {
  return problem === 'ENOSPC' || problem === 'EDQUOT' ? 'journal_full' : 'journal_error'
}

function refusalText(error: Error, reason: string): string {
  if (reason === 'EFBIG')
    return `the journal cannot be written (${error.message}): answering 503 until the limit on the size of files (ulimit -f) is raised`
  return refusalFor(reason) === 'journal_full'
    ? `the disk is full (${error.message}): answering 503 until there is room`
    : `the journal cannot be written (${error.message}): answering 503 until a write succeeds`
}

function emptyBatch(): Batch {
  return { lines: [], onAck: [], bytes: 0 }
}
