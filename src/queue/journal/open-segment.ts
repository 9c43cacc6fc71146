// The segment that is written, and what is written beside it: a new one, or the last one as a start finds it.

import type { OnNotice } from '../../lib/notice.ts'
import type { Timers } from '../../lib/timers.ts'
import type { CommitMemory } from './commit-memory.ts'
import { noCommitsText } from './damage-text.ts'
import type { Disk, DiskFile } from './disk.ts'
import type { DamageKind } from './segment-cursor.ts'
import {
  comparePositions,
  createSegment,
  cutTornTail,
  type JournalPosition,
  openSegment,
  reopenSegment,
  type Segment,
  segmentPath,
  usedNumbers,
} from './segments.ts'
import { idTailAt, linesIn, MAX_CHECKED_BYTES } from './side-files.ts'
import { committedEnd, idsEnd } from './side-reader.ts'
import { SideWriter } from './side-writer.ts'

export interface SegmentContext {
  readonly directory: string
  readonly disk: Disk
  readonly timers: Timers
  readonly memory: CommitMemory
  readonly onNotice: OnNotice
  readonly onDamage: (kind: DamageKind) => void
}

export interface OpenSegment {
  readonly number: number
  readonly path: string
  readonly file: DiskFile
  readonly side: SideWriter
}

/** The number is larger than that of any segment that was ever in the folder, and than `after`. */
export async function newSegment(context: SegmentContext, after: number): Promise<OpenSegment> {
  const { directory, disk } = context
  // By the names alone: requests wait meanwhile, and there may be thousands of segments.
  const number = Math.max(after, (await usedNumbers(directory, disk)).at(-1) ?? 0) + 1
  const path = segmentPath(directory, number)
  const side = sideOf(path, context)
  try {
    const file = await createSegment(directory, number, disk, () => side.open())
    return { number, path, file, side }
  } catch (error) {
    await side.close()
    throw error
  }
}

export interface LastSegment {
  readonly open: OpenSegment
  readonly end: number
  /** Of a torn line that was truncated. */
  readonly cutBytes: number
  /** Of the last segment, where a new one had to be made. */
  readonly closedBytes: number
}

/** Cuts the last segment's torn line, and opens it, or a new one where nothing may be written behind its records. */
export async function openLast(
  context: SegmentContext,
  last: Segment | undefined,
  resumeAfter: JournalPosition | null,
): Promise<LastSegment> {
  const after = Math.max(last?.number ?? 0, resumeAfter?.segment ?? 0)
  if (last === undefined) {
    return { open: await newSegment(context, after), end: 0, cutBytes: 0, closedBytes: 0 }
  }
  const { disk, memory, onNotice } = context
  const { path, number } = last
  const committed = await committedEnd(path, memory.checks, disk)
  const indexed = await idsEnd(path, memory.checks, { disk })
  if (committed === 0 && indexed > 0) onNotice(noCommitsText(path))
  const durable = Math.max(committed, indexed)
  const { bytes, cutBytes, isWhole } = await cutTornTail(path, durable, disk)
  const side = sideOf(path, context)
  await addTail(path, { from: committed, end: bytes }, side, context)
  // It ends before the snapshot, or within a record.
  const isBehind = resumeAfter !== null && comparePositions({ segment: number, offset: bytes }, resumeAfter) < 0
  if (isWhole && !isBehind) {
    const file = await reopenSegment(path, disk)
    return { open: { number, path, file, side }, end: bytes, cutBytes, closedBytes: 0 }
  }
  await side.close()
  if (!isWhole)
    onNotice(`${path} is damaged at its end, at ${Math.min(bytes, durable)}: new records go into a new segment`)
  return { open: await newSegment(context, after), end: 0, cutBytes, closedBytes: bytes }
}

function sideOf(segmentPath: string, { disk, timers, memory, onNotice, onDamage }: SegmentContext): SideWriter {
  const { checks, lineAt } = memory
  const onUnwritten = (problem: string): void => {
    onDamage('unwritten')
    onNotice(problem, 'error')
  }
  return new SideWriter({ segmentPath, disk, timers, checks, lineAt, onUnwritten })
}

/** Gives the bytes [from, end), which have no line, theirs. */
async function addTail(
  path: string,
  { from, end }: { readonly from: number; readonly end: number },
  side: SideWriter,
  { disk, memory }: SegmentContext,
): Promise<void> {
  const file = from < end ? await openSegment(path, disk) : null
  if (file === null) return
  const { checks, lineAt } = memory
  const { bytes } = checks
  const pieceBytes = Math.min(lineAt, MAX_CHECKED_BYTES)
  try {
    for (let offset = from; offset < end; ) {
      const { bytesRead } = await file.read(bytes, 0, Math.min(pieceBytes, end - offset), offset)
      if (bytesRead === 0) return
      const pairs: number[] = []
      const length = linesIn(bytes, bytesRead, (start) => pairs.push(idTailAt(bytes, start), start))
      if (length > 0) side.add({ offset, length, crc: checks.of(0, length) }, pairs)
      // A line that is longer than any record gets none.
      offset += length === 0 ? bytesRead : length
    }
  } finally {
    await file.close()
  }
}
