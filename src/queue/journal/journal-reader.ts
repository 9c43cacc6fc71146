// Reads the journal as it grows, for `sluice tail`: whole lines only, from another process than the writer's.

import { type FileHandle, open } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { endOfLastLine, listSegments, type Segment } from './segments.ts'

const POLL_MS = 100
/** Twice what the longest record takes: a line that does not fit is no record, and is passed over. */
const BUFFER_BYTES = 2 * 1024 * 1024
const NEWLINE = 10

export interface ReadLinesOptions {
  /** From the oldest record; otherwise from the end as it is now. */
  readonly fromStart: boolean
  /** Goes on as the journal grows; a folder that does not exist yet is waited for. */
  readonly follow: boolean
  readonly signal: AbortSignal
}

/** Yields each line without its newline, as bytes that are the caller's own. */
export async function* readLines(directory: string, options: ReadLinesOptions): AsyncGenerator<Buffer> {
  const { fromStart, follow, signal } = options
  let segment = await firstSegment(directory, fromStart)
  let skipsToEnd = !fromStart
  let reader: SegmentReader | null = null
  let lastNumber = 0
  try {
    while (!signal.aborted) {
      if (reader === null && segment !== null) {
        reader = await openReader(segment, skipsToEnd)
        lastNumber = segment.number
      }
      // Only what there was at the start is skipped.
      skipsToEnd = false
      // Asked before the last read: the writer has left a segment for good once it has begun the next.
      const next: Segment | null = await segmentAfter(directory, lastNumber)
      if (reader !== null) {
        for await (const line of reader.lines()) {
          if (signal.aborted) return
          yield line
        }
      }
      if (next !== null) {
        await reader?.close()
        reader = null
        segment = next
      } else if (follow) {
        await sleep(POLL_MS, undefined, { signal }).catch(() => {})
      } else {
        return
      }
    }
  } finally {
    await reader?.close()
  }
}

async function firstSegment(directory: string, fromStart: boolean): Promise<Segment | null> {
  const segments = await listSegments(directory)
  return segments[fromStart ? 0 : segments.length - 1] ?? null
}

async function segmentAfter(directory: string, number: number): Promise<Segment | null> {
  const segments = await listSegments(directory)
  return segments.find((segment) => segment.number > number) ?? null
}

/** null: the segment was removed before it could be opened. */
async function openReader(segment: Segment, skipsToEnd: boolean): Promise<SegmentReader | null> {
  try {
    const handle = await open(segment.path, 'r')
    const { size } = await handle.stat()
    return new SegmentReader(handle, skipsToEnd ? await endOfLastLine(handle, size) : 0)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
}

class SegmentReader {
  readonly #handle: FileHandle
  readonly #buffer = Buffer.allocUnsafeSlow(BUFFER_BYTES)
  /** Where the next line begins. */
  #offset: number
  #isWithinLongLine = false

  constructor(handle: FileHandle, offset: number) {
    this.#handle = handle
    this.#offset = offset
  }

  /** The whole lines there are now. A line without its newline stays for the next call. */
  async *lines(): AsyncGenerator<Buffer> {
    await this.#steadyOffset()
    const buffer = this.#buffer
    for (;;) {
      const { bytesRead } = await this.#handle.read(buffer, 0, buffer.length, this.#offset)
      const read = buffer.subarray(0, bytesRead)
      let start = 0
      for (;;) {
        const end = read.indexOf(NEWLINE, start)
        if (end < 0) break
        const line = read.subarray(start, end)
        const isWhole = !this.#isWithinLongLine
        this.#isWithinLongLine = false
        start = end + 1
        this.#offset += line.length + 1
        if (isWhole) yield Buffer.from(line)
      }
      if (start > 0) continue
      if (bytesRead < buffer.length) return
      this.#isWithinLongLine = true
      this.#offset += bytesRead
    }
  }

  async close(): Promise<void> {
    await this.#handle.close()
  }

  /**
   * A write that failed is cut back, at times behind a line that was read here already: begin anew at a line's start.
   * The writer waits a second after a cut, ten times as long as the reader between two looks, so that it is seen.
   */
  async #steadyOffset(): Promise<void> {
    if (this.#offset === 0 || this.#isWithinLongLine) return
    const { size } = await this.#handle.stat()
    const end = Math.min(this.#offset, size)
    this.#offset = await endOfLastLine(this.#handle, end)
  }
}
