// Reads the journal while another process writes it, for `sluice tail`. It yields whole lines only.

import { setTimeout as sleep } from 'node:timers/promises'
import { unfilled } from '../../contract/record/record-lines.ts'
import { Crc32c } from '../../lib/crc32c.ts'
import { type Damage, type OnLine, PIECE_BYTES, SegmentCursor } from './segment-cursor.ts'
import { listSegments, type Segment, segmentNumbers } from './segments.ts'

const POLL_MS = 100

export interface ReadLinesOptions {
  /** Starts at the oldest record; otherwise at the current end. */
  readonly fromStart: boolean
  /** Continues as the journal grows, and waits for a folder that does not exist yet. */
  readonly follow: boolean
  readonly signal: AbortSignal
  readonly onDamage: (damage: Damage) => void
}

/** Yields a copy of each line, without its newline and what fills its last block. */
export async function* readLines(directory: string, options: ReadLinesOptions): AsyncGenerator<Buffer> {
  const { fromStart, follow, signal } = options
  const checks = new Crc32c(PIECE_BYTES)
  let number = 0
  // Only the first segment is skipped to its end.
  for (let skipsToEnd = !fromStart; !signal.aborted; skipsToEnd = false) {
    const segments = (await listSegments(directory)).filter((segment) => segment.number > number)
    const segment = segments.at(skipsToEnd ? -1 : 0)
    if (segment !== undefined) {
      number = segment.number
      yield* linesOf(segment, { ...options, directory, skipsToEnd, checks })
    } else if (follow) {
      await sleep(POLL_MS, undefined, { signal }).catch(() => {})
    } else {
      return
    }
  }
}

interface SegmentOptions extends ReadLinesOptions {
  readonly directory: string
  readonly skipsToEnd: boolean
  readonly checks: Crc32c
}

/** With `follow`, until there is a next segment. */
async function* linesOf(
  { path, number }: Segment,
  { directory, skipsToEnd, checks, follow, signal, onDamage }: SegmentOptions,
): AsyncGenerator<Buffer> {
  const { bytes: buffer } = checks
  const cursor = await SegmentCursor.open(path, { checks, from: skipsToEnd ? 'end' : 0, onDamage })
  if (cursor === null) return
  const found: Buffer[] = []
  /** Of a line that is too long for a record. */
  let longAt: number | null = null
  const tellLong = (end: number): void => {
    if (longAt !== null) onDamage({ kind: 'record', path, offset: longAt, length: end - longAt })
    longAt = null
  }
  const keep: OnLine = (start, end, offset, isWhole) => {
    tellLong(offset - 1)
    if (!isWhole) longAt = offset
    else if (end > start) found.push(Buffer.from(unfilled(buffer.subarray(start, end))))
  }
  try {
    for (;;) {
      // Looked up before this segment is read: once the next one exists, the writer adds nothing to this one.
      const isLast = ((await segmentNumbers(directory)).at(-1) ?? 0) <= number
      // The writer waits for a second after it has truncated, ten times as long as POLL_MS, so that this is not missed.
      await cursor.adjust()
      while (await cursor.read(keep)) {
        for (const line of found.splice(0)) {
          if (signal.aborted) return
          yield line
        }
      }
      // Of a segment to which nothing is added, also a line that is not too long.
      const rest = await cursor.rest()
      if (longAt !== null) tellLong(longAt === cursor.end ? cursor.end + rest : cursor.end - 1)
      else if (rest > 0 && !isLast) onDamage({ kind: 'record', path, offset: cursor.end, length: rest })
      if (!isLast || !follow || signal.aborted) return
      await sleep(POLL_MS, undefined, { signal }).catch(() => {})
    }
  } finally {
    await cursor.close()
  }
}
