// Walks over the lines of a journal's segments in their order: for recovery, a search, `sluice verify`, and a spool.

import { type CursorOptions, type OnLine, SegmentCursor } from './segment-cursor.ts'
import type { JournalPosition, Segment } from './segments.ts'

const BEGINNING: JournalPosition = { segment: 0, offset: 0 }

export interface Walk extends Omit<CursorOptions, 'from'> {
  readonly segments: readonly Segment[]
  /** Where a line begins; absent: all are walked. */
  readonly from?: JournalPosition
  /** Exclusive; absent or null: the end of the last whole line. */
  readonly until?: JournalPosition | null
}

/** As `OnLine`, with the line's place in the journal. false: it is no record, which is reported as damage. */
export type OnRecord = (start: number, end: number, at: JournalPosition, isWhole: boolean) => boolean | undefined

/** Yields how far it has come, after each piece. A segment that was removed since it was listed is left out. */
export async function* walkSegments(
  { segments, from = BEGINNING, until = null, ...options }: Walk,
  onRecord: OnRecord,
): AsyncGenerator<JournalPosition> {
  for (const { number, path } of segments) {
    if (number < from.segment) continue
    if (until !== null && number > until.segment) return
    const start = number === from.segment ? from.offset : 0
    const stop = until?.segment === number ? until.offset : Number.POSITIVE_INFINITY
    if (start >= stop) return yield { segment: number, offset: start }
    const cursor = await SegmentCursor.open(path, { ...options, from: start })
    if (cursor === null) continue
    const onLine: OnLine = (lineStart, lineEnd, offset, isWhole) => {
      if (offset < stop && onRecord(lineStart, lineEnd, { segment: number, offset }, isWhole) === false)
        options.onDamage?.({ kind: 'record', path, offset, length: lineEnd - lineStart })
    }
    try {
      for (let isMore = true; isMore && cursor.end < stop; ) {
        isMore = await cursor.read(onLine)
        yield { segment: number, offset: Math.min(stop, cursor.end) }
      }
    } finally {
      await cursor.close()
    }
  }
}
