// The limits and keys of a single node, counted in its memory. A start brings them back from the journal's own records;
// a snapshot keeps what was counted, so that the next start reads only what came after it.

import { randomBytes } from 'node:crypto'
import { createMemoryDeduplicator, type MemoryDeduplicator } from '../keys/memory-deduplicator.ts'
import type { Clock } from '../lib/clock.ts'
import { errorMessage } from '../lib/errors.ts'
import type { MemoryLimiter } from '../limits/own/memory-limiter.ts'
import type { Log } from '../observe/log.ts'
import type { Journal } from '../queue/journal/journal.ts'
import { writeSnapshot } from '../queue/journal/snapshot.ts'

/** Between snapshots: what a start reads of the journal at the most, besides the last 300 s of keys. */
const SNAPSHOT_INTERVAL_MS = 30_000
/** Between sweeps of keys whose 300 s are over. */
const SWEEP_INTERVAL_MS = 1000

export function createDeduplicator(maxKeys: number): MemoryDeduplicator {
  return createMemoryDeduplicator({ maxKeys, seed: randomBytes(4).readUInt32LE() })
}

export interface SnapshotKeeper {
  /** Writes the last one. To be called once nothing is in flight. */
  stop(): Promise<void>
}

/** Forgets keys that are over, and writes snapshots of the limits until it is stopped. */
export function keepSnapshots(options: {
  readonly directory: string
  readonly limiter: MemoryLimiter
  readonly deduplicator: MemoryDeduplicator
  readonly journal: Pick<Journal, 'position' | 'keysFrom'>
  readonly clock: Clock
  readonly log: Log
  readonly intervalMs?: number
}): SnapshotKeeper {
  const { directory, limiter, deduplicator, journal, clock, log } = options
  const snapshot = () =>
    writeSnapshot(directory, {
      writtenAtMs: clock(),
      position: journal.position(),
      keysFrom: journal.keysFrom(clock()),
      usage: limiter.dump(),
    })
  let writing: Promise<void> = Promise.resolve()
  const snapshotTimer = setInterval(() => {
    writing = writing.then(snapshot).catch((error: unknown) => {
      log.error(
        { problem: errorMessage(error) },
        'the snapshot was not written; the next start reads more of the journal',
      )
    })
  }, options.intervalMs ?? SNAPSHOT_INTERVAL_MS)
  snapshotTimer.unref()
  const sweepTimer = setInterval(() => deduplicator.sweep(clock()), SWEEP_INTERVAL_MS)
  sweepTimer.unref()
  return {
    stop: async () => {
      clearInterval(snapshotTimer)
      clearInterval(sweepTimer)
      await writing
      await snapshot().catch((error: unknown) => log.error({ problem: errorMessage(error) }, 'no last snapshot'))
    },
  }
}
