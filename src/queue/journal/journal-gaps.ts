// Finds gaps in a journal, where records were stored and are missing now. The service starts anyway and logs them.

import { open } from 'node:fs/promises'
import { comparePositions, endOfLastLine, type JournalPosition, type Segment } from './segments.ts'

/** A damaged folder may have any number of gaps. */
const MAX_SENTENCES = 10

/**
 * Sentences for the log. Segments missing before the first one are no gap, since old ones are removed. `covered`: the
 * position of the last snapshot.
 */
export async function missingFrom(segments: readonly Segment[], covered: JournalPosition | null): Promise<string[]> {
  const found: string[] = []
  for (const [index, segment] of segments.slice(1).entries()) {
    const before = segments[index]
    if (before.number + 1 < segment.number) found.push(gapBetween(before, segment))
  }
  for (const segment of segments.slice(0, -1)) {
    const tornBytes = await tornTailOf(segment)
    if (tornBytes > 0) {
      found.push(`The journal's segment ${segment.path} ends within a record: its last ${tornBytes} bytes are skipped`)
    }
  }
  const last = segments.at(-1)
  if (covered !== null && last !== undefined) {
    const known = segments.find((segment) => segment.number === covered.segment)
    if (known !== undefined && known.bytes < covered.offset) found.push(shorterThan(known, covered))
    else if (known === undefined && comparePositions({ segment: last.number, offset: 0 }, covered) < 0) {
      found.push(
        `The journal ends with segment ${last.path}, but the last snapshot covers segment ${covered.segment}. ${GONE}`,
      )
    }
  }
  const more = found.length - MAX_SENTENCES
  return more > 0 ? [...found.slice(0, MAX_SENTENCES), `${more} more faults of the journal are not listed`] : found
}

const GONE = 'Readers cannot get the missing records; the limits still count those that the snapshot covers'

function gapBetween(before: Segment, after: Segment): string {
  const [first, last] = [before.number + 1, after.number - 1]
  const which =
    first === last ? `Segment ${first} of the journal is` : `Segments ${first} to ${last} of the journal are`
  return `${which} missing between ${before.path} and ${after.path}. ${GONE}`
}

function shorterThan({ path, bytes }: Segment, { offset }: JournalPosition): string {
  return `The journal's segment ${path} has ${bytes} bytes, but the last snapshot covers ${offset} of them. ${GONE}`
}

/** How many bytes follow the last newline. */
async function tornTailOf({ path, bytes }: Segment): Promise<number> {
  if (bytes === 0) return 0
  const handle = await open(path, 'r')
  try {
    return bytes - (await endOfLastLine(handle, bytes))
  } finally {
    await handle.close()
  }
}
