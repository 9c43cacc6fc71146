// Reads the batches of a spool: those between two positions of its journal, in order, or all of its folder with how far each has come.

import { readSpoolLine, type SpooledLine } from '../../contract/record/spool-line.ts'
import { Crc32c } from '../../lib/crc32c.ts'
import type { Disk } from '../journal/disk.ts'
import { type Damage, type OnLine, PIECE_BYTES, SegmentCursor } from '../journal/segment-cursor.ts'
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
