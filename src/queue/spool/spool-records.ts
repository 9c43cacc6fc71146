// Reads the batches of a spool's journal, in order, from one position to another.

import { readSpoolLine, type SpooledLine } from '../../contract/record/spool-line.ts'
import { Crc32c } from '../../lib/crc32c.ts'
import type { Disk } from '../journal/disk.ts'
import { type Damage, PIECE_BYTES, readSegment } from '../journal/segment-cursor.ts'
import { comparePositions, type JournalPosition, listSegments } from '../journal/segments.ts'

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

/** Some 100 batches of ten events: they take the event loop a millisecond or two. */
const TURN_BYTES = 128 * 1024

/** Passes each batch of the range, until `isEnough` says so. Returns where the next reading begins. */
export async function readSpool(
  { directory, from, until, disk, onDamage }: SpoolRange,
  visit: (record: SpooledRecord) => void,
  isEnough: () => boolean = () => false,
): Promise<JournalPosition> {
  const checks = new Crc32c(PIECE_BYTES)
  const { bytes: buffer } = checks
  let at = from
  for (const { number, path } of await listSegments(directory, disk)) {
    if (number < at.segment) continue
    if (until !== null && number > until.segment) break
    if (number > at.segment) at = { segment: number, offset: 0 }
    let isOver = false
    await readSegment(
      path,
      { from: at.offset, checks, disk, onDamage, turnBytes: TURN_BYTES },
      (start, end, offset, isWhole) => {
        isOver ||= until !== null && comparePositions({ segment: number, offset }, until) >= 0
        isOver ||= isEnough()
        if (isOver) return
        const next = { segment: number, offset: offset + end - start + 1 }
        // A copy, since the buffer is read into again.
        const line = isWhole ? readSpoolLine(Buffer.from(buffer.subarray(start, end))) : null
        if (line === null) onDamage({ kind: 'record', path, offset, length: end - start })
        else visit({ ...line, start: { segment: number, offset }, end: next })
        at = next
      },
      () => isOver,
    )
    if (isOver) break
  }
  return at
}
