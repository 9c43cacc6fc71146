// Reads what lies beside a segment. A file that is missing is an empty one, and so is one that cannot be
// read, which is named: a folder, a pipe or the like, or one that the disk or its rights keep back.

import type { Crc32c } from '../../lib/crc32c.ts'
import { errorCode, errorMessage } from '../../lib/errors.ts'
import { NO_REGULAR_FILE } from '../../lib/regular-file.ts'
import { type Disk, type DiskFile, realDisk } from './disk.ts'
import { type Commit, commitsPath, type IdsLine, idsPath, linesIn, readCommitLine, readIdsLine } from './side-files.ts'

/** Its last lines are in so many bytes. */
const TAIL_BYTES = 4096
/** Some 1,500 commits at a time, between which others have their turn: a segment has up to 200,000. */
const COMMITS_BYTES = 64 * 1024

/** Called with the path of a file beside a segment that cannot be read, and why. */
export type OnUnread = (path: string, reason: string) => void

/** In the order of their offsets, and none over another. */
export async function readCommits(
  path: string,
  checks: Crc32c,
  disk: Disk = realDisk,
  onUnread: OnUnread = () => {},
): Promise<readonly Commit[]> {
  const byOffset = new Map<number, Commit>()
  let last = 0
  let isSorted = true
  const look = (start: number, end: number): void => {
    const commit = readCommitLine(checks, start, end)
    if (commit === null) return
    isSorted &&= commit.offset >= last
    last = commit.offset
    byOffset.set(commit.offset, commit)
  }
  await readSideFile(commitsPath(path), checks, { disk, onUnread, pieceBytes: COMMITS_BYTES }, look)
  const commits = [...byOffset.values()]
  if (!isSorted) commits.sort((one, other) => one.offset - other.offset)
  let end = 0
  return commits.filter((commit) => {
    if (commit.offset < end) return false
    end = endOf(commit)
    return true
  })
}

/** The end of the last commit that has a line: all before it was durable. 0: none has. */
export async function committedEnd(path: string, checks: Crc32c, disk: Disk = realDisk): Promise<number> {
  let end = 0
  const look = (start: number, stop: number): void => {
    const commit = readCommitLine(checks, start, stop)
    if (commit !== null) end = Math.max(end, endOf(commit))
  }
  await readSideFile(commitsPath(path), checks, { disk, tailBytes: TAIL_BYTES }, look)
  if (end === 0) await readSideFile(commitsPath(path), checks, { disk }, look)
  return end
}

/** The largest end in the lines of ids, each of which was written after its records were durable. 0: there is none. */
export async function idsEnd(path: string, checks: Crc32c, options: SideReadOptions = {}): Promise<number> {
  let end = 0
  await readIds(path, checks, (line) => void (end = Math.max(end, line.end)), options)
  return end
}

/** Passes each line that fits its check. */
export async function readIds(
  path: string,
  checks: Crc32c,
  onLine: (line: IdsLine) => void,
  options: SideReadOptions = {},
): Promise<void> {
  await readSideFile(idsPath(path), checks, options, (start, end) => {
    const line = readIdsLine(checks, start, end)
    if (line !== null) onLine(line)
  })
}

export function endOf({ offset, length }: Commit): number {
  return offset + length
}

interface SideReadOptions {
  readonly disk?: Disk
  readonly onUnread?: OnUnread
  /** Only the lines in the last of them. */
  readonly tailBytes?: number
  /** Read at a time; absent: what fits the memory of the checks. */
  readonly pieceBytes?: number
}

async function readSideFile(
  path: string,
  { bytes }: Crc32c,
  {
    disk = realDisk,
    onUnread = () => {},
    tailBytes = Number.POSITIVE_INFINITY,
    pieceBytes = bytes.length,
  }: SideReadOptions,
  onLine: (start: number, end: number) => void,
): Promise<void> {
  let file: DiskFile | null = null
  try {
    file = await disk.open(path, 'beside')
    const { size } = await file.stat()
    let at = Math.max(0, size - tailBytes)
    for (;;) {
      const { bytesRead } = await file.read(bytes, 0, pieceBytes, at)
      const rest = linesIn(bytes, bytesRead, onLine)
      if (bytesRead < pieceBytes) return
      // A line without an end is none.
      at += rest === 0 ? bytesRead : rest
    }
  } catch (error) {
    const code = errorCode(error)
    // Where `onLine` throws there is no code.
    if (code === undefined) throw error
    if (code !== 'ENOENT') onUnread(path, code === NO_REGULAR_FILE ? 'it is no regular file' : errorMessage(error))
  } finally {
    await file?.close()
  }
}
