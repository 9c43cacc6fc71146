// Watches how full the journal is, by its setting and by its disk, whichever leaves less room.

import { statfs } from 'node:fs/promises'
import { resolve } from 'node:path'
import { MAX_BODY_BYTES } from '../../contract/bounds.ts'
import { nearestFolder } from '../../lib/folder.ts'
import { formatBytes } from '../../lib/format.ts'
import type { OnNotice } from '../../lib/notice.ts'
import type { Timers } from '../../lib/timers.ts'
import { type Fillers, Filling } from '../filling.ts'
import { BLOCK_BYTES } from './direct-writes.ts'
import type { Journal } from './journal.ts'
import { journalDirectory, listSegments } from './segments.ts'

/** A body of the largest size as a record, whose head has less than 1 KiB, and the blocks that its commit may fill. */
export const LARGEST_COMMIT_BYTES = MAX_BODY_BYTES + 1024 + 2 * BLOCK_BYTES
export const ROOM_ADVICE = 'raise SLUICE_JOURNAL_MAX_MB or lower SLUICE_JOURNAL_KEEP_HOURS'
const MEASURE_MS = 5000

export interface JournalFillingOptions {
  readonly directory: string
  readonly maxBytes: number
  readonly fillers?: Fillers
  readonly onNotice: OnNotice
  readonly timers: Timers
  readonly freeBytes?: (directory: string) => Promise<number>
  /** The subject of its sentences, and what makes room in it. Default: those of the journal. */
  readonly store?: string
  readonly advice?: string
}

export type JournalFilling = ReturnType<typeof watchFilling>

export function watchFilling(journal: Pick<Journal, 'sizeBytes'>, options: JournalFillingOptions) {
  const { directory, maxBytes, timers, freeBytes = freeBytesOf } = options
  const { store = 'the journal', advice: roomAdvice = ROOM_ADVICE } = options
  const filling = new Filling({ ...options, store, largestBytes: LARGEST_COMMIT_BYTES })
  /** The size of the journal that would fill the disk. */
  let diskBytes = Number.POSITIVE_INFINITY
  let isMeasuring = false
  let hasRefused = false

  const advice = (): string => {
    if (diskBytes >= maxBytes) return roomAdvice
    const free = formatBytes(Math.max(0, diskBytes - journal.sizeBytes))
    return `its disk has ${free} free: make room there${roomAdvice === ROOM_ADVICE ? ' or lower SLUICE_JOURNAL_KEEP_HOURS' : ''}`
  }
  const look = (): void => filling.look(journal.sizeBytes, maxBytes, advice, diskBytes - journal.sizeBytes)
  const measure = async (): Promise<void> => {
    if (isMeasuring) return
    isMeasuring = true
    // Where the folder is gone, which the journal reports, the last answer holds.
    const free = await freeBytes(directory).catch(() => null)
    isMeasuring = false
    if (free !== null) diskBytes = journal.sizeBytes + free
    if (hasRefused) filling.noteRefusal()
    hasRefused = false
    look()
  }
  const timer = timers.setInterval(() => void measure(), MEASURE_MS)
  timer.unref()
  return {
    /** The size at which the journal is full. */
    maxBytes: (): number => Math.min(maxBytes, diskBytes),
    /** After each commit. */
    look,
    /** Asks the disk, and looks. */
    measure,
    /** The journal refused a record for want of room. */
    refused: (): void => {
      // What the disk had seconds ago is not what it refused for.
      hasRefused = !filling.isFull
      if (hasRefused) void measure()
      else filling.noteRefusal()
    },
    stop: (): void => timers.clear(timer),
  }
}

/** Of the journal in a data folder, of which neither need be there yet. */
export async function measureJournal(dataDirectory: string): Promise<{ bytes: number; freeBytes: number }> {
  const directory = journalDirectory(resolve(dataDirectory))
  const bytes = (await listSegments(directory)).reduce((sum, segment) => sum + segment.bytes, 0)
  return { bytes, freeBytes: await freeBytesOf(nearestFolder(directory)) }
}

async function freeBytesOf(directory: string): Promise<number> {
  const { bavail, bsize } = await statfs(directory)
  return bavail * bsize
}
