// The journal's segments for its writer: the last one is open, the others are closed. Appends, truncates what a failed
// write left, rotates to a new segment, and removes old ones.

import { fstatSync } from 'node:fs'
import { type FileHandle, unlink } from 'node:fs/promises'
import { errorMessage } from '../../lib/errors.ts'
import { makeFolder } from '../../lib/folder.ts'
import { formatBytes } from '../../lib/format.ts'
import type { OnNotice } from '../../lib/notice.ts'
import { BLOCK_BYTES, DirectWrites, filled, paddingOf } from './direct-writes.ts'
import { DISK_FULL, type Disk } from './disk.ts'
import { missingFrom } from './journal-gaps.ts'
import {
  comparePositions,
  cutTornTail,
  type JournalPosition,
  lastRecordTimeMs,
  listSegments,
  reopenSegment,
  segmentNumbers,
  segmentPath,
} from './segments.ts'

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
  readonly onNotice: OnNotice
}

type Appended = (error: Error | null, fileBytes?: number) => void

export class JournalFiles {
  /** Bytes of a torn line that were truncated when the journal was opened. */
  readonly cutBytes: number
  readonly #options: JournalFilesOptions
  readonly #direct: DirectWrites
  #handle: FileHandle
  #segment: number
  /** Durable bytes of the open segment. After a failed write the segment is truncated to this length. */
  #end: number
  /** By the number of the segment, in order. */
  readonly #closedBytes: Map<number, number>
  #mustTruncate = false
  /** The last segment that another program was found to have changed. */
  #changedSegment = 0
  /** The last commit was large enough for a direct write. */
  #wasLarge = true
  #mustRotate = false
  /** The open segment is rotated when it would grow beyond this. */
  #rotateAtBytes: number
  /** Why the last rotation failed; null: it did not. */
  #rotationProblem: string | null = null

  private constructor(
    options: JournalFilesOptions,
    handle: FileHandle,
    end: JournalPosition,
    closedBytes: Map<number, number>,
    cutBytes: number,
  ) {
    const { segmentBytes, commitBytes, disk, onNotice } = options
    this.#options = options
    this.#rotateAtBytes = segmentBytes
    this.#direct = new DirectWrites({
      maxBytes: commitBytes,
      open: (path, direct) => disk.openDirectly(path, direct),
      onNotice,
    })
    this.#handle = handle
    this.#segment = end.segment
    this.#end = end.offset
    this.#closedBytes = closedBytes
    this.cutBytes = cutBytes
  }

  /** Continues at the end of the last segment, and reports gaps before it. */
  static async open(options: JournalFilesOptions): Promise<JournalFiles> {
    const { directory, resumeAfter, disk, onNotice } = options
    await makeFolder(directory)
    const closed = await listSegments(directory)
    for (const missing of await missingFrom(closed, resumeAfter)) onNotice(missing)
    const closedBytes = new Map(closed.map((segment) => [segment.number, segment.bytes]))
    const last = closed.pop()
    const tail = last === undefined ? { bytes: 0, cutBytes: 0 } : await cutTornTail(last.path)
    let end = { segment: last?.number ?? 0, offset: tail.bytes }
    let handle: FileHandle
    if (last === undefined || (resumeAfter !== null && comparePositions(end, resumeAfter) < 0)) {
      // The folder is empty, or ends before the snapshot: the new number must be larger than both.
      if (last !== undefined) closedBytes.set(last.number, tail.bytes)
      end = { segment: Math.max(end.segment, resumeAfter?.segment ?? 0) + 1, offset: 0 }
      handle = await disk.createSegment(directory, end.segment)
    } else {
      closedBytes.delete(last.number)
      handle = await reopenSegment(last.path)
    }
    return new JournalFiles(options, handle, end, closedBytes, tail.cutBytes)
  }

  get end(): JournalPosition {
    return { segment: this.#segment, offset: this.#end }
  }

  /** Of the open segment. */
  get #path(): string {
    return segmentPath(this.#options.directory, this.#segment)
  }

  /** Durable bytes of all segments. */
  get bytes(): number {
    let bytes = this.#end
    for (const closed of this.#closedBytes.values()) bytes += closed
    return bytes
  }

  get firstSegment(): number {
    const [first = this.#segment] = this.#closedBytes.keys()
    return first
  }

  /**
   * Truncates what a failed write left, and rotates where the segment is filled by `bytes` more. Rejects where the disk
   * fails; the next call tries again.
   */
  async prepare(bytes: number): Promise<void> {
    if (this.#mustTruncate) {
      await this.#options.disk.truncate(this.#handle, this.#end)
      this.#mustTruncate = false
    }
    if (!this.#mustRotate && !this.#isFilledBy(bytes)) return
    const closing = this.#handle
    if (!(await this.#rotate(bytes))) return
    await closing.close().catch(() => {})
  }

  /**
   * Creates the next segment. false: that failed, and the open one grows on. Rejects where the open one was removed.
   */
  async #rotate(bytes: number): Promise<boolean> {
    let number: number
    let handle: FileHandle
    try {
      // Somebody may have removed the folder of a running service.
      await makeFolder(this.#options.directory)
      // By their names alone: requests wait meanwhile, and there may be thousands of segments.
      number = Math.max(this.#segment, (await segmentNumbers(this.#options.directory)).at(-1) ?? 0) + 1
      handle = await this.#options.disk.createSegment(this.#options.directory, number)
    } catch (error) {
      if (this.#mustRotate) throw error
      this.#rotateAtBytes = this.#end + bytes + Math.ceil(this.#options.segmentBytes / RETRY_SHARE)
      this.#reportRotation(errorMessage(error))
      return false
    }
    this.#reportRotation(null)
    if (!this.#mustRotate) this.#closedBytes.set(this.#segment, this.#end)
    this.#handle = handle
    this.#direct.close()
    this.#segment = number
    this.#end = 0
    this.#rotateAtBytes = this.#options.segmentBytes
    this.#mustRotate = false
    return true
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
    if (this.#mustTruncate || this.#mustRotate || this.#isFilledBy(bytes)) {
      this.prepare(bytes).then(() => this.append(lines, bytes, done), done)
      return
    }
    const isLarge = this.#direct.gainBy(bytes)
    const wasLarge = this.#wasLarge
    this.#wasLarge = isLarge
    if (!isLarge) {
      this.#options.disk.append(this.#handle, lines, this.#judge(lines, bytes, bytes, done))
      return
    }
    const isAtBlock = this.#end % BLOCK_BYTES === 0 && this.#isUnchanged()
    // After a small commit the next one may well be small too, and to fill a block would gain nothing.
    const padding = isAtBlock || wasLarge ? paddingOf(this.#end + bytes) : 0
    const judge = this.#judge(lines, bytes, bytes + padding, done)
    if (!isAtBlock || !this.#direct.open(this.#path, this.#handle)) {
      // Up to the end of a block, so that the next one can be written directly.
      this.#options.disk.append(this.#handle, filled(lines, padding), judge)
      return
    }
    this.#direct.append(filled(lines, padding), (error, durableBytes) => {
      if (error !== 'unsupported') {
        judge(error, durableBytes)
        return
      }
      this.#mustTruncate = true
      this.append(lines, bytes, done)
    })
  }

  /** Whether the open segment has the length that it should have. A direct write elsewhere than at a block would fail. */
  #isUnchanged(): boolean {
    const { size } = fstatSync(this.#handle.fd)
    if (size === this.#end) return true
    if (this.#changedSegment !== this.#segment) {
      this.#options.onNotice(
        `another program changed ${this.#path}: it has ${size} bytes, and should have ${this.#end}; its records may be damaged, find and stop that program`,
      )
    }
    this.#changedSegment = this.#segment
    return false
  }

  #judge(lines: readonly Uint8Array[], bytes: number, writtenBytes: number, done: Appended) {
    return (error: Error | null, durableBytes: number): void => {
      if (error !== null || durableBytes !== writtenBytes) {
        // After a failed sync no part of the write counts as durable, whatever the file's length is.
        this.#mustTruncate = true
        if (error !== null) done(error)
        // The kernel writes less than it was given where a limit ends there; only the next write says which.
        else
          this.#options.disk.append(this.#handle, [PROBE], (limit) =>
            done(limit ?? shortWrite(durableBytes, writtenBytes)),
          )
        return
      }
      if (this.#isUnlinked()) {
        this.#reportUnlinked()
        this.append(lines, bytes, done)
        return
      }
      this.#end += writtenBytes
      done(null, writtenBytes)
    }
  }

  /** Whether somebody has removed the open segment, whose records would be lost when this process ends. */
  #isUnlinked(): boolean {
    // No disk access: 2 µs, next to a synced write.
    return fstatSync(this.#handle.fd).nlink === 0
  }

  #reportUnlinked(): void {
    if (this.#mustRotate) return
    this.#mustRotate = true
    this.#options.onNotice(
      `the open segment ${this.#path} was removed, or moved with its folder, by another program: its ${this.#end} bytes of ` +
        'accepted records are lost, unless it was moved; new records go into a new segment',
    )
  }

  /**
   * Removes closed segments whose last record is older than `timeMs`, and reports them, and segments that others have
   * removed.
   */
  async removeBefore(timeMs: number): Promise<void> {
    const open = this.#segment
    const present = new Set(await segmentNumbers(this.#options.directory))
    if (open === this.#segment && !present.has(open)) this.#reportUnlinked()
    const removed: { lastMs: number; bytes: number }[] = []
    let mayRemove = timeMs > Number.NEGATIVE_INFINITY
    try {
      for (const [number, bytes] of this.#closedBytes) {
        const path = segmentPath(this.#options.directory, number)
        // It was closed after the listing.
        if (number >= open) break
        if (present.has(number)) {
          const lastMs = mayRemove ? await lastRecordTimeMs(path) : Infinity
          if (lastMs >= timeMs) {
            // Removed in order only, so that no gaps arise.
            mayRemove = false
            continue
          }
          await unlink(path)
          removed.push({ lastMs, bytes })
        } else {
          this.#options.onNotice(`${path} was removed by another program, with its ${bytes} bytes of accepted records`)
        }
        this.#closedBytes.delete(number)
      }
    } finally {
      if (removed.length > 0) this.#options.onNotice(removedText(removed), 'info')
    }
  }

  async close(): Promise<void> {
    this.#direct.close()
    await this.#handle.close()
  }

  #isFilledBy(bytes: number): boolean {
    return this.#end > 0 && this.#end + bytes > this.#rotateAtBytes
  }
}

function removedText(removed: readonly { readonly lastMs: number; readonly bytes: number }[]): string {
  const size = formatBytes(removed.reduce((sum, { bytes }) => sum + bytes, 0))
  const [from, to] = [removed[0], removed[removed.length - 1]].map(({ lastMs }) => new Date(lastMs).toISOString())
  const segments = `${removed.length} old segment${removed.length === 1 ? '' : 's'} of the journal`
  return `removed ${segments} (${size}), whose last records were received from ${from} to ${to}`
}

function shortWrite(durableBytes: number, wantedBytes: number): Error {
  const message = `only ${durableBytes} of ${wantedBytes} bytes were written: the disk may be full`
  return Object.assign(new Error(message), { code: DISK_FULL })
}
