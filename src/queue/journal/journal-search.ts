// Looks for one batch in the journal's files, the newest file first, while another process may write and remove them.
// Records lie in the order of their times, but for a clock that was set back, so that a file is read only if it may hold
// the times that are searched.

import type { FileHandle } from 'node:fs/promises'
import { basename } from 'node:path'
import {
  type Finding,
  type Found,
  notFound,
  readFoundRecord,
  type SearchOptions,
  startOfRecord,
} from '../find/finding.ts'
import type { Question, Span } from '../find/question.ts'
import { unfilled } from './direct-writes.ts'
import { journalDirectory, listSegments, openSegment, type Segment } from './segments.ts'

/** Read at once: in smaller pieces a disk is waited for more often. */
const CHUNK_BYTES = 4 * 1024 * 1024
const BLOCK_BYTES = 64 * 1024
/** More than from the newline before a record to the end of its time. */
const OVERLAP_BYTES = 256
/** At least twice the longest record. A line that does not fit is not a record. */
const MAX_LINE_BYTES = 2 * 1024 * 1024
const NEWLINE = 10
const HEAD = /\n\{"v":1,"batch_id":"[-0-9a-f]{36}","app_id":"[A-Za-z0-9_-]{1,64}","received_at":"([^"]{24})"/

/** Rejects where a file cannot be read. One that is removed meanwhile, and a torn last line, count as not there. */
export async function findInJournal(
  dataDirectory: string,
  question: Question,
  { signal, onProgress }: SearchOptions = {},
): Promise<Finding> {
  const segments = await listSegments(journalDirectory(dataDirectory))
  const firstTimes = new Map<Segment, number | null>()
  const firstTimeOf = async (segment: Segment): Promise<number | null> => {
    const known = firstTimes.get(segment)
    if (known !== undefined) return known
    const timeMs = await withSegment(segment, firstTime)
    firstTimes.set(segment, timeMs)
    return timeMs
  }
  let reachesBackToMs: number | null = null
  for (const segment of segments) reachesBackToMs ??= await firstTimeOf(segment)
  const chunk = Buffer.allocUnsafeSlow(CHUNK_BYTES)
  let bytesRead = 0
  for (const [index, span] of question.spans.entries()) {
    // The first time of the newer segment. It is before that of this one where the clock was set back in this one, which
    // may then hold any times.
    let endMs = Number.POSITIVE_INFINITY
    for (const segment of segments.toReversed()) {
      // Only a clock that was set back could have put it here, for which there is no time left.
      if (endMs < span.fromMs && signal?.aborted === true) break
      const firstMs = await firstTimeOf(segment)
      if (firstMs === null) continue
      const isOutside = firstMs <= endMs && (firstMs >= span.beforeMs || endMs < span.fromMs)
      endMs = firstMs
      if (isOutside) continue
      const wanted = { batchId: question.batchId, span, chunk }
      const found = await withSegment(segment, (handle) => newestIn(segment, handle, wanted))
      if (found !== null) return found
      bytesRead += segment.bytes
      onProgress?.({ bytesRead, reachedMs: firstMs })
      const isLeft = index === question.spans.length - 1 && firstMs >= span.fromMs && firstMs !== reachesBackToMs
      // A search that goes on begins with this segment again: it then reads at least one more.
      if (isLeft && signal?.aborted === true && firstMs + 1 < span.beforeMs) {
        return notFound(question, { reachesBackToMs, stoppedAtMs: firstMs })
      }
    }
  }
  return notFound(question, { reachesBackToMs, stoppedAtMs: null })
}

interface Wanted {
  readonly batchId: string
  readonly span: Span
  /** Memory for what is read at once. */
  readonly chunk: Buffer
}

async function newestIn(segment: Segment, handle: FileHandle, { batchId, span, chunk }: Wanted): Promise<Found | null> {
  const wanted = Buffer.from(startOfRecord(batchId))
  let newest: Found | null = null
  for (let at = 0; ; at += CHUNK_BYTES - OVERLAP_BYTES) {
    const { bytesRead } = await handle.read(chunk, 0, CHUNK_BYTES, at)
    const read = chunk.subarray(0, bytesRead)
    for (let start = read.indexOf(wanted); start >= 0; start = read.indexOf(wanted, start + 1)) {
      // A client may write it into its events, and often, but cannot begin a line. At 0 it was in the chunk before.
      if (start === 0 ? at > 0 : read[start - 1] !== NEWLINE) continue
      const offsetBytes = at + start
      const line = await lineAt(handle, offsetBytes)
      const record = line === null ? null : readFoundRecord(unfilled(line), batchId)
      if (line === null || record === null) continue
      const receivedAtMs = Date.parse(record.receivedAt)
      if (receivedAtMs < span.fromMs || receivedAtMs >= span.beforeMs) continue
      const place = { kind: 'journal', segment: basename(segment.path), offsetBytes, lengthBytes: line.length } as const
      newest = { kind: 'found', record, place, consumers: [] }
    }
    if (bytesRead < CHUNK_BYTES) return newest
  }
}

/** The line that begins there, without its newline; null: it is torn, or too long for a record. */
async function lineAt(handle: FileHandle, offset: number): Promise<Buffer | null> {
  const { buffer, bytesRead } = await handle.read(Buffer.allocUnsafe(MAX_LINE_BYTES), 0, MAX_LINE_BYTES, offset)
  const end = buffer.subarray(0, bytesRead).indexOf(NEWLINE)
  return end < 0 ? null : buffer.subarray(0, end)
}

/** null where the segment is gone. */
async function withSegment<T>({ path }: Segment, use: (handle: FileHandle) => Promise<T>): Promise<T | null> {
  const handle = await openSegment(path)
  try {
    return handle === null ? null : await use(handle)
  } finally {
    await handle?.close()
  }
}

/** The time of the first record; null: there is none. */
async function firstTime(handle: FileHandle): Promise<number | null> {
  const block = Buffer.allocUnsafe(BLOCK_BYTES)
  for (let at = 0; ; at += BLOCK_BYTES - OVERLAP_BYTES) {
    const { bytesRead } = await handle.read(block, 0, BLOCK_BYTES, at)
    const text = `${at === 0 ? '\n' : ''}${block.toString('latin1', 0, bytesRead)}`
    const timeMs = Date.parse(HEAD.exec(text)?.[1] ?? '')
    if (!Number.isNaN(timeMs)) return timeMs
    if (bytesRead < BLOCK_BYTES) return null
  }
}
