// Reads the journal while another process writes it, for `sluice tail`. It yields whole lines only.

import { type FileHandle, open } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { unfilled } from './direct-writes.ts'
import { endOfLastLine, listSegments, type Segment } from './segments.ts'

const POLL_MS = 100
/** At least twice the longest record. A line that does not fit is not a record and is skipped. */
const BUFFER_BYTES = 2 * 1024 * 1024
const NEWLINE = 10

export interface ReadLinesOptions {
  /** Starts at the oldest record; otherwise at the current end. */
  readonly fromStart: boolean
  /** Continues as the journal grows, and waits for a folder that does not exist yet. */
  readonly follow: boolean
  readonly signal: AbortSignal
}

/** Yields a copy of each line, without its newline and what fills its last block. */
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
      // Only the first segment is skipped to its end.
      skipsToEnd = false
      // Looked up before this segment is read: once the next one exists, the writer adds nothing to this one.
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

  /** The whole lines up to the current end. A line without its newline is left for the next call. */
  async *lines(): AsyncGenerator<Buffer> {
    await this.#adjustOffset()
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
        if (isWhole) yield Buffer.from(unfilled(line))
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
   * A failed write is truncated, possibly before the offset of this reader: go back to the start of a line. The writer
   * waits for a second after that, ten times as long as POLL_MS, so that the reader cannot miss it.
   */
  async #adjustOffset(): Promise<void> {
    if (this.#offset === 0 || this.#isWithinLongLine) return
    const { size } = await this.#handle.stat()
    const end = Math.min(this.#offset, size)
    this.#offset = await endOfLastLine(this.#handle, end)
  }
}
