// Writes the counters of a single node to a snapshot now and then, so that the next start reads only the part of the
// journal that came after it.

import type { MemoryDeduplicator } from '../keys/memory-deduplicator.ts'
import type { Clock } from '../lib/clock.ts'
import { errorMessage } from '../lib/errors.ts'
import type { MemoryLimiter } from '../limits/own/memory-limiter.ts'
import type { Log } from '../observe/log.ts'
import type { Journal } from '../queue/journal/journal.ts'
import { writeSnapshot } from '../queue/journal/snapshot.ts'

/** A start reads at most this much of the journal, besides the last 300 s of keys. */
const SNAPSHOT_INTERVAL_MS = 30_000
/** Between sweeps of expired keys. */
const SWEEP_INTERVAL_MS = 1000

export type SnapshotKeeper = ReturnType<typeof keepSnapshots>

/** Writes snapshots of the limits and sweeps expired keys until it is stopped. */
export function keepSnapshots(options: {
  readonly directory: string
  readonly limiter: MemoryLimiter
  readonly deduplicator: MemoryDeduplicator
  readonly journal: Pick<Journal, 'position' | 'keysFrom'>
  readonly clock: Clock
  readonly log: Log
  readonly intervalMs?: number
}) {
  const { directory, limiter, deduplicator, journal, clock, log } = options
  const write = async (which: string): Promise<void> => {
    try {
      await writeSnapshot(directory, {
        writtenAtMs: clock(),
        position: journal.position(),
        keysFrom: journal.keysFrom(clock()),
        usage: limiter.dump(),
      })
    } catch (error) {
      const problem = errorMessage(error)
      log.error({ problem }, `${which} was not written; the next start will read more of the journal`)
    }
  }
  let writing: Promise<void> = Promise.resolve()
  const snapshotTimer = setInterval(() => {
    writing = writing.then(() => write('the snapshot'))
  }, options.intervalMs ?? SNAPSHOT_INTERVAL_MS)
  snapshotTimer.unref()
  const sweepTimer = setInterval(() => deduplicator.sweep(clock()), SWEEP_INTERVAL_MS)
  sweepTimer.unref()
  return {
    /** Writes the last snapshot. To be called once nothing is in flight. */
    stop: async (): Promise<void> => {
      clearInterval(snapshotTimer)
      clearInterval(sweepTimer)
      await writing
      await write('the last snapshot')
    },
  }
}
