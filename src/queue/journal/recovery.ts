// Rebuilds what the process knew from the journal and the snapshot: usage, and the keys of the last 300 s.
// It only reads, so another process may do it beside a running service.

import { open } from 'node:fs/promises'
import { IDEMPOTENCY_WINDOW_SECONDS } from '../../bounds.ts'
import { parseRecordHead, type RecordHead, viewOf } from '../record/record-head.ts'
import { comparePositions, type JournalPosition, journalDirectory, listSegments, type Segment } from './segments.ts'
import { readSnapshot } from './snapshot.ts'

/** Twice what the longest record takes: a line that does not fit is no record. */
const CHUNK_BYTES = 2 * 1024 * 1024
const NEWLINE = 10
const IDEMPOTENCY_WINDOW_MS = IDEMPOTENCY_WINDOW_SECONDS * 1000

export type VisitRecord = (record: RecordHead, segment: number, offset: number) => void
/** A line that is not a record: someone edited the file, or the disk lost it. It is skipped. */
export type CorruptLine = (path: string, offset: number) => void

export interface ReadResult {
  readonly records: number
  readonly corruptLines: number
  readonly bytes: number
  /** Where the last whole record ends; null: nothing is stored. */
  readonly end: JournalPosition | null
}

/** Visits every record at or after `from` (null: all), in order. A last line without its newline is not there yet. */
export async function readRecords(
  directory: string,
  from: JournalPosition | null,
  visit: VisitRecord,
  onCorrupt: CorruptLine = () => {},
): Promise<ReadResult> {
  const buffer = Buffer.allocUnsafeSlow(CHUNK_BYTES)
  const view = viewOf(buffer)
  let records = 0
  let corruptLines = 0
  let bytes = 0
  let end: JournalPosition | null = null
  for (const segment of await listSegments(directory)) {
    const start = from === null || segment.number > from.segment ? 0 : from.offset
    let endOffset = segment.bytes
    if ((from === null || segment.number >= from.segment) && start < segment.bytes) {
      endOffset = await readSegment(segment, start, buffer, (lineStart, lineEnd, offset) => {
        const record = parseRecordHead(buffer, lineStart, lineEnd, view)
        if (record === null) {
          corruptLines += 1
          onCorrupt(segment.path, offset)
        } else {
          records += 1
          visit(record, segment.number, offset)
        }
      })
      bytes += endOffset - start
    }
    end = { segment: segment.number, offset: endOffset }
  }
  return { records, corruptLines, bytes, end }
}

/** Calls `onLine` with each line's place in `buffer` and its offset in the file; returns where the last one ends. */
async function readSegment(
  segment: Segment,
  from: number,
  buffer: Buffer,
  onLine: (lineStart: number, lineEnd: number, offset: number) => void,
): Promise<number> {
  const handle = await open(segment.path, 'r').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null
    throw error
  })
  if (handle === null) return from
  try {
    // The buffer holds the file from `bufferOffset` on: first `held` bytes of a line whose end is still to be read.
    let bufferOffset = from
    let held = 0
    let lineEndOffset = from
    // A line too long for the buffer is passed over: its first bytes tell `onLine` that it is no record.
    let tooLong = false
    for (;;) {
      const { bytesRead } = await handle.read(buffer, held, buffer.length - held, bufferOffset + held)
      if (bytesRead === 0) return lineEndOffset
      const filled = held + bytesRead
      let lineStart = 0
      for (;;) {
        const lineEnd = indexOfNewline(buffer, lineStart === 0 ? held : lineStart, filled)
        if (lineEnd < 0) break
        if (!tooLong) onLine(lineStart, lineEnd, bufferOffset + lineStart)
        tooLong = false
        lineStart = lineEnd + 1
        lineEndOffset = bufferOffset + lineStart
      }
      if (lineStart === 0 && filled === buffer.length) {
        if (!tooLong) onLine(0, 0, bufferOffset)
        tooLong = true
        lineStart = filled
      }
      buffer.copyWithin(0, lineStart, filled)
      held = filled - lineStart
      bufferOffset += lineStart
    }
  } finally {
    await handle.close()
  }
}

function indexOfNewline(buffer: Buffer, from: number, end: number): number {
  const at = buffer.indexOf(NEWLINE, from)
  return at < end ? at : -1
}

export interface RecoveryOptions {
  readonly dataDirectory: string
  readonly nowMs: number
  /**
   * Called first, where there is a snapshot: what the limiter had dumped. Returns why it cannot be used, or null; the
   * whole journal is read then.
   */
  readonly onSnapshot: (usage: unknown) => string | null
  /** Each record that the snapshot does not cover. An empty batch costs 1. */
  readonly onUsage: (appId: string, cost: number, receivedAtMs: number) => void
  /** Each keyed record of the last 300 s. */
  readonly onKey: (batchId: string, events: number, receivedAtMs: number) => void
  readonly onCorrupt: CorruptLine
}

export interface Recovery extends ReadResult {
  /** Records that went to `onUsage`. */
  readonly counted: number
  readonly keys: number
  /** Why the snapshot could not be used, for the log; the whole journal was read instead. */
  readonly snapshotProblem: string | null
  /** For the journal that is opened next: where the first record lies whose key is still remembered. */
  readonly keysFrom: JournalPosition | null
  /** For the journal that is opened next: it must write at or after this, or the snapshot would hide its records. */
  readonly resumeAfter: JournalPosition | null
}

/** Reads snapshot and journal, and tells the caller what they hold. */
export async function recover(options: RecoveryOptions): Promise<Recovery> {
  const reading = await readSnapshot(options.dataDirectory)
  const refusal = reading?.kind === 'read' ? options.onSnapshot(reading.snapshot.usage) : null
  const snapshot = reading?.kind === 'read' && refusal === null ? reading.snapshot : null
  const covered = snapshot === null ? null : snapshot.position
  const oldestKeyMs = options.nowMs - IDEMPOTENCY_WINDOW_MS
  let counted = 0
  let keys = 0
  let keysFrom: JournalPosition | null = null
  const visit: VisitRecord = (record, segment, offset) => {
    // A clock that was ahead when the record was written must not pull windows and keys ahead now.
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
  const { end, ...result } = await readRecords(directory, from, visit, options.onCorrupt)
  return {
    ...result,
    counted,
    keys,
    snapshotProblem: reading?.kind === 'problem' ? reading.problem : refusal,
    keysFrom: keysFrom ?? end,
    resumeAfter: covered,
    end,
  }
}

function earlier(left: JournalPosition, right: JournalPosition): JournalPosition {
  return comparePositions(left, right) <= 0 ? left : right
}
