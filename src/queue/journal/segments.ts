// The journal's files: naming, listing and creating segments, and truncating the torn line that a crash leaves.

import { dirname, join } from 'node:path'
import { parseRecordHead } from '../../contract/record/record-head.ts'
import { errorCode, throwStartError } from '../../lib/errors.ts'
import { type Disk, type DiskFile, realDisk } from './disk.ts'

/** A byte offset within a numbered segment. Always the start of a line. */
export interface JournalPosition {
  readonly segment: number
  readonly offset: number
}

export interface Segment {
  readonly number: number
  readonly path: string
  readonly bytes: number
}

const SEGMENT_NAME = /^(\d{12})\.ndjson$/
const NUMBERED_NAME = /^(\d{12})\.(?:ndjson|commits|ids)$/
/** The largest number that fits into a name. */
export const MAX_SEGMENT_NUMBER = 999_999_999_999
const NEWLINE = 10
const BLOCK_BYTES = 64 * 1024

export function journalDirectory(dataDirectory: string): string {
  return join(dataDirectory, 'journal')
}

/** Where a spool sets segments with damage aside: journal/ in it has them as they were. */
export function damagedDirectory(spoolDirectory: string): string {
  return journalDirectory(join(spoolDirectory, 'damaged'))
}

export function segmentPath(directory: string, number: number): string {
  return join(directory, `${String(number).padStart(12, '0')}.ndjson`)
}

export function comparePositions(left: JournalPosition, right: JournalPosition): number {
  return left.segment - right.segment || left.offset - right.offset
}

/** A sentence where there is none; null: there is. Throws a StartError where it cannot be read. */
export async function missingJournal(dataDirectory: string): Promise<string | null> {
  const directory = journalDirectory(dataDirectory)
  try {
    await realDisk.names(directory)
    return null
  } catch (error) {
    if (errorCode(error) !== 'ENOENT') throwStartError(error, `the journal at ${directory} cannot be read: `)
    return `there is no journal at ${directory}: SLUICE_DATA_DIR names the folder that it is in`
  }
}

/** The numbers of all segments, in order, by their names alone. A missing folder has none. */
export async function segmentNumbers(directory: string, disk: Disk = realDisk): Promise<number[]> {
  return numbersIn(await namesIn(directory, disk), SEGMENT_NAME)
}

/** Those that a segment has or had, in order: one that another program removed may have left what lay beside it. */
export async function usedNumbers(directory: string, disk: Disk): Promise<number[]> {
  return [...new Set(numbersIn(await namesIn(directory, disk), NUMBERED_NAME))]
}

function numbersIn(names: readonly string[], pattern: RegExp): number[] {
  const numbers = names.map((name) => pattern.exec(name)?.[1]).filter((digits) => digits !== undefined)
  return numbers.map(Number).sort((left, right) => left - right)
}

async function namesIn(directory: string, disk: Disk): Promise<string[]> {
  return await disk.names(directory).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return []
    throw error
  })
}

/** All segments, oldest first. Files with other names are ignored, and so is a missing folder. */
export async function listSegments(directory: string, disk: Disk = realDisk): Promise<Segment[]> {
  const segments: Segment[] = []
  for (const number of await segmentNumbers(directory, disk)) {
    const path = segmentPath(directory, number)
    // A segment may have been removed since the listing.
    const bytes = await disk.size(path)
    if (bytes !== null) segments.push({ number, path, bytes })
  }
  return segments
}

/** null: the segment was removed since it was listed. */
export function openSegment(path: string, disk: Disk = realDisk): Promise<DiskFile | null> {
  return disk.open(path, 'read').catch((error: unknown) => {
    if (errorCode(error) === 'ENOENT') return null
    throw error
  })
}

/** Creates a new segment, and makes its name durable before its first record, with those of what `addBeside` makes. */
export async function createSegment(
  directory: string,
  number: number,
  disk: Disk,
  addBeside: () => Promise<void> = async () => {},
): Promise<DiskFile> {
  const file = await disk.open(segmentPath(directory, number), 'create')
  try {
    await addBeside()
    await file.sync()
    await disk.syncFolder(directory)
  } catch (error) {
    await file.close()
    throw error
  }
  return file
}

/** Opens a segment to append to, and syncs what an earlier process may have left unsynced: bytes, and its name. */
export async function reopenSegment(path: string, disk: Disk): Promise<DiskFile> {
  const file = await disk.open(path, 'append')
  try {
    await file.sync()
    await disk.syncFolder(dirname(path))
  } catch (error) {
    await file.close()
    throw error
  }
  return file
}

/**
 * Truncates the bytes after the last newline, but none before `committed`: they were durable, and where they have no
 * newline at their end, or are fewer, somebody has damaged them, and nothing may be written behind them.
 */
export async function cutTornTail(
  path: string,
  committed: number,
  disk: Disk,
): Promise<{ bytes: number; cutBytes: number; isWhole: boolean }> {
  const file = await disk.open(path, 'change')
  try {
    const { size } = await file.stat()
    if (size < committed) return { bytes: size, cutBytes: 0, isWhole: false }
    const bytes = Math.max(committed, await endOfLastLine(file, size))
    if (bytes < size) {
      await file.truncate(bytes)
      await file.sync()
    }
    const isWhole = bytes > committed || (await endOfLastLine(file, bytes)) === bytes
    return { bytes, cutBytes: size - bytes, isWhole }
  } finally {
    await file.close()
  }
}

/** Offset after the last newline before `before`; 0 where there is none. */
export async function endOfLastLine(file: DiskFile, before: number): Promise<number> {
  const block = Buffer.allocUnsafe(BLOCK_BYTES)
  let end = before
  while (end > 0) {
    const start = Math.max(0, end - BLOCK_BYTES)
    const { bytesRead } = await file.read(block, 0, end - start, start)
    if (bytesRead === 0) return 0
    const at = block.subarray(0, bytesRead).lastIndexOf(NEWLINE)
    if (at >= 0) return start + at + 1
    end = start
  }
  return 0
}

/** When the last record was received, in Unix ms; the file's modification time where the last line is not a record. */
export async function lastRecordTimeMs(path: string, disk: Disk = realDisk): Promise<number> {
  const file = await disk.open(path, 'read')
  try {
    const { size, mtimeMs } = await file.stat()
    const end = await endOfLastLine(file, size)
    if (end === 0) return mtimeMs
    const start = await endOfLastLine(file, end - 1)
    const line = Buffer.allocUnsafe(end - start)
    const { bytesRead } = await file.read(line, 0, line.length, start)
    return parseRecordHead(line, 0, bytesRead - 1)?.receivedAtMs ?? mtimeMs
  } finally {
    await file.close()
  }
}
