// Writes the lines of a log beside the path of requests. Lines that the output does not take wait, up to a bound. Beyond it,
// and where writing fails, they are dropped and counted.

import { constants, fstatSync, openSync, write, writeSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { isatty } from 'node:tty'
import { errorCode } from '../lib/errors.ts'

const MAX_WAITING_BYTES = 1_048_576
/** A pipe takes so much as a whole, so that the lines of processes that share it do not mix. */
const MAX_PIECE_BYTES = 4096
/** In one turn of the event loop, or in one write to a file. */
const MAX_TURN_BYTES = 65_536
/** Until an output that was full is tried again; doubled each time. */
const MIN_PAUSE_MS = 5
const MAX_PAUSE_MS = 100
const FAILED_PAUSE_MS = 500
/** How long the last lines are tried. */
const END_MS = 1000
const END_PAUSE_MS = 10
/** A write to a file that takes so long waits for its disk, and so would another. */
const STALLED_MS = 100

interface Line {
  readonly bytes: Buffer
  /** Dropped after all others. */
  readonly isKept: boolean
  /** So many dropped lines are reported by this one. */
  readonly reports: number
}

export class LineWriter {
  readonly #output: ReturnType<typeof openOutput>
  readonly #report: (dropped: number) => void
  #waiting: Line[] = []
  #waitingBytes = 0
  #dropped = 0
  /** Of those dropped. */
  #unreported = 0
  #reports = 0
  /** A turn, a retry or a write to a file is to come. */
  #isBusy = false
  #pauseMs = MIN_PAUSE_MS
  #endsAtMs: number | null = null
  /** The write to a file that a thread does now. */
  #underWay: { readonly lines: number; readonly sinceMs: number } | null = null

  /** `report` writes a line that says how many were dropped, with `write`. */
  constructor(fd: number, report: (dropped: number) => void) {
    this.#output = openOutput(fd)
    this.#report = report
  }

  get dropped(): number {
    return this.#dropped
  }

  write(text: string, isKept: boolean): void {
    const bytes = Buffer.from(text)
    if (!this.#makeRoom(bytes.length, isKept)) return this.#drop()
    this.#waiting.push({ bytes, isKept, reports: this.#reports })
    this.#waitingBytes += bytes.length
    if (this.#isBusy) return
    this.#isBusy = true
    setImmediate(() => this.#turn())
  }

  /** The process ends soon. Resolves when nothing waits, or after a second. */
  async written(): Promise<void> {
    this.#endsAtMs ??= performance.now() + END_MS
    while (this.#waiting.length > 0 && performance.now() < this.#endsAtMs) await sleep(END_PAUSE_MS)
  }

  /** The process ends now. Tries to write what waits until that second is over, without the event loop. */
  end(): void {
    if (this.#underWay !== null) {
      // That thread still finishes its write, if the disk lets it.
      if (performance.now() - this.#underWay.sinceMs > STALLED_MS) return
      this.#remove(this.#underWay.lines)
      this.#underWay = null
    }
    this.#endsAtMs ??= performance.now() + END_MS
    do {
      if (!this.#hasMore()) return
      try {
        this.#written(writeSync(this.#output.fd, this.#piece().bytes))
      } catch (error) {
        if (errorCode(error) !== 'EAGAIN') return
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, END_PAUSE_MS)
      }
    } while (performance.now() <= this.#endsAtMs)
  }

  #makeRoom(bytes: number, isKept: boolean): boolean {
    const isRoom = () => this.#waitingBytes + bytes <= MAX_WAITING_BYTES
    if (!isKept) return isRoom()
    while (!isRoom()) {
      const at = this.#waiting.findLastIndex((line) => !line.isKept)
      if (at < (this.#underWay?.lines ?? 0)) return false
      this.#waitingBytes -= this.#waiting[at].bytes.length
      this.#waiting.splice(at, 1)
      this.#drop()
    }
    return true
  }

  #drop(lines = 1): void {
    this.#dropped += lines
    this.#unreported += lines
  }

  #turn(): void {
    for (let bytes = 0; this.#hasMore(); ) {
      if (this.#output.isFile) return this.#writeToFile()
      if (bytes >= MAX_TURN_BYTES) return void setImmediate(() => this.#turn())
      try {
        const count = writeSync(this.#output.fd, this.#piece().bytes)
        this.#written(count)
        bytes += count
      } catch (error) {
        return this.#failed(error)
      }
    }
    this.#isBusy = false
  }

  #writeToFile(): void {
    const { bytes, lines } = this.#piece()
    this.#underWay = { lines, sinceMs: performance.now() }
    write(this.#output.fd, bytes, 0, bytes.length, null, (error, count) => {
      // The end came first, and has written the rest.
      if (this.#underWay === null) return
      this.#underWay = null
      if (error !== null) return this.#failed(error)
      this.#written(count)
      this.#turn()
    })
  }

  #failed(error: unknown): void {
    const isFull = errorCode(error) === 'EAGAIN'
    if (!isFull) this.#dropWaiting()
    setTimeout(() => this.#turn(), isFull ? this.#pauseMs : FAILED_PAUSE_MS).unref()
    this.#pauseMs = Math.min(2 * this.#pauseMs, MAX_PAUSE_MS)
  }

  #dropWaiting(): void {
    this.#drop(this.#waiting.filter((line) => !line.isKept).length)
    this.#waiting = this.#waiting.filter((line) => line.isKept && line.reports === 0)
    this.#waitingBytes = this.#waiting.reduce((sum, { bytes }) => sum + bytes.length, 0)
  }

  /** Whether a line waits. What was dropped is reported behind the lines that waited then. */
  #hasMore(): boolean {
    const isRoom = this.#waitingBytes <= MAX_WAITING_BYTES / 2
    if (this.#unreported > 0 && isRoom && !this.#waiting.some(({ reports }) => reports > 0)) {
      this.#reports = this.#unreported
      this.#report(this.#unreported)
      this.#reports = 0
    }
    return this.#waiting.length > 0
  }

  /** Whole lines, at least one. */
  #piece(): { bytes: Buffer; lines: number } {
    const mostBytes = this.#output.isFile ? MAX_TURN_BYTES : MAX_PIECE_BYTES
    let lines = 0
    let bytes = 0
    do bytes += this.#waiting[lines++].bytes.length
    while (lines < this.#waiting.length && bytes + this.#waiting[lines].bytes.length <= mostBytes)
    return { bytes: Buffer.concat(this.#waiting.slice(0, lines).map((line) => line.bytes)), lines }
  }

  #written(count: number): void {
    this.#pauseMs = MIN_PAUSE_MS
    let left = count
    let lines = 0
    while (lines < this.#waiting.length && left >= this.#waiting[lines].bytes.length)
      left -= this.#waiting[lines++].bytes.length
    this.#remove(lines)
    if (left === 0) return
    // The rest of a line that is written in part is kept, so that the next line does not begin in the middle of it.
    const { bytes, reports } = this.#waiting[0]
    this.#waiting[0] = { bytes: bytes.subarray(left), isKept: true, reports: 0 }
    this.#waitingBytes -= left
    this.#unreported -= reports
  }

  /** The first ones, which are written. */
  #remove(lines: number): void {
    for (const { bytes, reports } of this.#waiting.splice(0, lines)) {
      this.#waitingBytes -= bytes.length
      this.#unreported -= reports
    }
  }
}

/**
 * `isFile`: a write to it may wait for a disk. Of the others none waits. A pipe or terminal is opened once more, as non-blocking: that holds for this process alone, and no other that shares it can
 * undo it. Node's own stream makes a pipe or socket that cannot be opened again non-blocking.
 */
function openOutput(fd: number) {
  try {
    const stat = fstatSync(fd)
    if (!stat.isFIFO() && !stat.isSocket() && !isatty(fd)) return { fd, isFile: true }
    if (fd === 1 || fd === 2) void (fd === 1 ? process.stdout : process.stderr)
    if (stat.isSocket()) return { fd, isFile: false }
    const { O_WRONLY, O_NONBLOCK, O_NOCTTY } = constants
    return { fd: openSync(`/proc/self/fd/${fd}`, O_WRONLY | O_NONBLOCK | O_NOCTTY), isFile: false }
  } catch {
    return { fd, isFile: false }
  }
}
