// Rebuilds usage, and the keys of the last 300 s, from the snapshot and the journal. It only reads, so that another
// process may run it beside the service.

import { IDEMPOTENCY_WINDOW_SECONDS } from '../../contract/bounds.ts'
import { parseRecordHead, type RecordHead, viewOf } from '../../contract/record/record-head.ts'
import { Crc32c } from '../../lib/crc32c.ts'
import { type Disk, realDisk } from './disk.ts'
import { type Damage, PIECE_BYTES } from './segment-cursor.ts'
import { type OnRecord, walkSegments } from './segment-walk.ts'
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
  const segments = await listSegments(directory, disk)
  const last = segments.at(-1)
  if (last === undefined) return { records: 0, bytes: 0, end: null }
  const checks = new Crc32c(PIECE_BYTES)
  const view = viewOf(checks.bytes)
  let records = 0
  const onRecord: OnRecord = (start, stop, { segment, offset }, isWhole) => {
    const record = isWhole ? parseRecordHead(checks.bytes, start, stop, view) : null
    if (record === null) return false
    records += 1
    visit(record, segment, offset)
    return true
  }
  // Somebody may have made the segment shorter.
  const isBehind = segments.some((one) => one.number === from?.segment && one.bytes < from.offset)
  let at = from === null || isBehind ? { segment: (from?.segment ?? -1) + 1, offset: 0 } : from
  let bytes = 0
  let end = { segment: last.number, offset: last.bytes }
  for await (const next of walkSegments({ segments, from: at, checks, disk, onDamage }, onRecord)) {
    bytes += next.offset - (next.segment === at.segment ? at.offset : 0)
    at = next
    if (next.segment === last.number) end = next
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
