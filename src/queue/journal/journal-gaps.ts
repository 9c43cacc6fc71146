// Finds gaps in a journal, where records were stored and are missing now. The service starts anyway and logs them.

import type { Crc32c } from '../../lib/crc32c.ts'
import type { Disk } from './disk.ts'
import {
  comparePositions,
  endOfLastLine,
  type JournalPosition,
  type Segment,
  segmentNumbers,
  segmentPath,
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

/** Sentences for the log. Segments missing before the first one are no gap, since old ones are removed. */
export async function missingFrom(
  segments: readonly Segment[],
  { directory, covered, checks, disk }: GapOptions,
): Promise<string[]> {
  const unread = await unreadIn(directory, segments, disk)
  const found = unread.map(({ path }) => `${path} ${NO_FILE}`)
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
  const last = segments.at(-1)
  if (covered !== null && last !== undefined) {
    const known = segments.find((segment) => segment.number === covered.segment)
    if (known !== undefined && known.bytes < covered.offset) found.push(shorterThan(known, covered))
    else if (
      known === undefined &&
      comparePositions({ segment: Math.max(last.number, unread.at(-1)?.number ?? 0), offset: 0 }, covered) < 0
    ) {
      found.push(
        `The journal ends with segment ${last.path}, but the last snapshot covers segment ${covered.segment}. ${GONE}`,
      )
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
  const file = await disk.open(path, 'read')
  let end: number
  try {
    end = Math.max(committed, await endOfLastLine(file, bytes))
  } finally {
    await file.close()
  }
  return end < bytes ? Math.max(0, bytes - Math.max(end, await idsEnd(path, checks, { disk }))) : 0
}
