// Opens what a request needs behind its four seams, apps, limits, keys and queue: all of them in the folder of this
// machine, or shared with other nodes through Redis and NATS. Parts open in the order in which they rely on each other.

import { randomBytes } from 'node:crypto'
import type { App, AppStore } from '../apps/app.ts'
import type { AuditState } from '../audit/auditor.ts'
import { startAudit } from '../audit/start-audit.ts'
import type { Clock } from '../lib/clock.ts'
import { errorMessage, StartError } from '../lib/errors.ts'
import { makeFolder } from '../lib/folder.ts'
import { acquireLock } from '../lib/lock.ts'
import { systemTimers } from '../lib/timers.ts'
import type { Admission } from '../limits/admission.ts'
import { OwnAdmission } from '../limits/own/own-admission.ts'
import { SharedAdmission } from '../limits/shared/shared-admission.ts'
import { type Log, noticeTo } from '../observe/log.ts'
import type { AuditSample, Metrics, Sampler, StreamSample } from '../observe/metrics.ts'
import { Journal, openJournal } from '../queue/journal/journal.ts'
import type { Recovery } from '../queue/journal/recovery.ts'
import { journalDirectory } from '../queue/journal/segments.ts'
import type { EventQueue } from '../queue/queue.ts'
import { type JetStreamQueue, openJetStreamQueue } from '../queue/stream/publisher.ts'
import { openRedis, type RedisConnection, untilUp } from '../redis/connection.ts'
import type { Config } from '../settings/config.ts'
import { createDeduplicator, keepSnapshots } from './embedded.ts'
import { findDemoApp, openFileApps, openSharedApps } from './opened-apps.ts'
import { recoverLimiter } from './recovered.ts'

/** A spoilt journal may hold any number of them. */
const MAX_CORRUPT_LINES_LOGGED = 10
const HOUR_MS = 3_600_000
/** So long a start waits for Redis; past that it serves without. */
const REDIS_START_MS = 2000
const NODE_ID_BYTES = 6

export interface Stores {
  readonly apps: AppStore
  readonly admission: Admission
  readonly queue: EventQueue
  /** The app that a first start made for trying things out; null: there is none. */
  readonly demoApp: App | null
  readonly gauges: Sampler
  /** Everything that is shared has been reached once. */
  readonly isReady: () => boolean
  /** What each part says of itself, for /readyz?verbose. */
  readonly parts: () => Record<string, string>
  /** Settles what is in hand, keeps it, and lets everything go. */
  stop(): Promise<void>
}

export interface StoresContext {
  readonly log: Log
  readonly clock: Clock
  readonly metrics: Metrics
  readonly snapshotIntervalMs?: number
}

/** What is opened goes here with what closes it, and closes in reverse. */
type OnStop = (stop: () => unknown) => void

/** Throws a StartError that says what to mend. Redis and NATS may be away, and are waited for while serving. */
export async function openStores(config: Config, context: StoresContext): Promise<Stores> {
  const stops: (() => unknown)[] = []
  const stop = async () => {
    for (const next of stops.splice(0).reverse()) await next()
  }
  try {
    return { ...(await open(config, context, (next) => void stops.push(next))), stop }
  } catch (error) {
    await stop()
    throw error instanceof StartError ? error : new StartError(errorMessage(error))
  }
}

function open(config: Config, context: StoresContext, onStop: OnStop): Promise<Omit<Stores, 'stop'>> {
  const { redisUrl, natsUrl } = config
  return redisUrl === null || natsUrl === null
    ? openOwnStores(config, context, onStop)
    : openSharedStores(config, { ...context, redisUrl, natsUrl }, onStop)
}

/** This machine's alone: what it counts is brought back from the journal's own records. */
async function openOwnStores(config: Config, context: StoresContext, onStop: OnStop): Promise<Omit<Stores, 'stop'>> {
  const { clock, log } = context
  const { dataDirectory, appsFile, appsFileNamed } = config
  onStop(await takeFolder(dataDirectory))
  if (appsFile === null) throw new Error('app records live in a file where there is no NATS')
  const apps = await openFileApps(appsFile, appsFileNamed, context)
  onStop(() => apps.stop())
  const deduplicator = createDeduplicator(config.maxKeys)
  const { limiter, recovery } = await recoverLimiter({
    dataDirectory,
    nowMs: clock(),
    apps: apps.all(),
    onKey: (batchId, events, receivedAtMs) => deduplicator.restore(batchId, events, receivedAtMs),
    onCorrupt: corruptLineLogger(log),
  })
  const queue = await openJournalQueue(config, context, recovery)
  const snapshots = keepSnapshots({
    directory: dataDirectory,
    limiter,
    deduplicator,
    journal: queue,
    clock,
    log,
    ...(context.snapshotIntervalMs === undefined ? {} : { intervalMs: context.snapshotIntervalMs }),
  })
  onStop(() => snapshots.stop())
  // A queue is stopped before what counts for it.
  onStop(() => queue.stop())
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

interface SharedContext extends StoresContext {
  readonly redisUrl: string
  readonly natsUrl: string
}

/** Shared between nodes: what each has counted is Redis's, and the stream's where a node died. */
async function openSharedStores(config: Config, context: SharedContext, onStop: OnStop): Promise<Omit<Stores, 'stop'>> {
  const { redisUrl, natsUrl } = context
  const nodeId = randomBytes(NODE_ID_BYTES).toString('hex')
  const redis = connectRedis(redisUrl, context, onStop)
  // Limits without Redis go by the nodes last seen: one that has not yet looked would take the others' shares as well.
  await untilUp(redis, REDIS_START_MS)
  const { store: apps, bucket } = await openSharedApps(
    { path: config.appsFile, isNamed: config.appsFileNamed },
    { url: natsUrl, replicas: config.stream.replicas },
    context,
  )
  onStop(() => apps.stop())
  const queue = connectStream(natsUrl, nodeId, config, context)
  const admission = openSharedAdmission(config, context, { redis, nodeId, onStop })
  const { partitions, stream } = config
  const audit = startAudit(
    { nodeId, partitions, replicas: stream.replicas, redisUrl, natsUrl },
    noticeTo(context.log, 'audit'),
  )
  onStop(() => audit.stop())
  // A queue is stopped before what counts for it.
  onStop(() => queue.stop())
  return {
    apps,
    admission,
    queue,
    demoApp: null,
    gauges: {
      badAppRecords: () => bucket?.badRecords ?? 0,
      keysRemembered: () => admission.keysRemembered,
      degraded: () => ({
        limits: !redis.isUp,
        idempotency: !redis.isUp,
        ...(bucket === null ? {} : { apps: !bucket.isUp }),
      }),
      redisUp: () => redis.isUp,
      natsUp: () => queue.isUp,
      stream: () => sampleOf(queue, context.clock()),
      audit: () => auditSampleOf(audit.state, context.clock()),
    },
    isReady: () => redis.hasBeenUp && queue.hasBeenUp && (bucket?.isLoaded ?? true),
    parts: () => ({
      queue: `JetStream ${queue.state}`,
      limits: `Redis ${redis.state}`,
      apps: bucket === null ? 'file' : `NATS ${bucket.state}`,
    }),
  }
}

interface SharedParts {
  readonly redis: RedisConnection
  readonly nodeId: string
  readonly onStop: OnStop
}

function openSharedAdmission(
  { partitions, maxKeys }: Config,
  { clock, log, metrics }: StoresContext,
  { redis, nodeId, onStop }: SharedParts,
): SharedAdmission {
  const admission = new SharedAdmission({
    link: redis,
    nodeId,
    partitions,
    maxKeys,
    seed: randomBytes(4).readUInt32LE(),
    timers: { ...systemTimers, nowMs: clock },
    calls: metrics.limitCalls,
    onFault: onceEach((problem) => log.error({ part: 'limits', problem }, 'Redis refuses a call: going on without it')),
  })
  onStop(() => admission.stop())
  return admission
}

/** Tells a problem when it is another than the last. */
function onceEach(tell: (problem: string) => void): (error: unknown) => void {
  let last: string | null = null
  return (error) => {
    const problem = errorMessage(error)
    if (problem !== last) tell(problem)
    last = problem
  }
}

/** What the metrics show of it. The clock of NATS may be ahead of this one. */
function sampleOf({ stream, consumerLags }: JetStreamQueue, nowMs: number): StreamSample | null {
  if (stream === null) return null
  const { bytes, maxBytes, oldestAtMs } = stream
  const oldestSeconds = oldestAtMs === null ? 0 : Math.max(0, (nowMs - oldestAtMs) / 1000)
  return { bytes, maxBytes, oldestSeconds, consumerLagSeconds: consumerLags }
}

/** Its lag grows while no round succeeds. */
function auditSampleOf(state: AuditState | null, nowMs: number): AuditSample {
  if (state === null) return { lagSeconds: null, badMessages: 0 }
  const { auditedUntilMs, badMessages } = state
  return { lagSeconds: auditedUntilMs === null ? null : Math.max(0, nowMs - auditedUntilMs) / 1000, badMessages }
}

function connectStream(
  url: string,
  nodeId: string,
  { partitions, stream }: Config,
  { log, metrics }: StoresContext,
): JetStreamQueue {
  return openJetStreamQueue({
    url,
    nodeId,
    partitions,
    newStream: stream,
    onCommit: (records) => metrics.publishRecords.observe(records),
    onNotice: noticeTo(log, 'nats'),
  })
}

function connectRedis(url: string, { log, metrics }: StoresContext, onStop: OnStop): RedisConnection {
  const redis = openRedis({
    url,
    onNotice: noticeTo(log, 'redis'),
    onCall: (_result, seconds) => metrics.redisCallSeconds.observe(seconds),
  })
  onStop(() => redis.stop())
  return redis
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
  log.info({ records: recovery.counted, keys: recovery.keys, bytes: recovery.bytes }, 'journal read')
  return journal
}

/** Logs the first of them, since a spoilt journal may hold any number. */
function corruptLineLogger(log: Log): (path: string, offset: number) => void {
  let found = 0
  return (path, offset) => {
    if (++found > MAX_CORRUPT_LINES_LOGGED) return
    const more = found === MAX_CORRUPT_LINES_LOGGED ? '; more of them are not logged' : ''
    log.error({ path, offset }, `a line of the journal is not a record; it is left out${more}`)
  }
}

async function takeFolder(directory: string): Promise<() => Promise<void>> {
  try {
    makeFolder(directory, 0o750)
  } catch (error) {
    throw new StartError(`SLUICE_DATA_DIR: cannot make ${directory}: ${errorMessage(error)}`)
  }
  const lock = await acquireLock(directory)
  if ('held' in lock) throw new StartError(`${directory} is in use: another sluice process works in this folder`)
  return () => lock.release()
}
