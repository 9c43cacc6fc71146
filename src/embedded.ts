// One machine's stores: everything that Redis and NATS do for a cluster, done here by a folder. Opens them in the
// order in which they rely on each other, brings back what the last process knew, and keeps snapshots of it.

import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import type { App, AppStore } from './admit/app.ts'
import { demoAppRecords, openAppsFile, writeAppRecords } from './admit/apps-file.ts'
import type { Deduplicator } from './admit/deduplicator.ts'
import type { Limiter } from './admit/limiter.ts'
import { createMemoryDeduplicator } from './admit/memory-deduplicator.ts'
import type { Config } from './config.ts'
import type { Clock } from './lib/clock.ts'
import { errorMessage, StartError } from './lib/errors.ts'
import { makeFolder } from './lib/folder.ts'
import { acquireLock } from './lib/lock.ts'
import type { Log } from './observe/log.ts'
import type { Metrics } from './observe/metrics.ts'
import { openJournal } from './queue/journal.ts'
import type { EventQueue } from './queue/queue.ts'
import { journalDirectory } from './queue/segments.ts'
import { writeSnapshot } from './queue/snapshot.ts'
import { recoverLimiter } from './recovered.ts'

/** Between snapshots: what a start reads of the journal at the most, besides the last 300 s of keys. */
const SNAPSHOT_INTERVAL_MS = 30_000
/** Between sweeps of keys whose 300 s are over. */
const SWEEP_INTERVAL_MS = 1000
/** A spoilt journal may hold any number of them. */
const MAX_CORRUPT_LINES_LOGGED = 10
const HOUR_MS = 3_600_000

export interface Stores {
  readonly apps: AppStore
  readonly limiter: Limiter
  readonly deduplicator: Deduplicator
  readonly queue: EventQueue
  /** The app that a first start made for trying things out; null: there is none. */
  readonly demoApp: App | null
  readonly keysRemembered: () => number
  readonly journalBytes: () => number
  /** What each part says of itself, for /readyz?verbose. */
  readonly parts: () => Record<string, string>
  /** Settles what is in hand, keeps it, and lets the folder go. */
  stop(): Promise<void>
}

export interface StoresContext {
  readonly log: Log
  readonly clock: Clock
  readonly metrics: Metrics
  readonly snapshotIntervalMs?: number
}

/** Throws a StartError that says what to mend. */
export async function openEmbeddedStores(
  config: Config,
  { log, clock, metrics, snapshotIntervalMs = SNAPSHOT_INTERVAL_MS }: StoresContext,
): Promise<Stores> {
  const { dataDirectory } = config
  makeDataDirectory(dataDirectory)
  const lock = await acquireLock(dataDirectory)
  if ('held' in lock) throw new StartError(`${dataDirectory} is in use: another sluice process works in this folder`)
  // From here on a failed start must let the folder go again.
  const opened: (() => unknown)[] = [() => lock.release()]
  const undo = async () => {
    for (const close of opened.reverse()) await close()
  }
  try {
    const apps = openApps(config, log, metrics)
    opened.push(() => apps.stop())
    const deduplicator = createMemoryDeduplicator({ maxKeys: config.maxKeys, seed: randomBytes(4).readUInt32LE() })
    let corruptLines = 0
    const { limiter, recovery } = await recoverLimiter({
      dataDirectory,
      nowMs: clock(),
      apps: apps.all(),
      onKey: (batchId, events, receivedAtMs) => deduplicator.restore(batchId, events, receivedAtMs),
      onCorrupt: (path, offset) => {
        if (++corruptLines > MAX_CORRUPT_LINES_LOGGED) return
        log.error({ path, offset }, 'a line of the journal is not a record; it is left out')
      },
    })
    if (corruptLines > 0) log.error({ lines: corruptLines }, 'lines of the journal were left out')
    if (recovery.snapshotProblem !== null)
      log.warn({ problem: recovery.snapshotProblem }, 'snapshot.json was not used; the whole journal was read instead')
    const journal = await openJournal({
      directory: journalDirectory(dataDirectory),
      maxBytes: config.journalMaxBytes,
      keepHours: config.journalKeepMs === null ? null : config.journalKeepMs / HOUR_MS,
      keysFrom: recovery.keysFrom,
      resumeAfter: recovery.resumeAfter,
      clock,
      onNotice: (message) => log.warn({ part: 'journal' }, message),
      onCommit: (records) => metrics.publishRecords.observe(records),
    })
    if (journal.cutBytes > 0) log.warn({ cut_bytes: journal.cutBytes }, 'a torn last line was cut from the journal')
    log.info({ records: recovery.counted, keys: recovery.keys, bytes: recovery.bytes }, 'journal read')

    const snapshot = () =>
      writeSnapshot(dataDirectory, {
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
    }, snapshotIntervalMs)
    snapshotTimer.unref()
    const sweepTimer = setInterval(() => deduplicator.sweep(clock()), SWEEP_INTERVAL_MS)
    sweepTimer.unref()

    return {
      apps,
      limiter,
      deduplicator,
      queue: journal,
      demoApp: config.appsFileNamed ? null : (findDemoApp(apps) ?? null),
      keysRemembered: () => deduplicator.size,
      journalBytes: () => journal.sizeBytes,
      parts: () => ({ queue: `journal ${journal.state}`, limits: 'memory', apps: 'file' }),
      stop: async () => {
        clearInterval(snapshotTimer)
        clearInterval(sweepTimer)
        await journal.stop()
        await writing
        await snapshot().catch((error: unknown) => log.error({ problem: errorMessage(error) }, 'no last snapshot'))
        await undo()
      },
    }
  } catch (error) {
    await undo()
    throw error instanceof StartError ? error : new StartError(errorMessage(error))
  }
}

function makeDataDirectory(directory: string): void {
  try {
    makeFolder(directory, 0o750)
  } catch (error) {
    throw new StartError(`SLUICE_DATA_DIR: cannot make ${directory}: ${errorMessage(error)}`)
  }
}

/** A file that the operator named must be there; the one of a first start is made, with one app to try things out. */
function openApps(config: Config, log: Log, metrics: Metrics): AppStore {
  const path = config.appsFile
  if (path === null) throw new StartError('SLUICE_APPS_FILE: no app file')
  if (!existsSync(path) && !config.appsFileNamed) {
    writeAppRecords(path, demoAppRecords(randomBytes(6).toString('hex')))
    log.info({ path }, 'made an app file with a demo app')
  }
  return openAppsFile({
    path,
    onReload: (count) => log.info({ path, apps: count }, 'app file read again'),
    onBadFile: (reasons) => {
      metrics.appsReloadFailures++
      log.error({ path, reasons }, 'the app file cannot be used; the last good one stays in force')
    },
  })
}

function findDemoApp(apps: AppStore): App | undefined {
  for (const app of apps.all()) if (app.appId === 'demo' && app.appKey.startsWith('ak_demo_')) return app
  return undefined
}
