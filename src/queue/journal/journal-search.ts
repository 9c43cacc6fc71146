// Looks for one batch in the journal's files, the newest file first, while another process may write and remove them.
// Records lie in the order of their times, but for a clock that was set back, so that a file is read only if it may hold
// the times that are searched.

import { basename } from 'node:path'
import { parseRecordStart, startOfRecord } from '../../contract/record/record-head.ts'
import { unfilled } from '../../contract/record/record-lines.ts'
import { readRecord } from '../../contract/record/record-members.ts'
import { Crc32c } from '../../lib/crc32c.ts'
import { type Finding, type Found, notFound, type SearchOptions } from '../find/finding.ts'
import type { Question, Span } from '../find/question.ts'
import { realDisk } from './disk.ts'
import { removedFrom } from './journal-gaps.ts'
import { type Damage, PIECE_BYTES, tellerOf } from './segment-cursor.ts'
import { type OnRecord, walkSegments } from './segment-walk.ts'
import { journalDirectory, listSegments, type Segment } from './segments.ts'
import { type IdsLine, idTail, idTailAt } from './side-files.ts'
import { readIds } from './side-reader.ts'

/** The first record's beginning lies in so many bytes, unless lines before it are damaged. */
const FIRST_BYTES = 64 * 1024

/** Rejects where a file cannot be read. One that is removed meanwhile, and a torn last line, count as not there. */
export async function findInJournal(
  dataDirectory: string,
  question: Question,
  { signal, onProgress, onDamage = () => {} }: SearchOptions = {},
): Promise<Finding> {
  const directory = journalDirectory(dataDirectory)
  const segments = await listSegments(directory)
  const first = new Crc32c(FIRST_BYTES)
  const firstTimes = new Map<Segment, number | null>()
  const firstTimeOf = async (segment: Segment): Promise<number | null> => {
    const known = firstTimes.get(segment)
    if (known !== undefined) return known
    const timeMs = await firstTime(segment, first)
    firstTimes.set(segment, timeMs)
    return timeMs
  }
  let reachesBackToMs: number | null = null
  for (const segment of segments) reachesBackToMs ??= await firstTimeOf(segment)
  const checks = new Crc32c(PIECE_BYTES)
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
      const found = await newestIn(segment, { question, span, checks, onDamage })
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
  for (const one of await removedFrom(segments, { directory, checks, disk: realDisk })) onDamage(one)
  return notFound(question, { reachesBackToMs, stoppedAtMs: null })
}

interface Wanted {
  readonly question: Question
  readonly span: Span
  readonly checks: Crc32c
  readonly onDamage: (damage: Damage) => void
}

/** null also where the segment is gone. */
async function newestIn(
  segment: Segment,
  { question: { batchId, appId }, span, checks, onDamage }: Wanted,
): Promise<Found | null> {
  const { path } = segment
  const wanted = Buffer.from(startOfRecord(batchId, appId))
  const { bytes: buffer } = checks
  let newest: Found | null = null
  const look: OnRecord = (start, end, { offset: offsetBytes }, isWhole) => {
    // A client may write it into its events, and often, but cannot begin a line.
    if (!isWhole || !startsWith(buffer, start, wanted)) return
    const record = readRecord(Buffer.from(unfilled(buffer.subarray(start, end))))
    if (record === null) return
    const receivedAtMs = Date.parse(record.receivedAt)
    if (receivedAtMs < span.fromMs || receivedAtMs >= span.beforeMs) return
    const place = { kind: 'journal', segment: basename(path), offsetBytes, lengthBytes: end - start } as const
    newest = { kind: 'found', record, place, consumers: [] }
  }
  const walkFrom = (offset: number, onRecord: OnRecord) =>
    walkSegments({ segments: [segment], from: { segment: segment.number, offset }, checks, onDamage }, onRecord)
  const tail = idTail(batchId)
  const { offsets, end: indexed } = await offsetsOf(tail, path, { checks, onDamage })
  for (const from of offsets) {
    let isPassed = false
    const lookOnce: OnRecord = (start, end, at, isWhole) => {
      if (isPassed) return
      isPassed = true
      const isThere =
        at.offset === from && parseRecordStart(buffer, start, end) !== null && idTailAt(buffer, start) === tail
      if (isThere) look(start, end, at, isWhole)
      else onDamage({ kind: 'record', path, offset: from, length: end - start })
    }
    for await (const _ of walkFrom(from, lookOnce)) if (isPassed) break
  }
  // What no index has yet.
  for await (const _ of walkFrom(indexed, look));
  return newest
}

/** Where records with such an id lie, as far as the segment's index goes without a gap, in order. */
async function offsetsOf(
  tail: number,
  path: string,
  { checks, onDamage }: Pick<Wanted, 'checks' | 'onDamage'>,
): Promise<{ readonly offsets: readonly number[]; readonly end: number }> {
  const offsets = new Set<number>()
  let end = 0
  const look = (line: IdsLine): void => {
    if (line.from > end) return
    end = Math.max(end, line.end)
    for (let at = line.pairs.indexOf(tail); at >= 0; at = line.pairs.indexOf(tail, at + 1)) {
      if (at % 2 === 0) offsets.add(line.pairs[at + 1])
    }
  }
  await readIds(path, checks, look, { onUnread: tellerOf(onDamage) })
  return { offsets: [...offsets], end }
}

function startsWith(bytes: Buffer, start: number, wanted: Buffer): boolean {
  // Most ids differ here already, and all records begin alike.
  const last = wanted.length - 2
  return bytes[start + last] === wanted[last] && bytes.subarray(start, start + wanted.length).equals(wanted)
}

/** The time of the first record; null: there is none, or the segment is gone. */
async function firstTime(segment: Segment, checks: Crc32c): Promise<number | null> {
  let timeMs: number | null = null
  const look: OnRecord = (start, end) => {
    timeMs ??= parseRecordStart(checks.bytes, start, end)?.receivedAtMs ?? null
  }
  for await (const _ of walkSegments({ segments: [segment], checks, onDamage: null }, look)) if (timeMs !== null) break
  return timeMs
}
