// The journal's files: how segments are named, listed, created, and freed of the torn line a crash leaves.

import { constants } from 'node:fs'
import { type FileHandle, mkdir, open, readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { parseRecordHead } from '../record/record-head.ts'

/** A place in the journal: a byte within a numbered segment. Always the start of a line. */
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
/** What a name can hold. */
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

/** Every segment, oldest first; files with other names are none of ours. An absent folder holds none. */
export async function listSegments(directory: string): Promise<Segment[]> {
  const names = await readdir(directory).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return []
    throw error
  })
  const segments: Segment[] = []
  for (const name of names) {
    const match = SEGMENT_NAME.exec(name)
    if (match === null) continue
    const path = join(directory, name)
    // A segment may be removed between the listing and this look at it.
    const status = await stat(path).catch(() => null)
    if (status?.isFile()) segments.push({ number: Number(match[1]), path, bytes: status.size })
  }
  return segments.sort((left, right) => left.number - right.number)
}

/**
 * Flags of a segment's descriptor. O_DSYNC makes a write return only once it is on disk: against a write and then an
 * fdatasync it saves one trip through the thread pool, a quarter of a small commit's CPU. Only Linux is trusted with
 * it; elsewhere a commit ends with fdatasync, which on macOS also empties the drive's cache.
 */
export const WRITES_ARE_SYNCED = process.platform === 'linux'
const APPEND_FLAGS = constants.O_WRONLY | constants.O_APPEND | (WRITES_ARE_SYNCED ? constants.O_DSYNC : 0)

/** Creates a segment that did not exist, and makes its name durable before the first record goes into it. */
export async function createSegment(directory: string, number: number): Promise<FileHandle> {
  const handle = await open(segmentPath(directory, number), APPEND_FLAGS | constants.O_CREAT | constants.O_EXCL, 0o640)
  try {
    await handle.sync()
    await syncDirectory(directory)
  } catch (error) {
    await handle.close()
    throw error
  }
  return handle
}

/** Opens a segment to go on with. What an earlier process wrote there but had not synced is synced first. */
export async function reopenSegment(path: string): Promise<FileHandle> {
  const handle = await open(path, APPEND_FLAGS)
  await handle.sync()
  return handle
}

export async function createDirectory(directory: string): Promise<void> {
  const first = await mkdir(directory, { recursive: true })
  if (first !== undefined) await syncDirectory(join(directory, '..'))
}

/** A file's name is durable only once its folder is synced. Windows cannot, and does not need to. */
export async function syncDirectory(directory: string): Promise<void> {
  if (process.platform === 'win32') return
  const handle = await open(directory, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/** Cuts what follows the last newline; returns what is left and what went. */
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

/** When the last record of a segment was received, Unix ms; the file's own time where that line is not a record. */
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
