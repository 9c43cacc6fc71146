// Reads all of a journal, or of a spool, while a service may write it: checksums, records, ids, and what recovery would
// charge.

import { stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { IDEMPOTENCY_WINDOW_SECONDS } from '../../contract/bounds.ts'
import { eventsOf } from '../../contract/record/record-events.ts'
import { parseRecordHead, viewOf } from '../../contract/record/record-head.ts'
import { unfilled } from '../../contract/record/record-lines.ts'
import { readSpoolLine } from '../../contract/record/spool-line.ts'
import { Crc32c } from '../../lib/crc32c.ts'
import { noCommitsText } from '../../queue/journal/damage-text.ts'
import { realDisk } from '../../queue/journal/disk.ts'
import { missingFrom } from '../../queue/journal/journal-gaps.ts'
import { type Damage, PIECE_BYTES } from '../../queue/journal/segment-cursor.ts'
import { type OnRecord, walkSegments } from '../../queue/journal/segment-walk.ts'
import { damagedDirectory, journalDirectory, listSegments, type Segment } from '../../queue/journal/segments.ts'
import { endOf, idsEnd, readCommits } from '../../queue/journal/side-reader.ts'
import { readSnapshot } from '../../queue/journal/snapshot.ts'
import { readCursor } from '../../queue/spool/spool-cursor.ts'
import { addShare, type Problem, type Progress, REPEAT_WINDOW_MS, type Verification } from './verification.ts'

const unread = (reason: string): string => `it cannot be read (${reason}), and is taken as missing`

export interface VerifyOptions {
  readonly signal: AbortSignal
  readonly onProgress: (progress: Progress) => void
}

/** `directory` is the folder of the segments. Rejects where it cannot be read; a segment that is removed meanwhile is left out. */
export async function verifyJournal(
  directory: string,
  found: Verification,
  options: VerifyOptions,
  isSpool = false,
): Promise<void> {
  const checks = new Crc32c(PIECE_BYTES)
  const segments = await listSegments(directory)
  const reading = await readSnapshot(dirname(directory))
  if (reading?.kind === 'problem') found.add('snapshot', dirname(directory), null, reading.problem)
  const covered = reading?.kind === 'read' ? reading.snapshot.position : null
  for (const gap of await missingFrom(segments, { directory, covered, checks, disk: realDisk }))
    found.add('gap', directory, null, gap)
  await verifySegments(segments, found, options, { checks, isSpool })
}

async function verifySegments(
  segments: readonly Segment[],
  found: Verification,
  { signal, onProgress }: VerifyOptions,
  { checks, isSpool }: { readonly checks: Crc32c; readonly isSpool: boolean },
): Promise<void> {
  const total = segments.reduce((sum, { bytes }) => sum + bytes, 0)
  for (const segment of segments) {
    if (signal.aborted) return
    const before = found.bytes
    await verifySegment({ ...segment, isSpool }, checks, found, (bytes) => {
      found.bytes = before + bytes
      onProgress({ done: found.bytes, total: Math.max(total, found.bytes) })
      return signal.aborted
    })
  }
}

/** `directory` is the folder of the spool. */
export async function verifySpool(directory: string, found: Verification, options: VerifyOptions): Promise<void> {
  // What was sent on stays in it until NATS has synced it, and what is in doubt may be in the stream.
  found.beginCopy()
  if ((await readCursor(directory, realDisk)) === 'damaged')
    found.add(
      'cursor',
      join(directory, 'cursor.json'),
      null,
      'it cannot be read: NATS is asked for each batch before it is sent again',
    )
  await verifyJournal(journalDirectory(directory), found, options, true)
  // Of these any number may be missing.
  const setAside = await listSegments(damagedDirectory(directory))
  await verifySegments(setAside, found, options, { checks: new Crc32c(PIECE_BYTES), isSpool: true })
}

async function verifySegment(
  { isSpool, ...segment }: Segment & { readonly isSpool: boolean },
  checks: Crc32c,
  found: Verification,
  onRead: (bytes: number) => boolean,
): Promise<void> {
  const { path } = segment
  const { bytes } = checks
  const view = viewOf(bytes)
  const windowMs = isSpool ? IDEMPOTENCY_WINDOW_SECONDS * 1000 : REPEAT_WINDOW_MS
  /** The commit that is damaged, to which the next lines belong. */
  let damaged: { problem: Problem; end: number } | null = null
  const onDamage = (damage: Damage): void => {
    if (damage.kind === 'beside') {
      found.add('unchecked', damage.path, null, unread(damage.reason ?? ''))
      return
    }
    damaged = {
      problem: found.add(damage.kind, path, damage.offset, detailOf(damage)),
      end: damage.offset + damage.length,
    }
  }
  const onRecord: OnRecord = (start, end, { offset }, isWhole) => {
    const line = unfilled(Buffer.from(bytes.subarray(start, end)))
    const record = isWhole ? found.addRecord(line, { where: path, at: offset, storedAtMs: null, windowMs }) : null
    const inDamaged = damaged !== null && offset < damaged.end ? damaged.problem : null
    if (record === null) {
      addBadLine(found, { path, offset, inDamaged }, line)
      return
    }
    if (inDamaged !== null) addShare(inDamaged, record.appId, record.events)
    if (isSpool && readSpoolLine(line) === null) {
      const detail = `batch ${record.batchId} does not have the member that a spool adds: it is not sent`
      addShare(found.add('record', path, offset, detail), record.appId, record.events)
    }
    const charged = parseRecordHead(bytes, start, end, view)?.events ?? null
    if (charged === record.events) return
    const detail = `batch ${record.batchId} has ${record.events} events, and a start charges ${charged ?? 'none'}`
    addShare(found.add('cost', path, offset, detail), record.appId, record.events)
  }
  for await (const { offset } of walkSegments({ segments: [segment], checks, onDamage }, onRecord))
    if (onRead(offset)) return
  await addUnchecked(path, checks, found)
}

/** Where the ids stand in a record, whatever else is damaged. */
const HEAD_BYTES = 256
const BATCH_ID = /"batch_id":"([-0-9a-f]{36})"/
const APP_ID = /"app_id":"([A-Za-z0-9_-]{1,64})"/

interface BadLine {
  readonly path: string
  readonly offset: number
  readonly inDamaged: Problem | null
}

function addBadLine(found: Verification, { path, offset, inDamaged }: BadLine, line: Buffer): void {
  const head = line.toString('latin1', 0, HEAD_BYTES)
  const [, batchId] = BATCH_ID.exec(head) ?? []
  const [, appId] = APP_ID.exec(head) ?? []
  const whose = batchId === undefined ? '' : `; it was batch ${batchId}, as far as it can be read`
  const problem = found.add('record', path, offset, `a line of ${line.length} bytes is no record${whose}`)
  if (appId === undefined) return
  const events = [...eventsOf(line)].length
  addShare(problem, appId, events)
  if (inDamaged !== null) addShare(inDamaged, appId, events)
}

function detailOf({ kind, length }: Damage): string {
  return kind === 'missing'
    ? missingText(length)
    : `the ${length} bytes of a write to the disk are not those that were written`
}

function missingText(bytes: number): string {
  return `${bytes} bytes of accepted records that were written here are gone`
}

/** What the files beside a segment say of bytes that have no checksum, or are gone. Without one: before, between or behind those that have one. */
async function addUnchecked(path: string, checks: Crc32c, found: Verification): Promise<void> {
  // Before the commits, and these before the segment: each is written behind the next.
  const indexed = await idsEnd(path, checks, {
    onUnread: (side, reason) => void found.add('unchecked', side, null, unread(reason)),
  })
  const commits = await readCommits(path, checks)
  const size = await stat(path).then(
    (status) => status.size,
    () => null,
  )
  // It was removed meanwhile.
  if (size === null) return
  if (commits.length === 0 && indexed > 0) found.add('unchecked', path, null, noCommitsText(path))
  const last = commits.at(-1)
  // The cursor has said it of what the commits have.
  if (indexed > size && (last === undefined || endOf(last) <= size))
    found.add('missing', path, size, missingText(indexed - size))
  let end = 0
  for (const commit of commits) {
    const missing = commit.offset - end
    if (missing > 0) {
      found.uncheckedBytes += missing
      found.add('unchecked', path, end, `${missing} bytes have no checksum, and others behind them have`)
    }
    end = endOf(commit)
  }
  found.uncheckedBytes += Math.max(0, size - end)
}
