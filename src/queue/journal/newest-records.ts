// The journal's records from the newest back, for people who look at what is stored.

import { unfilled } from '../../contract/record/record-lines.ts'
import { journalDirectory, listSegments, openSegment } from './segments.ts'

/** At least twice the longest record, so that one begins in each piece. */
const PIECE_BYTES = 2 * 1024 * 1024
/** A shorter line is no record. A damaged file may have a million in a piece. */
const MIN_LINE_BYTES = 100
const NEWLINE = 10

/** Yields lines, newest first, which the next piece overwrites. One that is being written may be cut off. */
export async function* newestInJournal(dataDirectory: string): AsyncGenerator<readonly Buffer[]> {
  const segments = await listSegments(journalDirectory(dataDirectory))
  const piece = Buffer.allocUnsafeSlow(PIECE_BYTES)
  for (const { path, bytes } of segments.toReversed()) {
    const handle = await openSegment(path)
    if (handle === null) continue
    try {
      let start: number
      for (let end = bytes; end > 0; end = start) {
        start = Math.max(0, end - PIECE_BYTES)
        const { bytesRead } = await handle.read(piece, 0, end - start, start)
        const read = piece.subarray(0, bytesRead)
        const first = start === 0 ? -1 : read.indexOf(NEWLINE)
        // A line without a beginning here is too long for a record.
        if (first < 0 && start > 0) continue
        yield linesBehind(read, first)
        start += Math.max(0, first)
      }
    } finally {
      await handle.close()
    }
  }
}

/** The last one first. */
function linesBehind(read: Buffer, first: number): Buffer[] {
  const lines: Buffer[] = []
  for (let stop = read.length; stop > first; ) {
    const newlineAt = stop === 0 ? -1 : read.lastIndexOf(NEWLINE, stop - 1)
    if (stop - newlineAt > MIN_LINE_BYTES) lines.push(unfilled(read.subarray(newlineAt + 1, stop)))
    stop = newlineAt
  }
  return lines
}
