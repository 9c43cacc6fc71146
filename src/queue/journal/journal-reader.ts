// Reads the journal while another process writes it, for `sluice tail`. It yields whole lines only.

import { setTimeout as sleep } from 'node:timers/promises'
import { unfilled } from './direct-writes.ts'
import { PIECE_BYTES, SegmentLines } from './segment-lines.ts'
import { endOfLastLine, listSegments, openSegment, type Segment, segmentNumbers } from './segments.ts'

const POLL_MS = 100

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
  let number = 0
  // Only the first segment is skipped to its end.
  for (let skipsToEnd = !fromStart; !signal.aborted; skipsToEnd = false) {
    const segments = (await listSegments(directory)).filter((segment) => segment.number > number)
    const segment = segments.at(skipsToEnd ? -1 : 0)
    if (segment !== undefined) {
      number = segment.number
      yield* linesOf(segment, { ...options, directory, skipsToEnd })
    } else if (follow) {
      await sleep(POLL_MS, undefined, { signal }).catch(() => {})
    } else {
      return
    }
  }
}

interface SegmentOptions extends ReadLinesOptions {
  readonly directory: string
  readonly skipsToEnd: boolean
}

/** With `follow`, until there is a next segment. */
async function* linesOf(
  { path, number }: Segment,
  { directory, skipsToEnd, follow, signal }: SegmentOptions,
): AsyncGenerator<Buffer> {
  const handle = await openSegment(path)
  if (handle === null) return
  try {
    const { size } = await handle.stat()
    const buffer = Buffer.allocUnsafeSlow(PIECE_BYTES)
    const lines = new SegmentLines(handle, buffer, skipsToEnd ? await endOfLastLine(handle, size) : 0)
    for (;;) {
      // Looked up before this segment is read: once the next one exists, the writer adds nothing to this one.
      const isLast = ((await segmentNumbers(directory)).at(-1) ?? 0) <= number
      // The writer waits for a second after it has truncated, ten times as long as POLL_MS, so that this is not missed.
      await lines.adjust()
      const found: Buffer[] = []
      while (await lines.read((start, end) => found.push(Buffer.from(unfilled(buffer.subarray(start, end)))))) {
        for (const line of found.splice(0)) {
          if (signal.aborted) return
          if (line.length > 0) yield line
        }
      }
      if (!isLast || !follow || signal.aborted) return
      await sleep(POLL_MS, undefined, { signal }).catch(() => {})
    }
  } finally {
    await handle.close()
  }
}
