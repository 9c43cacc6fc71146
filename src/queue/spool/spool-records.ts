// Reads the batches of a spool's journal, in order, from one position to another.

import { readSpoolLine, type SpooledLine } from '../../contract/record/spool-line.ts'
import { Crc32c } from '../../lib/crc32c.ts'
import type { Disk } from '../journal/disk.ts'
import { type Damage, type OnLine, PIECE_BYTES, SegmentCursor } from '../journal/segment-cursor.ts'
import { type JournalPosition, listSegments } from '../journal/segments.ts'

export interface SpooledRecord extends SpooledLine {
  readonly start: JournalPosition
  readonly end: JournalPosition
}

export interface SpoolRange {
  /** Of the journal. */
  readonly directory: string
  readonly from: JournalPosition
  /** Exclusive; null: the end of the last whole line. */
  readonly until: JournalPosition | null
  readonly disk: Disk
  /** A line that is no batch is passed over. */
  readonly onDamage: (damage: Damage) => void
}

/** Some 100 small batches: they take the event loop half a millisecond. A commit is read whole, which is rarely longer. */
const TURN_BYTES = 32 * 1024

export interface SpoolPiece {
  readonly records: readonly SpooledRecord[]
  /** Where the next one begins. */
  readonly next: JournalPosition
}

/** The last piece ends where the range does, or the last segment. */
export async function* readPieces({
  directory,
  from,
  until,
  disk,
  onDamage,
}: SpoolRange): AsyncGenerator<SpoolPiece, void> {
  const checks = new Crc32c(PIECE_BYTES)
  let next = from
  for (const { number, path } of await listSegments(directory, disk)) {
    if (number < from.segment) continue
    if (until !== null && number > until.segment) break
    if (number > next.segment) next = { segment: number, offset: 0 }
    const stop = until?.segment === number ? until.offset : Number.POSITIVE_INFINITY
    if (next.offset >= stop) continue
    const options = { from: next.offset, checks, disk, onDamage, turnBytes: TURN_BYTES }
    const cursor = await SegmentCursor.open(path, options)
    if (cursor === null) continue
    let records: SpooledRecord[] = []
    let isOver = false
    const onLine: OnLine = (start, end, offset, isWhole) => {
      isOver ||= offset >= stop
      if (isOver) return
      next = { segment: number, offset: offset + end - start + 1 }
      const line = isWhole ? readSpoolLine(checks.bytes.subarray(start, end)) : null
      if (line === null) onDamage({ kind: 'record', path, offset, length: end - start })
      else records.push({ ...line, start: { segment: number, offset }, end: next })
    }
    try {
      while (!isOver && (await cursor.read(onLine))) {
        isOver ||= next.offset >= stop
        yield { records, next }
        records = []
      }
    } finally {
      await cursor.close()
    }
  }
  yield { records: [], next }
}

/** Passes each batch of the range. */
export async function readSpool(range: SpoolRange, visit: (record: SpooledRecord) => void): Promise<void> {
  for await (const { records } of readPieces(range)) for (const record of records) visit(record)
}
