// Rebuilds usage, and the keys of the last 300 s, from the snapshot and the journal. It only reads, so that another
// process may run it beside the service.

import { IDEMPOTENCY_WINDOW_SECONDS } from '../../contract/bounds.ts'
import { parseRecordHead, type RecordHead, viewOf } from '../../contract/record/record-head.ts'
import { Crc32c } from '../../lib/crc32c.ts'
import { type Disk, realDisk } from './disk.ts'
import { type Damage, PIECE_BYTES, readSegment } from './segment-cursor.ts'
import { comparePositions, type JournalPosition, journalDirectory, listSegments } from './segments.ts'
import { readSnapshot } from './snapshot.ts'

const IDEMPOTENCY_WINDOW_MS = IDEMPOTENCY_WINDOW_SECONDS * 1000

export type VisitRecord = (record: RecordHead, segment: number, offset: number) => void
/** Called for what somebody edited, or the disk damaged. A line that is no record is skipped. */
export type OnDamage = (damage: Damage) => void

export interface ReadResult {
  readonly records: number
  readonly bytes: number
  /** The end of the last whole record; null: the journal is empty. */
  readonly end: JournalPosition | null
}

/** Visits every record at or after `from` (null: all) in order. A last line without its newline is not counted. */
export async function readRecords(
  directory: string,
  from: JournalPosition | null,
  visit: VisitRecord,
  onDamage: OnDamage = () => {},
  disk: Disk = realDisk,
): Promise<ReadResult> {
  const checks = new Crc32c(PIECE_BYTES)
  const { bytes: buffer } = checks
  const view = viewOf(buffer)
  let records = 0
  let bytes = 0
  let end: JournalPosition | null = null
  for (const segment of await listSegments(directory, disk)) {
    const start = from === null || segment.number > from.segment ? 0 : from.offset
    let endOffset = segment.bytes
    if ((from === null || segment.number >= from.segment) && start <= segment.bytes) {
      endOffset = await readSegment(
        segment.path,
        { from: start, checks, disk, onDamage },
        (lineStart, lineEnd, offset, isWhole) => {
          const record = isWhole ? parseRecordHead(buffer, lineStart, lineEnd, view) : null
          if (record === null) {
            onDamage({ kind: 'record', path: segment.path, offset, length: lineEnd - lineStart })
          } else {
            records += 1
            visit(record, segment.number, offset)
          }
        },
      )
      bytes += endOffset - start
    }
    end = { segment: segment.number, offset: endOffset }
  }
  return { records, bytes, end }
}

export interface RecoveryOptions {
  readonly dataDirectory: string
  readonly nowMs: number
  /**
   * Called first with the limiter's dump, where there is a snapshot. Returns null, or why the dump cannot be used; then
   * the whole journal is read.
   */
  readonly onSnapshot: (usage: unknown) => string | null
  /** Called for each record that the snapshot does not cover. An empty batch costs 1. */
  readonly onUsage: (appId: string, cost: number, receivedAtMs: number) => void
  /** Called for each keyed record of the last 300 s. */
  readonly onKey: (batchId: string, events: number, receivedAtMs: number) => void
  readonly onDamage: OnDamage
  readonly disk?: Disk
}

export interface Recovery extends ReadResult {
  /** Records that were passed to `onUsage`. */
  readonly counted: number
  readonly keys: number
  /** What the snapshot has of alerts; undefined: nothing. */
  readonly alerts: unknown
  /** Why the snapshot could not be used, for the log; the whole journal was read instead. */
  readonly snapshotProblem: string | null
  /** For the journal that is opened next: the position of the first record whose key is still remembered. */
  readonly keysFrom: JournalPosition | null
  /** For the journal that is opened next: records before this position would count as covered by the snapshot. */
  readonly resumeAfter: JournalPosition | null
}

/** Reads snapshot and journal, and passes what they hold to the callbacks. */
export async function recover(options: RecoveryOptions): Promise<Recovery> {
  const reading = await readSnapshot(options.dataDirectory, options.disk)
  const refusal = reading?.kind === 'read' ? options.onSnapshot(reading.snapshot.usage) : null
  const snapshot = reading?.kind === 'read' && refusal === null ? reading.snapshot : null
  const covered = snapshot === null ? null : snapshot.position
  const oldestKeyMs = options.nowMs - IDEMPOTENCY_WINDOW_MS
  let counted = 0
  let keys = 0
  let keysFrom: JournalPosition | null = null
  const visit: VisitRecord = (record, segment, offset) => {
    // The clock may have been ahead when the record was written, and must not open later windows now.
    const receivedAtMs = Math.min(record.receivedAtMs, options.nowMs)
    const isCovered =
      covered !== null && (segment < covered.segment || (segment === covered.segment && offset < covered.offset))
    if (!isCovered) {
      counted += 1
      options.onUsage(record.appId, Math.max(1, record.events), receivedAtMs)
    }
    if (receivedAtMs < oldestKeyMs) return
    keysFrom ??= { segment, offset }
    if (!record.keyed) return
    keys += 1
    options.onKey(record.batchId, record.events, receivedAtMs)
  }
  const from = snapshot === null ? null : earlier(snapshot.keysFrom, snapshot.position)
  const directory = journalDirectory(options.dataDirectory)
  const { end, ...result } = await readRecords(directory, from, visit, options.onDamage, options.disk)
  return {
    ...result,
    counted,
    keys,
    alerts: snapshot?.alerts,
    snapshotProblem: reading?.kind === 'problem' ? reading.problem : refusal,
    keysFrom: keysFrom ?? end,
    resumeAfter: covered,
    end,
  }
}

function earlier(left: JournalPosition, right: JournalPosition): JournalPosition {
  return comparePositions(left, right) <= 0 ? left : right
}
