// The journal's segments as its writer holds them: one open at the end, the others closed. Appends, cuts back what a
// failed write left, turns to a new segment, and removes old ones.

import { fdatasync, fstatSync, writev } from 'node:fs'
import { type FileHandle, unlink } from 'node:fs/promises'
import { errorMessage } from '../../lib/errors.ts'
import type { OnNotice } from '../../lib/notice.ts'
import { missingFrom } from './journal-gaps.ts'
import {
  comparePositions,
  createDirectory,
  createSegment,
  cutTornTail,
  type JournalPosition,
  lastRecordTimeMs,
  listSegments,
  reopenSegment,
  segmentPath,
  WRITES_ARE_SYNCED,
} from './segments.ts'

/** The system calls that can fail while the service runs; tests put a failing disk here. */
export interface Disk {
  /** Appends and syncs. `done` gets the bytes that are durable: fewer than were given is a failure. */
  append(handle: FileHandle, lines: readonly Uint8Array[], done: (error: Error | null, bytes: number) => void): void
  truncate(handle: FileHandle, bytes: number): Promise<void>
  createSegment(directory: string, number: number): Promise<FileHandle>
}

export const realDisk: Disk = {
  append(handle, lines, done) {
    writev(handle.fd, lines, (error, bytes) => {
      if (error !== null || WRITES_ARE_SYNCED) done(error, bytes)
      else fdatasync(handle.fd, (syncError) => done(syncError, bytes))
    })
  },
  async truncate(handle, bytes) {
    await handle.truncate(bytes)
    await handle.sync()
  },
  createSegment,
}

/** Where the next segment cannot be begun, it is tried again after this share of a segment. */
const RETRY_SHARE = 16

export interface JournalFilesOptions {
  readonly directory: string
  readonly segmentBytes: number
  /** Nothing is written before this, which a snapshot says is taken. */
  readonly resumeAfter: JournalPosition | null
  readonly disk: Disk
  readonly onNotice: OnNotice
}

export class JournalFiles {
  /** Bytes of a torn line that were cut when the journal was opened. */
  readonly cutBytes: number
  readonly #directory: string
  readonly #segmentBytes: number
  readonly #disk: Disk
  readonly #onNotice: OnNotice
  #handle: FileHandle
  #segment: number
  /** Durable bytes of the open segment. The next write goes here, or the segment is cut back to here before. */
  #end: number
  readonly #closedBytes: Map<number, number>
  #mustCut = false
  #mustTurn = false
  /** What the open segment holds before the next one begins. */
  #turnAtBytes: number
  /** Why the next segment could not be begun, the last time; null: it could. */
  #turnProblem: string | null = null

  private constructor(
    { directory, segmentBytes, disk, onNotice }: JournalFilesOptions,
    handle: FileHandle,
    end: JournalPosition,
    closedBytes: Map<number, number>,
    cutBytes: number,
  ) {
    this.#directory = directory
    this.#segmentBytes = segmentBytes
    this.#disk = disk
    this.#onNotice = onNotice
    this.#turnAtBytes = segmentBytes
    this.#handle = handle
    this.#segment = end.segment
    this.#end = end.offset
    this.#closedBytes = closedBytes
    this.cutBytes = cutBytes
  }

  /** Goes on at the end of the last segment, and says what is missing before it. */
  static async open(options: JournalFilesOptions): Promise<JournalFiles> {
    const { directory, resumeAfter, disk, onNotice } = options
    await createDirectory(directory)
    const closed = await listSegments(directory)
    for (const missing of await missingFrom(closed, resumeAfter)) onNotice(missing)
    const closedBytes = new Map(closed.map((segment) => [segment.number, segment.bytes]))
    const last = closed.pop()
    const tail = last === undefined ? { bytes: 0, cutBytes: 0 } : await cutTornTail(last.path)
    let end = { segment: last?.number ?? 0, offset: tail.bytes }
    let handle: FileHandle
    if (last === undefined || (resumeAfter !== null && comparePositions(end, resumeAfter) < 0)) {
      // None there, or not what the snapshot knew: the numbers go on after both.
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

  /** Durable bytes of all segments. */
  get bytes(): number {
    let bytes = this.#end
    for (const closed of this.#closedBytes.values()) bytes += closed
    return bytes
  }

  get firstSegment(): number {
    let first = this.#segment
    for (const number of this.#closedBytes.keys()) first = Math.min(first, number)
    return first
  }

  /** So many bytes can be appended at once; otherwise `prepare` comes first. */
  isReady(bytes: number): boolean {
    return !this.#mustCut && !this.#mustTurn && !this.#isFilledBy(bytes)
  }

  /** Rejects where the disk will not; what failed is tried again by the next call. */
  async prepare(bytes: number): Promise<void> {
    if (this.#mustCut) {
      await this.#disk.truncate(this.#handle, this.#end)
      this.#mustCut = false
    }
    if (!this.#mustTurn && !this.#isFilledBy(bytes)) return
    const closing = this.#handle
    if (!(await this.#turn(bytes))) return
    await closing.close().catch(() => {})
  }

  /** Begins the next segment. false: it cannot be had, and this one grows on; rejects where this one is gone. */
  async #turn(bytes: number): Promise<boolean> {
    let number: number
    let handle: FileHandle
    try {
      // A folder that was removed under a running service is made again.
      await createDirectory(this.#directory)
      const present = await listSegments(this.#directory)
      number = Math.max(this.#segment, present[present.length - 1]?.number ?? 0) + 1
      handle = await this.#disk.createSegment(this.#directory, number)
    } catch (error) {
      if (this.#mustTurn) throw error
      this.#turnAtBytes = this.#end + bytes + Math.ceil(this.#segmentBytes / RETRY_SHARE)
      this.#turnIs(errorMessage(error))
      return false
    }
    this.#turnIs(null)
    if (!this.#mustTurn) this.#closedBytes.set(this.#segment, this.#end)
    this.#handle = handle
    this.#segment = number
    this.#end = 0
    this.#turnAtBytes = this.#segmentBytes
    this.#mustTurn = false
    return true
  }

  #turnIs(problem: string | null): void {
    if (problem !== null && problem !== this.#turnProblem) {
      this.#onNotice(`The journal's next segment cannot be begun (${problem}); it goes on in the one that is open`)
    } else if (problem === null && this.#turnProblem !== null) {
      this.#onNotice('The journal begins new segments again', 'info')
    }
    this.#turnProblem = problem
  }

  /** Calls `done` once the lines are durable, or with why they are not; `prepare` then undoes what was written. */
  append(lines: readonly Uint8Array[], bytes: number, done: (error: Error | null) => void): void {
    this.#disk.append(this.#handle, lines, (error, durableBytes) => {
      if (error !== null || durableBytes !== bytes) {
        // After a failed sync nothing of the write may be believed, however much of it the file shows.
        this.#mustCut = true
        done(error ?? new Error(`only ${durableBytes} of ${bytes} bytes were written: the disk may be full`))
        return
      }
      if (this.#isUnlinked()) {
        this.#appendAnew(lines, bytes, done)
        return
      }
      this.#end += bytes
      done(null)
    })
  }

  /** The same lines into the next segment, since the open one is gone. */
  #appendAnew(lines: readonly Uint8Array[], bytes: number, done: (error: Error | null) => void): void {
    this.#isGone()
    this.prepare(bytes).then(() => this.append(lines, bytes, done), done)
  }

  /** Whether somebody has removed the open segment: what is written there is on no disk once this process ends. */
  #isUnlinked(): boolean {
    // It asks the kernel's memory, no disk: 2 µs beside a write that is synced.
    return fstatSync(this.#handle.fd).nlink === 0
  }

  #isGone(): void {
    if (this.#mustTurn) return
    this.#mustTurn = true
    const path = segmentPath(this.#directory, this.#segment)
    this.#onNotice(
      `The journal's open segment ${path} was removed, or moved with its folder, while sluice was running. The ${this.#end} ` +
        'bytes of accepted records in it are lost, unless it was moved; a new segment begins',
    )
  }

  /** Removes closed segments whose last record is older than that; takes note of what others have removed. */
  async removeBefore(timeMs: number): Promise<void> {
    const open = this.#segment
    const present = new Map((await listSegments(this.#directory)).map((segment) => [segment.number, segment]))
    // Records in a file that has no name would be lost with the process.
    if (open === this.#segment && !present.has(open)) this.#isGone()
    let mayRemove = timeMs > Number.NEGATIVE_INFINITY
    for (const number of [...this.#closedBytes.keys()].sort((left, right) => left - right)) {
      const segment = present.get(number)
      // Closed since the listing.
      if (number >= open) break
      if (segment !== undefined) {
        if (!mayRemove || (await lastRecordTimeMs(segment.path)) >= timeMs) {
          // None is removed out of its turn, so that what is left has no holes.
          mayRemove = false
          continue
        }
        await unlink(segment.path)
      } else {
        this.#onNotice(
          `The journal's segment ${segmentPath(this.#directory, number)} was removed by somebody else, with the ` +
            `${this.#closedBytes.get(number)} bytes of records in it`,
        )
      }
      this.#closedBytes.delete(number)
    }
  }

  async close(): Promise<void> {
    await this.#handle.close()
  }

  #isFilledBy(bytes: number): boolean {
    return this.#end > 0 && this.#end + bytes > this.#turnAtBytes
  }
}
