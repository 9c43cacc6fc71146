// The journal's files: naming, listing and creating segments, and truncating the torn line that a crash leaves.

import { constants } from 'node:fs'
import { type FileHandle, open, readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { errorCode } from '../../lib/errors.ts'
import { syncFolder } from '../../lib/folder.ts'
import { parseRecordHead } from '../record/record-head.ts'

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
/** The largest number that fits into a name. */
export const MAX_SEGMENT_NUMBER = 999_999_999_999
const NEWLINE = 10
const BLOCK_BYTES = 64 * 1024

export function journalDirectory(dataDirectory: string): string {
  return join(dataDirectory, 'journal')
}

export function segmentPath(directory: string, number: number): string {
  return join(directory, `${String(number).padStart(12, '0')}.ndjson`)
}

export function comparePositions(left: JournalPosition, right: JournalPosition): number {
  return left.segment - right.segment || left.offset - right.offset
}

/** The numbers of all segments, in order, by their names alone. A missing folder has none. */
export async function segmentNumbers(directory: string): Promise<number[]> {
  const names = await readdir(directory).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return []
    throw error
  })
  const numbers = names.map((name) => SEGMENT_NAME.exec(name)?.[1]).filter((digits) => digits !== undefined)
  return numbers.map(Number).sort((left, right) => left - right)
}

/** All segments, oldest first. Files with other names are ignored, and so is a missing folder. */
export async function listSegments(directory: string): Promise<Segment[]> {
  const segments: Segment[] = []
  for (const number of await segmentNumbers(directory)) {
    const path = segmentPath(directory, number)
    // A segment may have been removed since the listing.
    const status = await stat(path).catch(() => null)
    if (status?.isFile()) segments.push({ number, path, bytes: status.size })
  }
  return segments
}

/** null: the segment was removed since it was listed. */
export function openSegment(path: string): Promise<FileHandle | null> {
  return open(path, 'r').catch((error: unknown) => {
    if (errorCode(error) === 'ENOENT') return null
    throw error
  })
}

/**
 * With O_DSYNC a write returns once it is on disk. Compared with a write and an fdatasync it saves one trip through the
 * thread pool, a quarter of a small commit's CPU time. Used on Linux only; elsewhere a commit ends with fdatasync,
 * which on macOS also flushes the drive's cache.
 */
export const WRITES_ARE_SYNCED = process.platform === 'linux'
const APPEND_FLAGS = constants.O_WRONLY | constants.O_APPEND | (WRITES_ARE_SYNCED ? constants.O_DSYNC : 0)

/** Creates a new segment, and makes its name durable before its first record. */
export async function createSegment(directory: string, number: number): Promise<FileHandle> {
  const handle = await open(segmentPath(directory, number), APPEND_FLAGS | constants.O_CREAT | constants.O_EXCL, 0o640)
  try {
    await handle.sync()
    await syncFolder(directory)
  } catch (error) {
    await handle.close()
    throw error
  }
  return handle
}

/** Opens a segment to append to, and syncs what an earlier process may have left unsynced. */
export async function reopenSegment(path: string): Promise<FileHandle> {
  const handle = await open(path, APPEND_FLAGS)
  await handle.sync()
  return handle
}

/** Truncates the bytes after the last newline. */
export async function cutTornTail(path: string): Promise<{ bytes: number; cutBytes: number }> {
  const handle = await open(path, 'r+')
  try {
    const { size } = await handle.stat()
    const bytes = await endOfLastLine(handle, size)
    if (bytes < size) {
      await handle.truncate(bytes)
      await handle.sync()
    }
    return { bytes, cutBytes: size - bytes }
  } finally {
    await handle.close()
  }
}

/** Offset after the last newline before `before`; 0 where there is none. */
export async function endOfLastLine(handle: FileHandle, before: number): Promise<number> {
  const block = Buffer.allocUnsafe(BLOCK_BYTES)
  let end = before
  while (end > 0) {
    const start = Math.max(0, end - BLOCK_BYTES)
    const { bytesRead } = await handle.read(block, 0, end - start, start)
    if (bytesRead === 0) return 0
    const at = block.subarray(0, bytesRead).lastIndexOf(NEWLINE)
    if (at >= 0) return start + at + 1
    end = start
  }
  return 0
}

/** When the last record was received, in Unix ms; the file's modification time where the last line is not a record. */
export async function lastRecordTimeMs(path: string): Promise<number> {
  const handle = await open(path, 'r')
  try {
    const { size, mtimeMs } = await handle.stat()
    const end = await endOfLastLine(handle, size)
    if (end === 0) return mtimeMs
    const start = await endOfLastLine(handle, end - 1)
    const line = Buffer.allocUnsafe(end - start)
    const { bytesRead } = await handle.read(line, 0, line.length, start)
    return parseRecordHead(line, 0, bytesRead - 1)?.receivedAtMs ?? mtimeMs
  } finally {
    await handle.close()
  }
}
