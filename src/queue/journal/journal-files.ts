// The journal's segments for its writer: the last one is open, the others are closed. Appends, truncates what a failed
// write left, rotates to a new segment, and removes old ones.

import { errorCode, errorMessage } from '../../lib/errors.ts'
import type { OnNotice } from '../../lib/notice.ts'
import type { Timers } from '../../lib/timers.ts'
import { ClosedSegments } from './closed-segments.ts'
import { CommitMemory } from './commit-memory.ts'
import { BLOCK_BYTES, DirectWrites, paddingOf } from './direct-writes.ts'
import { DISK_FULL, type Disk, NO_ROOM } from './disk.ts'
import { missingFrom } from './journal-gaps.ts'
import { newSegment, type OpenSegment, openLast, type SegmentContext } from './open-segment.ts'
import type { DamageKind } from './segment-cursor.ts'
import { type JournalPosition, listSegments, segmentNumbers } from './segments.ts'

/** Where the next segment cannot be created, the next try comes after a sixteenth of a segment. */
const RETRY_SHARE = 16

/** It ends no line, so that what it is written behind stays a torn one, which a start cuts. */
const PROBE = Buffer.from(' ')

export interface JournalFilesOptions {
  readonly directory: string
  readonly segmentBytes: number
  /** Bound on the bytes of one append, but for a single line. */
  readonly commitBytes: number
  /** The position of the snapshot, before which nothing may be written; null: there is no snapshot. */
  readonly resumeAfter: JournalPosition | null
  readonly disk: Disk
  readonly timers: Timers
  readonly onNotice: OnNotice
  readonly onDamage: (kind: DamageKind) => void
}

type Appended = (error: Error | null, fileBytes?: number) => void

/**
 * Why no record goes into the open segment any more. removed: another program removed it, or moved it. changed: another
 * program wrote to it, or truncated it. failed: a write or a sync failed, after which the kernel may call durable what it
 * has lost.
 */
type Fault = 'removed' | 'changed' | 'failed'

export class JournalFiles {
  /** Bytes of a torn line that were truncated when the journal was opened. */
  readonly cutBytes: number
  readonly #options: JournalFilesOptions
  readonly #context: SegmentContext
  readonly #memory: CommitMemory
  readonly #direct: DirectWrites
  #open: OpenSegment
  /** Durable bytes of the open segment. After a failed write the segment is truncated to this length. */
  #end: number
  readonly #closed: ClosedSegments
  #mustTruncate = false
  #fault: Fault | null = null
  /** The last commit was large enough for a direct write. */
  #wasLarge = true
  /** The open segment is rotated when it would grow beyond this. */
  #rotateAtBytes: number
  /** Why the last rotation failed; null: it did not. */
  #rotationProblem: string | null = null
  /** Ends when what lies beside closed segments is written. */
  #closing: Promise<unknown> = Promise.resolve()

  private constructor(
    options: JournalFilesOptions,
    context: SegmentContext,
    found: {
      readonly open: OpenSegment
      readonly end: number
      readonly closedBytes: Map<number, number>
      readonly cutBytes: number
    },
  ) {
    const { segmentBytes, disk, onNotice } = options
    this.#options = options
    this.#context = context
    this.#memory = context.memory
    this.#rotateAtBytes = segmentBytes
    this.#direct = new DirectWrites({ open: (path, direct) => disk.openDirectly(path, direct), onNotice })
    this.#open = found.open
    this.#end = found.end
    this.#closed = new ClosedSegments(options, found.closedBytes)
    this.cutBytes = found.cutBytes
  }

  /** Continues at the end of the last segment, and reports gaps before it. */
  static async open(options: JournalFilesOptions): Promise<JournalFiles> {
    const { directory, resumeAfter, disk, onNotice, onDamage, commitBytes } = options
    await disk.makeFolder(directory)
    const memory = new CommitMemory(commitBytes)
    const closed = await listSegments(directory, disk)
    const gaps = { directory, covered: resumeAfter, checks: memory.checks, disk }
    for (const missing of await missingFrom(closed, gaps)) {
      onDamage('missing')
      onNotice(missing)
    }
    const closedBytes = new Map(closed.map((segment) => [segment.number, segment.bytes]))
    const last = closed.pop()
    const context = { ...options, memory }
    const found = await openLast(context, last, resumeAfter)
    if (last?.number === found.open.number) closedBytes.delete(last.number)
    else if (last !== undefined) closedBytes.set(last.number, found.closedBytes)
    return new JournalFiles(options, context, { ...found, closedBytes })
  }

  get end(): JournalPosition {
    return { segment: this.#open.number, offset: this.#end }
  }

  /** Durable bytes of all segments. */
  get bytes(): number {
    return this.#end + this.#closed.bytes
  }

  get firstSegment(): number {
    return this.#closed.first ?? this.#open.number
  }

  /**
   * Truncates what a failed write left, and rotates where the segment is filled by `bytes` more, or at fault. Rejects where
   * the disk fails; the next call tries again.
   */
  async prepare(bytes: number): Promise<void> {
    if (this.#mustTruncate && this.#fault !== 'removed') {
      const { file } = this.#open
      await file.truncate(this.#end)
      await file.sync()
    }
    this.#mustTruncate = false
    if (this.#fault !== null || this.#isFilledBy(bytes)) await this.#rotate(bytes)
  }

  /** Creates the next segment. Where that fails, the open one grows on; rejects where it is at fault. */
  async #rotate(bytes: number): Promise<void> {
    const { directory, segmentBytes, disk } = this.#options
    const closing = this.#open
    try {
      // Somebody may have removed the folder of a running service.
      await disk.makeFolder(directory)
      this.#open = await newSegment(this.#context, closing.number)
    } catch (error) {
      if (this.#fault !== null) throw error
      this.#rotateAtBytes = this.#end + bytes + Math.ceil(segmentBytes / RETRY_SHARE)
      this.#reportRotation(errorMessage(error))
      return
    }
    this.#reportRotation(null)
    if (this.#fault !== 'removed') this.#closed.add(closing.number, this.#end)
    this.#direct.close()
    this.#end = 0
    this.#rotateAtBytes = segmentBytes
    this.#fault = null
    const closed = Promise.allSettled([closing.file.close(), closing.side.close()])
    this.#closing = Promise.all([this.#closing, closed])
  }

  #reportRotation(problem: string | null): void {
    if (problem !== null && problem !== this.#rotationProblem) {
      this.#options.onNotice(
        `the next segment of the journal cannot be created (${problem}): records go on into the open one, no request is refused for it`,
      )
    } else if (problem === null && this.#rotationProblem !== null) {
      this.#options.onNotice('the journal creates new segments again', 'info')
    }
    this.#rotationProblem = problem
  }

  /**
   * Prepares the segment first where that is due. Calls `done` with null once the lines are durable, and with the bytes
   * that they take in the file, of which some may fill the last block. After an error `prepare` truncates what was written.
   */
  append(lines: readonly Uint8Array[], bytes: number, done: Appended): void {
    if (this.#mustTruncate || this.#fault !== null || this.#isFilledBy(bytes)) {
      this.prepare(bytes).then(() => this.append(lines, bytes, done), done)
      return
    }
    const { disk } = this.#options
    const { file, path } = this.#open
    const isLarge = this.#direct.gainBy(bytes)
    const wasLarge = this.#wasLarge
    this.#wasLarge = isLarge
    const isAtBlock = isLarge && this.#end % BLOCK_BYTES === 0
    // A direct write elsewhere than at a block would fail.
    if (isAtBlock && disk.status(file).size !== this.#end) {
      this.#leaveChanged(lines, bytes, done)
      return
    }
    // Up to the end of a block, so that the next one can be written directly. After a small commit the next one may well be
    // small too, and to fill a block would gain nothing.
    const padding = isAtBlock || (isLarge && wasLarge) ? paddingOf(this.#end + bytes) : 0
    const commit = this.#memory.join(lines, padding)
    const judge = this.#judge(lines, bytes, commit.length, done)
    if (isAtBlock && this.#direct.open(path, file)) {
      this.#direct.append(commit, (error, durableBytes) => {
        if (error !== 'unsupported') {
          judge(error, durableBytes)
          return
        }
        this.#mustTruncate = true
        this.append(lines, bytes, done)
      })
    } else disk.append(file, [commit], judge)
    // While the disk works.
    this.#memory.crc()
  }

  #judge(lines: readonly Uint8Array[], bytes: number, writtenBytes: number, done: Appended) {
    return (error: Error | null, durableBytes: number): void => {
      if (error !== null || durableBytes !== writtenBytes) {
        this.#fail(error, writtenBytes, durableBytes, done)
        return
      }
      // No disk access: 2 µs, next to a synced write.
      const { size, nlink } = this.#options.disk.status(this.#open.file)
      if (nlink === 0) {
        this.#reportUnlinked()
        this.append(lines, bytes, done)
        return
      }
      if (size !== this.#end + writtenBytes) {
        this.#leaveChanged(lines, bytes, done, writtenBytes)
        return
      }
      this.#open.side.add({ offset: this.#end, length: writtenBytes, crc: this.#memory.crc() }, this.#memory.pairs)
      this.#end += writtenBytes
      done(null, writtenBytes)
    }
  }

  /** After a failed sync no part of the write counts as durable, whatever the file's length is. */
  #fail(error: Error | null, writtenBytes: number, durableBytes: number, done: Appended): void {
    this.#mustTruncate = true
    const { disk } = this.#options
    const { file, path } = this.#open
    if (error === null) {
      // The kernel writes less than it was given where a limit ends there; only the next write says which.
      disk.append(file, [PROBE], (limit) => done(limit ?? shortWrite(durableBytes, writtenBytes)))
      return
    }
    // An empty segment has nothing that could be lost.
    if (!NO_ROOM.includes(errorCode(error) ?? '') && this.#end > 0 && this.#fault === null) {
      this.#fault = 'failed'
      this.#options.onNotice(
        `a write to ${path} failed (${error.message}): what it holds is durable, and new records go into a new segment`,
      )
    }
    done(error)
  }

  /**
   * Another program has written to the open segment, or truncated it. The commit in hand, of `writtenBytes`, may be merged
   * with a stranger's bytes, and is not answered yet: it is taken out again, and written to a new segment.
   */
  #leaveChanged(lines: readonly Uint8Array[], bytes: number, done: Appended, writtenBytes = 0): void {
    const { disk, onNotice, onDamage } = this.#options
    const { path, file } = this.#open
    onDamage('changed')
    const { size } = disk.status(file)
    this.#mustTruncate = true
    this.#fault = 'changed'
    const leave = (keptBytes: number): void => {
      const lostBytes = this.#end - keptBytes
      onNotice(
        `another program changed ${path}: it has ${size} bytes, and should have ${this.#end + writtenBytes}` +
          `${lostBytes > 0 ? `: ${lostBytes} bytes of accepted records are lost` : ''}; new records go into a new segment, find and stop that program`,
      )
      this.#end = keptBytes
      this.append(lines, bytes, done)
    }
    // Whatever lies behind the end was never answered. A segment that was cut before the commit may be longer than that again.
    if (size >= this.#end + writtenBytes) leave(this.#end)
    else if (writtenBytes === 0) leave(size)
    else keptOf(path, size, this.#memory.joined, disk).then((kept) => leave(Math.min(kept, this.#end)), done)
  }

  /** Its records would be lost when this process ends. */
  #reportUnlinked(): void {
    if (this.#fault === 'removed') return
    this.#fault = 'removed'
    this.#options.onDamage('removed')
    this.#options.onNotice(
      `the open segment ${this.#open.path} was removed, or moved with its folder, by another program: its ${this.#end} bytes of ` +
        'accepted records are lost, unless it was moved; new records go into a new segment',
    )
  }

  /**
   * Removes closed segments whose last record is older than `timeMs`, and reports them, and segments that others have
   * removed.
   */
  async removeBefore(timeMs: number): Promise<void> {
    const { directory, disk } = this.#options
    const open = this.#open.number
    const present = new Set(await segmentNumbers(directory, disk))
    if (open === this.#open.number && !present.has(open)) this.#reportUnlinked()
    await this.#closed.removeOlderThan(timeMs, open, present)
  }

  /** Makes durable what lies beside the open segment. */
  syncBeside(): void {
    this.#open.side.sync()
  }

  /** Removes closed segments with a lower number, whatever their age. */
  async removeSegments(before: number, setAside: (path: string) => Promise<boolean>): Promise<void> {
    await this.#closed.removeBefore(before, setAside)
  }

  /** Closes the open segment, whatever its size. Rejects where the next one cannot be created. */
  async renew(): Promise<void> {
    await this.prepare(0)
    const before = this.#open.number
    await this.#rotate(0)
    if (this.#open.number === before) throw new Error('the next segment cannot be created')
  }

  async close(): Promise<void> {
    const { file, side } = this.#open
    this.#direct.close()
    await side.close()
    await this.#closing
    await file.close()
  }

  #isFilledBy(bytes: number): boolean {
    return this.#end > 0 && this.#end + bytes > this.#rotateAtBytes
  }
}

/** How much of a segment that was cut to `size` bytes lies before the commit that was written to it then, or last. */
async function keptOf(path: string, size: number, commit: Buffer, disk: Disk): Promise<number> {
  const from = size - commit.length
  if (from < 0) return size
  const file = await disk.open(path, 'read')
  try {
    const found = Buffer.alloc(commit.length)
    await file.read(found, 0, found.length, from)
    return found.equals(commit) ? from : size
  } finally {
    await file.close()
  }
}

function shortWrite(durableBytes: number, wantedBytes: number): Error {
  const message = `only ${durableBytes} of ${wantedBytes} bytes were written: the disk may be full`
  return Object.assign(new Error(message), { code: DISK_FULL })
}
