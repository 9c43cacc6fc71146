// The stores of a single node: files in its folder and counters in its memory. A start rebuilds the counters from the
// last snapshot and the journal's records.

import { randomBytes } from 'node:crypto'
import type { Status } from '../contract/health.ts'
import { createMemoryDeduplicator } from '../keys/memory-deduplicator.ts'
import { writeAdminAddress } from '../lib/admin-address.ts'
import { errorMessage, StartError } from '../lib/errors.ts'
import { formatBytes, formatSpan } from '../lib/format.ts'
import { acquireLock } from '../lib/lock.ts'
import type { OnNotice } from '../lib/notice.ts'
import { HOUR_MS } from '../lib/spans.ts'
import { systemTimers } from '../lib/timers.ts'
import { OwnAdmission } from '../limits/own/own-admission.ts'
import { OwnAlerts } from '../limits/own/own-alerts.ts'
import { recoverLimiter } from '../limits/own/recovered.ts'
import { noticeTo } from '../observe/log.ts'
import { damageText } from '../queue/journal/damage-text.ts'
import { openJournal } from '../queue/journal/journal.ts'
import { type JournalFilling, watchFilling } from '../queue/journal/journal-filling.ts'
import { isOfEarlierVersion, markJournal, segmentsBefore } from '../queue/journal/journal-keep.ts'
import type { Recovery } from '../queue/journal/recovery.ts'
import type { Damage } from '../queue/journal/segment-cursor.ts'
import { journalDirectory } from '../queue/journal/segments.ts'
import type { Config } from '../settings/config.ts'
import { findDemoApp, openFileApps } from './opened-apps.ts'
import { inUseText, takeOwnFolder } from './own-folder.ts'
import { keepSnapshots, type SnapshotKeeper } from './snapshots.ts'
import type { Started } from './started.ts'
import type { Stores, StoresContext } from './stores.ts'

/** There may be any number of them. */
const MAX_DAMAGES_LOGGED = 10

export async function openEmbeddedStores(config: Config, context: StoresContext, started: Started): Promise<Stores> {
  const { clock, log } = context
  const { dataDirectory, appsFile, appsFileNamed } = config
  started.add(await lockFolder(dataDirectory, noticeTo(log, 'node')))
  started.add(await announceAdmin(dataDirectory, context))
  if (appsFile === null) throw new Error('app records live in a file where there is no NATS')
  const apps = await openFileApps(appsFile, appsFileNamed, context)
  started.add(() => apps.stop())
  const deduplicator = createMemoryDeduplicator({ maxKeys: config.maxKeys, seed: randomBytes(4).readUInt32LE() })
  const { limiter, recovery } = await recoverLimiter({
    dataDirectory,
    nowMs: clock(),
    apps: apps.all(),
    onKey: (batchId, events, receivedAtMs) => deduplicator.restore(batchId, events, receivedAtMs),
    onDamage: damageLogger(context),
  })
  const { queue, filling, keepMs } = await openJournalQueue(config, context, recovery)
  started.add(() => filling.stop())
  let snapshots: SnapshotKeeper | null = null
  started.add(async () => {
    // The last snapshot comes after the flush, so that it covers every record of the journal.
    try {
      await queue.stop()
    } finally {
      await snapshots?.stop()
    }
  })
  const alerts = new OwnAlerts({
    limiter,
    apps,
    timers: { ...systemTimers, nowMs: clock },
    onAlert: context.onAlert,
    onNotice: noticeTo(log, 'alerts'),
    dumped: recovery.alerts,
  })
  started.add(() => alerts.stop())
  snapshots = keepSnapshots({
    alerts,
    directory: dataDirectory,
    limiter,
    deduplicator,
    journal: queue,
    clock,
    timers: systemTimers,
    log,
    ...(context.snapshotIntervalMs === undefined ? {} : { intervalMs: context.snapshotIntervalMs }),
  })
  return {
    apps,
    admission: new OwnAdmission({ limiter, deduplicator, clock: context.turnClock.nowMs }),
    nodes: () => 1,
    queue,
    alerts: async (appId) => alerts.read(appId),
    demoApp: appsFileNamed ? null : (findDemoApp(apps) ?? null),
    gauges: {
      keysRemembered: () => deduplicator.size,
      keysMax: () => config.maxKeys,
      badAppRecordsNow: () => Number(apps.status.state === 'error'),
      journalBytes: () => queue.sizeBytes,
      journalMaxBytes: filling.maxBytes,
      journalKeepSeconds: () => (keepMs === null ? null : keepMs / 1000),
    },
    isReady: () => true,
    reread: () => apps.reread(),
    parts: () => [
      { part: 'queue', kind: 'journal', ...withDamage(queue.status, context.metrics.journalDamage) },
      { part: 'limits', kind: 'memory', state: 'ok', reason: null },
      { part: 'apps', kind: 'file', ...apps.status },
    ],
  }
}

async function lockFolder(directory: string, onNotice: OnNotice): Promise<() => Promise<void>> {
  await takeOwnFolder({ setting: 'SLUICE_DATA_DIR', directory, mode: 0o750, onNotice })
  const lock = await acquireLock(directory)
  if ('held' in lock) throw new StartError(inUseText(directory, 'SLUICE_DATA_DIR'))
  return () => lock.release()
}

/** Lets commands know where to ask. They work without it. */
async function announceAdmin(directory: string, { log, adminAddress }: StoresContext): Promise<() => Promise<void>> {
  try {
    if (adminAddress !== undefined) return await writeAdminAddress(directory, adminAddress)
  } catch (error) {
    log.warn(
      { problem: errorMessage(error) },
      'commands such as sluice usage need SLUICE_ADMIN_PORT: the address of the admin port could not be written into the data folder',
    )
  }
  return async () => {}
}

async function openJournalQueue(config: Config, context: StoresContext, recovery: Recovery) {
  const { clock, log, metrics } = context
  const { journalMaxBytes: maxBytes } = config
  const directory = journalDirectory(config.dataDirectory)
  const onNotice = noticeTo(log, 'journal')
  if (recovery.snapshotProblem !== null)
    log.warn({ problem: recovery.snapshotProblem }, 'snapshot.json was not used; the whole journal was read instead')
  const keepMs = await keepMsOf(directory, config, context)
  const queue = await openJournal({
    directory,
    maxBytes,
    keepHours: keepMs === null ? null : keepMs / HOUR_MS,
    isKeepNamed: config.journalKeepNamed,
    keysFrom: recovery.keysFrom,
    resumeAfter: recovery.resumeAfter,
    clock,
    onNotice,
    onCommit: (records) => {
      metrics.publishRecords.observe(records)
      filling.look()
    },
    onNoRoom: () => filling.refused(),
    onDamage: (kind) => void (metrics.journalDamage[kind] += 1),
  })
  const filling: JournalFilling = watchFilling(queue, {
    directory,
    maxBytes,
    fillers: context.bytes,
    onNotice,
    timers: systemTimers,
  })
  await filling.measure()
  if (queue.cutBytes > 0) {
    const removed = `removed an incomplete last record, ${queue.cutBytes} bytes: its client was never answered 202`
    log.warn({ cut_bytes: queue.cutBytes }, removed)
  }
  log.info(
    { records: recovery.counted, keys: recovery.keys, bytes: recovery.bytes },
    'journal read; records counts those after the last snapshot',
  )
  return { queue, filling, keepMs }
}

/** null: segments stay whatever their age. */
async function keepMsOf(directory: string, config: Config, context: StoresContext): Promise<number | null> {
  const { journalKeepMs, journalKeepNamed } = config
  try {
    const isKept = await isOfEarlierVersion(directory)
    if (!isKept) await markJournal(directory)
    if (!isKept || journalKeepNamed) return journalKeepMs
    await warnOfKept(directory, journalKeepMs ?? 0, context)
  } catch (error) {
    if (journalKeepNamed) return journalKeepMs
    context.log.warn(
      { problem: errorMessage(error) },
      'all of this journal is kept until SLUICE_JOURNAL_KEEP_HOURS is set: journal/removes-old-segments cannot be made',
    )
  }
  return null
}

/** At each start until the operator has chosen. */
async function warnOfKept(directory: string, keepMs: number, { clock, log }: StoresContext): Promise<void> {
  const { count, bytes, oldestAtMs } = await segmentsBefore(directory, clock() - keepMs)
  const hours = keepMs / HOUR_MS
  const old = `${count} segments (${formatBytes(bytes)}, up to ${formatSpan(clock() - oldestAtMs)} old)`
  log.warn(
    { segments: count, bytes },
    `an earlier version made this journal, so all of it is kept: ${hours} hours, the default of new folders, would remove ` +
      `${count === 0 ? 'nothing yet' : old}. Choose with SLUICE_JOURNAL_KEEP_HOURS=${hours} or SLUICE_JOURNAL_KEEP_HOURS=all`,
  )
}

/** Damage changes nothing for a client: what is refused comes first. */
export function withDamage(status: Status<'journal'>, damage: Readonly<Record<string, number>>): Status<'journal'> {
  const places = Object.values(damage).reduce((sum, count) => sum + count, 0)
  if (places === 0 || status.state !== 'ok') return status
  return { state: 'warn', reason: `${places} damaged ${places === 1 ? 'place' : 'places'} found since the start` }
}

function damageLogger({ log, metrics }: StoresContext): (damage: Damage) => void {
  let found = 0
  return (damage) => {
    metrics.journalDamage[damage.kind] += 1
    if (++found > MAX_DAMAGES_LOGGED) return
    const { path, offset, length } = damage
    const more = found === MAX_DAMAGES_LOGGED ? '; further damage is not logged: sluice verify lists all' : ''
    log.error({ path, offset, length }, `${damageText(damage)}${more}`)
  }
}
