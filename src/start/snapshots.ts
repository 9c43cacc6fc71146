// Writes the counters of a single node to a snapshot now and then, so that the next start reads only the part of the
// journal that came after it.

import type { MemoryDeduplicator } from '../keys/memory-deduplicator.ts'
import type { Clock } from '../lib/clock.ts'
import { errorMessage } from '../lib/errors.ts'
import type { Timers } from '../lib/timers.ts'
import type { MemoryLimiter } from '../limits/own/memory-limiter.ts'
import type { OwnAlerts } from '../limits/own/own-alerts.ts'
import type { Log } from '../observe/log.ts'
import { type Disk, realDisk } from '../queue/journal/disk.ts'
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
  readonly alerts: Pick<OwnAlerts, 'dump'>
  readonly journal: Pick<Journal, 'position' | 'keysFrom'>
  readonly clock: Clock
  readonly timers: Timers
  readonly disk?: Disk
  readonly log: Pick<Log, 'error'>
  readonly intervalMs?: number
}) {
  const { directory, limiter, deduplicator, alerts, journal, clock, timers, disk = realDisk, log } = options
  const write = async (which: string): Promise<void> => {
    try {
      const snapshot = {
        writtenAtMs: clock(),
        position: journal.position(),
        keysFrom: journal.keysFrom(clock()),
        usage: limiter.dump(),
        alerts: alerts.dump(),
      }
      await writeSnapshot(directory, snapshot, disk)
    } catch (error) {
      const problem = errorMessage(error)
      log.error({ problem }, `${which} was not written; the next start will read more of the journal`)
    }
  }
  let writing: Promise<void> = Promise.resolve()
  const snapshotTimer = timers.setInterval(() => {
    writing = writing.then(() => write('the snapshot'))
  }, options.intervalMs ?? SNAPSHOT_INTERVAL_MS)
  snapshotTimer.unref()
  const sweepTimer = timers.setInterval(() => deduplicator.sweep(clock()), SWEEP_INTERVAL_MS)
  sweepTimer.unref()
  return {
    /** Writes the last snapshot. To be called once nothing is in flight. */
    stop: async (): Promise<void> => {
      timers.clear(snapshotTimer)
      timers.clear(sweepTimer)
      await writing
      await write('the last snapshot')
    },
  }
}
