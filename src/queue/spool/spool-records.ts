// Reads the batches of a spool: those between two positions of its journal, in order, or all of its folder with how far each has come.

import { readSpoolLine, type SpooledLine } from '../../contract/record/spool-line.ts'
import { Crc32c } from '../../lib/crc32c.ts'
import type { Disk } from '../journal/disk.ts'
import { type Damage, PIECE_BYTES } from '../journal/segment-cursor.ts'
import { type OnRecord, walkSegments } from '../journal/segment-walk.ts'
import { comparePositions, type JournalPosition, journalDirectory, listSegments } from '../journal/segments.ts'
import type { SpoolCursor } from './spool-cursor.ts'
import type { SpoolContents } from './spool-log.ts'

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
  let records: SpooledRecord[] = []
  const onRecord: OnRecord = (start, stop, at, isWhole) => {
    const line = isWhole ? readSpoolLine(checks.bytes.subarray(start, stop)) : null
    if (line === null) return false
    records.push({ ...line, start: at, end: { segment: at.segment, offset: at.offset + stop - start + 1 } })
    return true
  }
  const segments = await listSegments(directory, disk)
  let next = from
  for await (next of walkSegments({ segments, from, until, checks, disk, onDamage, turnBytes: TURN_BYTES }, onRecord)) {
    yield { records, next }
    records = []
  }
  yield { records, next }
}

/** Passes each batch of the range. */
export async function readSpool(range: SpoolRange, visit: (record: SpooledRecord) => void): Promise<void> {
  for await (const { records } of readPieces(range)) for (const record of records) visit(record)
}

interface SpoolFolder extends Pick<SpoolRange, 'disk' | 'onDamage'> {
  /** Of the spool. */
  readonly directory: string
  readonly cursor: Pick<SpoolCursor, 'released' | 'sent'>
}

export interface FolderContents {
  readonly unsent: SpoolContents
  /** Sent, and kept until NATS has synced them. */
  readonly keptBatches: number
}

/** Reads a folder from its beginning, and passes each batch that it still has to keep. Rejects where it cannot be read. */
export async function readFolder(
  { directory, cursor: { released, sent }, disk, onDamage }: SpoolFolder,
  visit: (record: SpooledRecord, isSent: boolean) => void,
): Promise<FolderContents> {
  let [keptBatches, batches, bytes] = [0, 0, 0]
  let oldestAtMs: number | null = null
  const from = { segment: 0, offset: 0 }
  await readSpool({ directory: journalDirectory(directory), from, until: null, disk, onDamage }, (record) => {
    if (comparePositions(record.start, released) < 0) return
    const isSent = comparePositions(record.start, sent) < 0
    if (isSent) keptBatches += 1
    else {
      batches += 1
      bytes += record.line.length
      oldestAtMs ??= record.head.receivedAtMs
    }
    visit(record, isSent)
  })
  return { unsent: { batches, bytes, oldestAtMs }, keptBatches }
}
