// How long segments are kept where SLUICE_JOURNAL_KEEP_HOURS is not set: for the default time in a journal that was made
// under it, and for good in one of an earlier version, whose operator never asked for a removal.

import { existsSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Clock } from '../../lib/clock.ts'
import { makeFolder, syncFolder } from '../../lib/folder.ts'
import { formatSpan } from '../../lib/format.ts'
import type { OnNotice } from '../../lib/notice.ts'
import type { Timers } from '../../lib/timers.ts'
import { type Disk, realDisk } from './disk.ts'
import { lastRecordTimeMs, listSegments } from './segments.ts'

/** Beside the segments, so that it goes where they go. Versions that do not know it leave it there. */
const MARKER_NAME = 'removes-old-segments'

/** Whether it has records and no mark: a version made it that removed nothing. */
export async function isOfEarlierVersion(directory: string): Promise<boolean> {
  if (existsSync(join(directory, MARKER_NAME))) return false
  return (await listSegments(directory)).some(({ bytes }) => bytes > 0)
}

/** Before the first record of a new journal. The file is empty, so that it can be made on a full disk too. */
export async function markJournal(directory: string): Promise<void> {
  const path = join(directory, MARKER_NAME)
  if (existsSync(path)) return
  await makeFolder(directory)
  await writeFile(path, '', { flag: 'wx', flush: true })
  await syncFolder(directory)
}

const START_HOLD_MS = 3_600_000
/** So much more than passed on the monotonic clock. */
const JUMP_MS = 60_000

/**
 * How long no segment goes after a start where all of the journal is too old: the clock may be wrong, or readers were
 * stopped as long as the service. 0 where a record is younger.
 */
export async function startHoldMs(directory: string, oldestKeptMs: number, disk: Disk = realDisk): Promise<number> {
  const newest = (await listSegments(directory, disk)).findLast(({ bytes }) => bytes > 0)
  if (newest === undefined) return 0
  return (await lastRecordTimeMs(newest.path, disk)) < oldestKeptMs ? START_HOLD_MS : 0
}

export interface Removal {
  readonly keepMs: number
  /** After the start. */
  readonly holdMs: number
  readonly clock: Clock
  readonly timers: Pick<Timers, 'monotonicMs'>
  readonly onNotice: OnNotice
}

/** Returns what gives the time before which segments may go: none for `holdMs`, and none for a clock that jumped ahead. */
export function removalTime({ keepMs, holdMs, clock, timers, onNotice }: Removal): () => number {
  const startedMs = timers.monotonicMs()
  let seenOffsetMs = clock() - startedMs
  let offsetMs = seenOffsetMs
  let heldUntilMs = startedMs
  return (): number => {
    const atMs = timers.monotonicMs()
    const jumpMs = clock() - atMs - seenOffsetMs
    seenOffsetMs += jumpMs
    if (jumpMs > JUMP_MS && keepMs < Infinity) {
      heldUntilMs = atMs + keepMs
      const until = new Date(clock() + keepMs).toISOString()
      onNotice(
        `the clock jumped ahead by ${formatSpan(jumpMs)}: by it no segment of the journal is removed until ${until}, since none is so old: set it right if it is wrong`,
      )
    }
    if (seenOffsetMs < offsetMs || atMs >= heldUntilMs) offsetMs = seenOffsetMs
    return atMs - startedMs < holdMs ? Number.NEGATIVE_INFINITY : atMs + offsetMs - keepMs
  }
}

/**
 * The segments that would be removed, as the journal's sweep does: in order, and never the last one. `oldestAtMs`: when
 * the last record of the first one was received.
 */
export async function segmentsBefore(directory: string, timeMs: number) {
  const old = { count: 0, bytes: 0, oldestAtMs: timeMs }
  for (const { path, bytes } of (await listSegments(directory)).slice(0, -1)) {
    const atMs = await lastRecordTimeMs(path)
    if (atMs >= timeMs) break
    if (old.count === 0) old.oldestAtMs = atMs
    old.count += 1
    old.bytes += bytes
  }
  return old
}
