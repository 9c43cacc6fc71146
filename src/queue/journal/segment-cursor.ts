// Reads the lines of one segment in order, piece by piece, also while another process appends to it: for recovery, for
// who follows the journal, and for a search. What has a checksum (side-files.ts) is compared with it first, and its lines
// are passed all the same: most of them are whole.

import { endOfRecord, parseRecordHead, parseRecordStart } from '../../contract/record/record-head.ts'
import type { Crc32c } from '../../lib/crc32c.ts'
import { type Disk, type DiskFile, realDisk } from './disk.ts'
import { endOfLastLine, openSegment } from './segments.ts'
import { type Commit, MAX_CHECKED_BYTES } from './side-files.ts'
import { endOf, type OnUnread, readCommits } from './side-reader.ts'

/** At least twice the longest record. A line that does not fit is not a record. */
export const PIECE_BYTES = MAX_CHECKED_BYTES
const NEWLINE = 10
/** More than the longest record. */
const LINE_BYTES = MAX_CHECKED_BYTES / 2

/**
 * The line's place in the buffer, without its newline, and its offset in the file. Of a line that is longer than the buffer
 * the beginning is passed, with `isWhole` false.
 */
export type OnLine = (start: number, end: number, offset: number, isWhole: boolean) => void

/**
 * checksum: these bytes are not those that were written. missing: they were written, and the segment ends before them.
 * record: this line is no record. beside: this file beside a segment cannot be read, for this reason.
 */
export interface Damage {
  readonly kind: 'checksum' | 'missing' | 'record' | 'beside'
  readonly path: string
  readonly offset: number
  readonly length: number
  readonly reason?: string
}

/**
 * What the journal's metric counts. Also changed, removed: another program did that to a segment of a running service.
 * unwritten: what lies beside a segment could not be written, and its newest records have no checksum.
 */
export type DamageKind = Damage['kind'] | 'changed' | 'removed' | 'unwritten'

export interface CursorOptions {
  /** With memory for a piece, in which the lines lie. */
  readonly checks: Crc32c
  /** Where a line begins, or the end of the last whole line. */
  readonly from?: number | 'end'
  /** null: nothing is compared with its checksum. */
  readonly onDamage: ((damage: Damage) => void) | null
  readonly disk?: Disk
  /** So much is read at a time where a commit is not longer, and others have their turn in between. Otherwise a piece. */
  readonly turnBytes?: number
}

export class SegmentCursor {
  readonly #file: DiskFile
  readonly #path: string
  readonly #checks: Crc32c
  readonly #onDamage: (damage: Damage) => void
  readonly #turnBytes: number
  /** Those that fit its records. */
  #commits: readonly Commit[]
  /** The first commit at or behind `#end`. */
  #next = 0
  /** No line before it is passed. */
  readonly #from: number
  #end: number
  /** Bytes that were read behind it, of a line that does not fit. */
  #skippedBytes = 0

  private constructor(
    file: DiskFile,
    path: string,
    { checks, onDamage, turnBytes = PIECE_BYTES }: CursorOptions,
    { from, commits }: { readonly from: number; readonly commits: readonly Commit[] },
  ) {
    this.#file = file
    this.#path = path
    this.#checks = checks
    this.#onDamage = onDamage ?? (() => {})
    this.#turnBytes = turnBytes
    this.#commits = commits
    this.#from = from
    // A checksum is that of a whole commit.
    this.#end = commits.find((commit) => commit.offset < from && endOf(commit) > from)?.offset ?? from
    this.#findNext()
  }

  /** null: the segment was removed since it was listed. */
  static async open(path: string, options: CursorOptions): Promise<SegmentCursor | null> {
    const { from = 0, checks, onDamage, disk = realDisk } = options
    // Before the segment: a line is written behind its bytes.
    const commits = onDamage === null ? [] : await readCommits(path, checks, disk, tellerOf(onDamage))
    const file = await openSegment(path, disk)
    if (file === null) return null
    const start = from === 'end' ? await endOfLastLine(file, (await file.stat()).size) : from
    return new SegmentCursor(file, path, options, { from: start, commits })
  }

  /** The end of the last whole line that was read. */
  get end(): number {
    return this.#end
  }

  /** Bytes behind it. */
  async rest(): Promise<number> {
    return (await this.#file.stat()).size - this.#end
  }

  /** Passes the whole lines of the next piece. false: there are none, and a last line without its newline is left. */
  async read(onLine: OnLine): Promise<boolean> {
    const next = this.#commits[this.#next] as Commit | undefined
    return next?.offset === this.#end && this.#skippedBytes === 0
      ? await this.#readCommits(onLine)
      : await this.#readLines(onLine, next?.offset ?? Number.POSITIVE_INFINITY)
  }

  /** After a failed write the writer truncates its segment, possibly before what was read: goes back to a line's end. */
  async adjust(): Promise<void> {
    const { size } = await this.#file.stat()
    if (size < this.#end + this.#skippedBytes) this.#skippedBytes = 0
    // No commit is truncated that has a checksum.
    const checked = this.#next === 0 ? 0 : endOf(this.#commits[this.#next - 1])
    this.#end = Math.max(Math.min(checked, size), await endOfLastLine(this.#file, Math.min(this.#end, size)))
  }

  async close(): Promise<void> {
    await this.#file.close()
  }

  #findNext(): void {
    const at = this.#commits.findIndex(({ offset }) => offset >= this.#end)
    this.#next = at < 0 ? this.#commits.length : at
  }

  async #readCommits(onLine: OnLine): Promise<boolean> {
    const { bytes } = this.#checks
    const length = Math.min(bytes.length, Math.max(this.#turnBytes, this.#commits[this.#next].length))
    const { bytesRead } = await this.#file.read(bytes, 0, length, this.#end)
    const from = this.#end
    for (;;) {
      const commit = this.#commits[this.#next] as Commit | undefined
      if (commit === undefined || commit.offset !== this.#end || endOf(commit) - from > bytesRead) break
      const start = commit.offset - from
      const isSound = this.#checks.of(start, start + commit.length) === commit.crc
      if (!isSound) {
        this.#onDamage({ kind: 'checksum', path: this.#path, ...placeOf(commit) })
        const lineAt = bytes.subarray(start, start + commit.length).lastIndexOf(NEWLINE) + 1
        if (lineAt < commit.length && (await this.#isRecord(commit.offset + lineAt, endOf(commit)))) {
          this.#passCommit(start, start + lineAt, false, onLine)
          this.#end += lineAt
          this.#leaveCommits()
          return true
        }
      }
      this.#passCommit(start, start + commit.length, isSound, onLine)
      this.#end = endOf(commit)
      this.#next += 1
    }
    if (this.#end > from) return true
    // It is all that there is of a commit that was longer.
    this.#endsAt(from + bytesRead)
    return await this.#readLines(onLine, Number.POSITIVE_INFINITY)
  }

  /** The segment ends there, before commits that were written. */
  #endsAt(end: number): void {
    const length = endOf(this.#commits[this.#commits.length - 1]) - end
    this.#onDamage({ kind: 'missing', path: this.#path, offset: end, length })
    this.#leaveCommits()
  }

  /** From here on all is read as lines without a checksum: these commits are not those of this segment. */
  #leaveCommits(): void {
    this.#commits = this.#commits.slice(0, this.#next)
  }

  /** Whether the line at `offset` is a record that goes on behind `end`, where a commit is said to end or to begin. */
  async #isRecord(offset: number, end: number): Promise<boolean> {
    const line = Buffer.allocUnsafe(LINE_BYTES)
    const { bytesRead } = await this.#file.read(line, 0, LINE_BYTES, offset)
    const stop = line.subarray(0, bytesRead).indexOf(NEWLINE)
    // Behind a damaged newline lies another record.
    return offset + stop >= end && parseRecordHead(line, 0, stop) !== null && endOfRecord(line, 0, stop) === stop
  }

  /** A commit ends with a line, whatever has become of its newline. */
  #passCommit(start: number, end: number, isSound: boolean, onLine: OnLine): void {
    const { bytes } = this.#checks
    for (let at = start; at < end; ) {
      const newlineAt = bytes.indexOf(NEWLINE, at)
      let stop = newlineAt < 0 || newlineAt >= end ? end - 1 : newlineAt
      const endAt = isSound ? stop : endOfRecord(bytes, at, stop)
      // A damaged newline must not merge two records.
      if (endAt < stop && parseRecordStart(bytes, endAt + 1, stop) !== null) stop = endAt
      const offset = this.#end + at - start
      if (stop > at && offset >= this.#from) onLine(at, stop, offset, true)
      at = stop + 1
    }
  }

  /** Of bytes without a checksum, up to `limit`. */
  async #readLines(onLine: OnLine, limit: number): Promise<boolean> {
    const { bytes } = this.#checks
    const from = this.#end + this.#skippedBytes
    const length = Math.max(0, Math.min(bytes.length, limit - from))
    if (length === 0) {
      this.#end = from
      this.#skippedBytes = 0
      this.#findNext()
      return true
    }
    const { bytesRead } = await this.#file.read(bytes, 0, length, from)
    const piece = bytes.subarray(0, bytesRead)
    let start = 0
    for (let at = piece.indexOf(NEWLINE); at >= 0; at = piece.indexOf(NEWLINE, start)) {
      if (this.#skippedBytes === 0 && at > start) onLine(start, at, this.#end, true)
      this.#end += this.#skippedBytes + at + 1 - start
      this.#skippedBytes = 0
      start = at + 1
    }
    if (start > 0) return true
    if (bytesRead < length) {
      if (limit !== Number.POSITIVE_INFINITY) this.#endsAt(from + bytesRead)
      return false
    }
    if (this.#skippedBytes === 0 && from + length === limit && (await this.#isRecord(from, limit))) {
      this.#leaveCommits()
      return true
    }
    if (this.#skippedBytes === 0) onLine(0, bytesRead, this.#end, false)
    this.#skippedBytes += bytesRead
    return true
  }
}

export function tellerOf(onDamage: (damage: Damage) => void): OnUnread {
  return (path, reason) => onDamage({ kind: 'beside', path, offset: 0, length: 0, reason })
}

function placeOf({ offset, length }: Commit): Pick<Damage, 'offset' | 'length'> {
  return { offset, length }
}
