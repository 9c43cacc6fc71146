// The stores of a single node: files in its folder and counters in its memory. A start rebuilds the counters from the
// last snapshot and the journal's records.

import { randomBytes } from 'node:crypto'
import { createMemoryDeduplicator } from '../keys/memory-deduplicator.ts'
import { errorMessage, StartError } from '../lib/errors.ts'
import { makeFolder } from '../lib/folder.ts'
import { acquireLock } from '../lib/lock.ts'
import { OwnAdmission } from '../limits/own/own-admission.ts'
import { type Log, noticeTo } from '../observe/log.ts'
import { type Journal, openJournal } from '../queue/journal/journal.ts'
import type { Recovery } from '../queue/journal/recovery.ts'
import { journalDirectory } from '../queue/journal/segments.ts'
import type { Config } from '../settings/config.ts'
import { findDemoApp, openFileApps } from './opened-apps.ts'
import { recoverLimiter } from './recovered.ts'
import { keepSnapshots, type SnapshotKeeper } from './snapshots.ts'
import type { Started } from './started.ts'
import type { Stores, StoresContext } from './stores.ts'

/** A damaged journal may hold any number of corrupt lines. */
const MAX_CORRUPT_LINES_LOGGED = 10
const HOUR_MS = 3_600_000

export async function openEmbeddedStores(config: Config, context: StoresContext, started: Started): Promise<Stores> {
  const { clock, log } = context
  const { dataDirectory, appsFile, appsFileNamed } = config
  started.add(await lockFolder(dataDirectory))
  if (appsFile === null) throw new Error('app records live in a file where there is no NATS')
  const apps = await openFileApps(appsFile, appsFileNamed, context)
  started.add(() => apps.stop())
  const deduplicator = createMemoryDeduplicator({ maxKeys: config.maxKeys, seed: randomBytes(4).readUInt32LE() })
  const { limiter, recovery } = await recoverLimiter({
    dataDirectory,
    nowMs: clock(),
    apps: apps.all(),
    onKey: (batchId, events, receivedAtMs) => deduplicator.restore(batchId, events, receivedAtMs),
    onCorrupt: corruptLineLogger(log),
  })
  const queue = await openJournalQueue(config, context, recovery)
  let snapshots: SnapshotKeeper | null = null
  started.add(async () => {
    // The last snapshot comes after the flush, so that it covers every record of the journal.
    try {
      await queue.stop()
    } finally {
      await snapshots?.stop()
    }
  })
  snapshots = keepSnapshots({
    directory: dataDirectory,
    limiter,
    deduplicator,
    journal: queue,
    clock,
    log,
    ...(context.snapshotIntervalMs === undefined ? {} : { intervalMs: context.snapshotIntervalMs }),
  })
  return {
    apps,
    admission: new OwnAdmission({ limiter, deduplicator, clock }),
    queue,
    demoApp: appsFileNamed ? null : (findDemoApp(apps) ?? null),
    gauges: {
      keysRemembered: () => deduplicator.size,
      keysMax: () => config.maxKeys,
      journalBytes: () => queue.sizeBytes,
      journalMaxBytes: () => config.journalMaxBytes,
    },
    isReady: () => true,
    parts: () => ({ queue: `journal ${queue.state}`, limits: 'memory', apps: 'file' }),
  }
}

async function lockFolder(directory: string): Promise<() => Promise<void>> {
  try {
    makeFolder(directory, 0o750)
  } catch (error) {
    throw new StartError(`SLUICE_DATA_DIR: cannot make ${directory}: ${errorMessage(error)}`)
  }
  const lock = await acquireLock(directory)
  if ('held' in lock) throw new StartError(`${directory} is in use: another sluice process works in this folder`)
  return () => lock.release()
}

async function openJournalQueue(config: Config, context: StoresContext, recovery: Recovery): Promise<Journal> {
  const { clock, log, metrics } = context
  if (recovery.snapshotProblem !== null)
    log.warn({ problem: recovery.snapshotProblem }, 'snapshot.json was not used; the whole journal was read instead')
  const journal = await openJournal({
    directory: journalDirectory(config.dataDirectory),
    maxBytes: config.journalMaxBytes,
    keepHours: config.journalKeepMs === null ? null : config.journalKeepMs / HOUR_MS,
    keysFrom: recovery.keysFrom,
    resumeAfter: recovery.resumeAfter,
    clock,
    onNotice: noticeTo(log, 'journal'),
    onCommit: (records) => metrics.publishRecords.observe(records),
  })
  if (journal.cutBytes > 0) log.warn({ cut_bytes: journal.cutBytes }, 'a torn last line was cut from the journal')
  log.info(
    { records: recovery.counted, keys: recovery.keys, bytes: recovery.bytes },
    'journal read; records counts those after the last snapshot',
  )
  return journal
}

function corruptLineLogger(log: Log): (path: string, offset: number) => void {
  let found = 0
  return (path, offset) => {
    if (++found > MAX_CORRUPT_LINES_LOGGED) return
    const more = found === MAX_CORRUPT_LINES_LOGGED ? '; further corrupt lines are not logged' : ''
    log.error({ path, offset }, `a line of the journal is not a record and was skipped${more}`)
  }
}
