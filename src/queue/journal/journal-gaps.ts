// Finds gaps in a journal, where records were stored and are missing now. The service starts anyway and logs them.

import { dirname } from 'node:path'
import type { Crc32c } from '../../lib/crc32c.ts'
import { damageText } from './damage-text.ts'
import type { Disk } from './disk.ts'
import type { Damage } from './segment-cursor.ts'
import {
  damagedDirectory,
  endOfLastLine,
  type JournalPosition,
  openSegment,
  type Segment,
  segmentNumbers,
  segmentPath,
  usedNumbers,
} from './segments.ts'
import { committedEnd, idsEnd } from './side-reader.ts'

/** A damaged folder may have any number of gaps. */
const MAX_SENTENCES = 10

export interface GapOptions {
  readonly directory: string
  /** The position of the last snapshot. */
  readonly covered: JournalPosition | null
  readonly checks: Crc32c
  readonly disk: Disk
}

/** Sentences for the log. Segments missing before the first one are no gap, since old ones are removed with what lies beside them. */
export async function missingFrom(segments: readonly Segment[], options: GapOptions): Promise<string[]> {
  const { directory, covered, checks, disk } = options
  const unread = await unreadIn(directory, segments, disk)
  const removed = await removedFrom(segments, options)
  const found = [...unread.map(({ path }) => `${path} ${NO_FILE}`), ...removed.map(damageText)]
  for (const [index, segment] of segments.slice(1).entries()) {
    const before = segments[index]
    const between = unread.filter(({ number }) => number > before.number && number < segment.number)
    if (before.number + 1 + between.length < segment.number) found.push(gapBetween(before, segment))
  }
  for (const segment of segments.slice(0, -1)) {
    const tornBytes = await tornTailOf(segment, checks, disk)
    if (tornBytes > 0) {
      found.push(`The journal's segment ${segment.path} ends within a record: its last ${tornBytes} bytes are skipped`)
    }
  }
  if (covered !== null) {
    const known = segments.find((segment) => segment.number === covered.segment)
    if (known !== undefined && known.bytes < covered.offset) found.push(shorterThan(known, covered))
    else if ([...segments, ...unread, ...removed].every(({ number }) => number < covered.segment)) {
      const last = segments.at(-1)
      const end = last === undefined ? 'has no segment' : `ends with segment ${last.path}`
      if (last !== undefined || covered.offset > 0)
        found.push(`The journal ${end}, but the last snapshot covers segment ${covered.segment}. ${GONE}`)
    }
  }
  const more = found.length - MAX_SENTENCES
  return more > 0 ? [...found.slice(0, MAX_SENTENCES), `${more} more faults of the journal are not listed`] : found
}

const NO_FILE = 'is no regular file, or cannot be looked at: the records of this segment of the journal are not read'
const GONE = 'Readers cannot get the missing records; the limits still count those that the snapshot covers'

/** Those that have a name and are not listed. One that was made since the listing is a file. */
async function unreadIn(directory: string, segments: readonly Segment[], disk: Disk) {
  const listed = new Set(segments.map(({ number }) => number))
  const unread: Pick<Segment, 'number' | 'path'>[] = []
  for (const number of await segmentNumbers(directory, disk)) {
    const path = segmentPath(directory, number)
    if (!listed.has(number) && (await disk.size(path)) === null) unread.push({ number, path })
  }
  return unread
}

type RemovedSegment = Damage & Pick<Segment, 'number'>

/** Segments before the first or behind the last that are not there, though what lies beside them says that records were durable in them. */
export async function removedFrom(
  segments: readonly Segment[],
  { directory, checks, disk }: Omit<GapOptions, 'covered'>,
): Promise<RemovedSegment[]> {
  const removed: RemovedSegment[] = []
  const [first, last] = [segments.at(0)?.number ?? Number.POSITIVE_INFINITY, segments.at(-1)?.number ?? 0]
  // First, since a segment is made before what lies beside it.
  const used = await usedNumbers(directory, disk)
  const names = new Set(await segmentNumbers(directory, disk))
  for (const number of used) {
    if ((number >= first && number <= last) || names.has(number)) continue
    const path = segmentPath(directory, number)
    // Where a process died that set it aside.
    if ((await disk.size(segmentPath(damagedDirectory(dirname(directory)), number))) !== null) continue
    // The service removes these before their segment.
    const length = (await committedEnd(path, checks, disk)) || (await idsEnd(path, checks, { disk }))
    if (length > 0) removed.push({ number, kind: 'missing', path, offset: 0, length })
  }
  return removed
}

function gapBetween(before: Segment, after: Segment): string {
  const [first, last] = [before.number + 1, after.number - 1]
  const which =
    first === last ? `Segment ${first} of the journal is` : `Segments ${first} to ${last} of the journal are`
  return `${which} missing between ${before.path} and ${after.path}. ${GONE}`
}

function shorterThan({ path, bytes }: Segment, { offset }: JournalPosition): string {
  return `The journal's segment ${path} has ${bytes} bytes, but the last snapshot covers ${offset} of them. ${GONE}`
}

/** How many bytes follow the last newline, and no commit was known to hold. */
async function tornTailOf({ path, bytes }: Segment, checks: Crc32c, disk: Disk): Promise<number> {
  const committed = await committedEnd(path, checks, disk)
  if (bytes <= committed) return 0
  const file = await openSegment(path, disk)
  // The service has removed it since it was listed.
  if (file === null) return 0
  let end: number
  try {
    end = Math.max(committed, await endOfLastLine(file, bytes))
  } finally {
    await file.close()
  }
  return end < bytes ? Math.max(0, bytes - Math.max(end, await idsEnd(path, checks, { disk }))) : 0
}
