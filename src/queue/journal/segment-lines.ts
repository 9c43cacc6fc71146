// Reads the lines of a segment, piece by piece, also while another process appends to it.

import type { FileHandle } from 'node:fs/promises'
import { endOfLastLine } from './segments.ts'

/** At least twice the longest record. A line that does not fit is not a record. */
export const PIECE_BYTES = 2 * 1024 * 1024
const NEWLINE = 10

/**
 * The line's place in the buffer, without its newline, and its offset in the file. A line that does not fit into the
 * buffer is passed once, as an empty one.
 */
type OnLine = (start: number, end: number, offset: number) => void

export class SegmentLines {
  readonly #handle: FileHandle
  readonly #buffer: Buffer
  #end: number
  /** Bytes that were read behind it, of a line that does not fit. */
  #skippedBytes = 0

  /** `from`: where a line begins. */
  constructor(handle: FileHandle, buffer: Buffer, from: number) {
    this.#handle = handle
    this.#buffer = buffer
    this.#end = from
  }

  /** The end of the last whole line. */
  get end(): number {
    return this.#end
  }

  /** Passes the whole lines of the next piece. false: there are none, and a last line without its newline is left. */
  async read(onLine: OnLine): Promise<boolean> {
    const { length } = this.#buffer
    const { bytesRead } = await this.#handle.read(this.#buffer, 0, length, this.#end + this.#skippedBytes)
    const piece = this.#buffer.subarray(0, bytesRead)
    let start = 0
    for (let at = piece.indexOf(NEWLINE); at >= 0; at = piece.indexOf(NEWLINE, start)) {
      if (this.#skippedBytes === 0) onLine(start, at, this.#end)
      this.#end += this.#skippedBytes + at + 1 - start
      this.#skippedBytes = 0
      start = at + 1
    }
    if (start > 0) return true
    if (bytesRead < length) return false
    if (this.#skippedBytes === 0) onLine(0, 0, this.#end)
    this.#skippedBytes += bytesRead
    return true
  }

  /** After a failed write the writer truncates its segment, possibly before what was read: goes back to a line's end. */
  async adjust(): Promise<void> {
    const { size } = await this.#handle.stat()
    if (size < this.#end + this.#skippedBytes) this.#skippedBytes = 0
    this.#end = await endOfLastLine(this.#handle, Math.min(this.#end, size))
  }
}
