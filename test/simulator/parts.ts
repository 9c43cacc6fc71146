// A node's parts behind the interfaces of ingest: limits, keys, queue and audit over the simulated Redis and NATS. A part
// is replaced by another only here.

import type { App } from '../../src/apps/app.ts'
import { Auditor } from '../../src/audit/auditor.ts'
import type { Alert } from '../../src/contract/alert.ts'
import { Installation } from '../../src/installation/installation.ts'
import type { StoreName } from '../../src/installation/record.ts'
import type { Timers } from '../../src/lib/timers.ts'
import type { Admission } from '../../src/limits/admission.ts'
import { type LimitCalls, SharedAdmission } from '../../src/limits/shared/shared-admission.ts'
import type { SpooledEvents } from '../../src/limits/shared/spooled-events.ts'
import type { Dial } from '../../src/nats/connection.ts'
import type { Disk } from '../../src/queue/journal/disk.ts'
import type { EventQueue } from '../../src/queue/queue.ts'
import { openSpool } from '../../src/queue/spool/open-spool.ts'
import type { Spool } from '../../src/queue/spool/spool.ts'
import { openPublisher, type StreamPublisher } from '../../src/queue/stream/publisher.ts'
import { openRedis, untilUp } from '../../src/redis/connection.ts'
import type { OpenSession } from '../../src/redis/session.ts'
import { SERVERS } from './nats-replicas.ts'
import type { Host } from './world.ts'

/** What a node gets from the simulated world. */
export interface NodeSeams {
  /** 12 hex digits, new at every start of a process. */
  readonly nodeId: string
  /** The process. */
  readonly host: Host
  readonly timers: Timers
  /** A number from 0 up to 1. */
  readonly random: () => number
  readonly openSession: OpenSession
  readonly dial: Dial
  readonly limitCalls: LimitCalls
  readonly onNotice: (message: string) => void
  /** A line of the log, at level error. */
  readonly onLoss: (store: StoreName, text: string) => void
  readonly findApp: (appId: string) => App | undefined
  readonly onAlert: (alert: Alert) => void
  /** Of the node's spool; null: it has none. */
  readonly spoolDisk: Disk | null
  /** NATS is known to sync before it acknowledges. */
  readonly isSynced: boolean
  /** A bug: something threw. */
  readonly onFault: (error: unknown) => void
}

export interface NodeParts {
  readonly admission: Admission
  readonly queue: Pick<EventQueue, 'publish' | 'stop'>
  /** The answer of /readyz: a balancer sends nothing before. */
  readonly isReady: () => boolean
  /** Batches in its spool. */
  readonly spooled: () => number
  /** How often it declared Redis away. */
  readonly redisOutages: () => number
  /** The metric `sluice_store_losses_total`. */
  readonly losses: () => Readonly<Record<StoreName, number>>
  /** To be called after the last answer: gives the buckets back and closes. */
  stop(): Promise<void>
}

export const PARTITIONS = 2
const NATS_URL = Array.from({ length: SERVERS }, (_, at) => `nats://n${at}:4222`).join(',')
const MAX_KEYS = 100_000
const REDIS_START_MS = 2000

/** As src/start/shared.ts has it. */
const SPOOL_ACK_TIMEOUT_MS = 500
export const SPOOL_FOLDER = '/spool'
const SPOOL_BYTES = 8 * 1024 * 1024
/** The default of NATS. */
const SYNC_MS = 120_000
const SPOOL_SPACE = { freeBytes: 2 ** 40, totalBytes: 2 ** 40 }

/** As src/start/shared-spool.ts does it. */
async function openSpoolOn(
  disk: Disk,
  { timers, random, isSynced, onNotice }: NodeSeams,
  stream: StreamPublisher,
  admission: SharedAdmission,
): Promise<Spool> {
  let counts: SpooledEvents | null = null
  const { spool } = await openSpool({
    directory: SPOOL_FOLDER,
    maxBytes: SPOOL_BYTES,
    partitions: PARTITIONS,
    stream,
    disk,
    timers,
    syncMs: () => (isSynced ? 0 : SYNC_MS),
    isSyncShown: () => true,
    uncountedSinceMs: () => counts?.uncountedSinceMs ?? Number.POSITIVE_INFINITY,
    newId: Array.from({ length: 12 }, () => Math.floor(random() * 16).toString(16)).join(''),
    space: async () => SPOOL_SPACE,
    onNamed: (id) => (counts = admission.countSpool(id)),
    onFound: (appId, charge) => counts?.add(appId, charge, true),
    onSpooled: (appId, charge) => counts?.add(appId, charge),
    onSent: (appId, charge, sequence) => counts?.sent(appId, charge, sequence),
    onLost: () => counts?.forgetSent(),
    onKey: (batchId, events, takenAtMs) => admission.restoreKey(batchId, events, takenAtMs),
    onDoubt: (doubt) => admission.doubt(doubt),
    onNotice,
  })
  const named = counts as SpooledEvents | null
  named?.start()
  return spool
}

export type OpenParts = (seams: NodeSeams) => Promise<NodeParts>

/** As src/start/shared.ts does it. */
export async function openParts(seams: NodeSeams): Promise<NodeParts> {
  const { nodeId, timers, random, spoolDisk, onNotice, onFault } = seams
  let spool: Spool | null = null
  const redis = openRedis({ redis: 'redis://simulated', timers, random, openSession: seams.openSession, onNotice })
  let outages = 0
  let isStopping = false
  redis.onChange((isUp) => {
    if (!isUp && !isStopping) outages++
  })
  await untilUp(redis, REDIS_START_MS, timers)
  const queue = openPublisher({
    nats: NATS_URL,
    nodeId,
    partitions: PARTITIONS,
    newStream: { replicas: SERVERS, keepMs: 72 * 3_600_000, maxBytes: null },
    timers,
    random,
    // Every second node sends keyed records together.
    keyedAlone: () => (Number.parseInt(nodeId.slice(-1), 16) % 2 === 0 ? 1 : Number.POSITIVE_INFINITY),
    dial: seams.dial,
    onDoubt: (doubt, record) => (spool === null ? admission.doubt(doubt) : spool.doubt(doubt, record)),
    ...(spoolDisk === null ? {} : { ackTimeoutMs: SPOOL_ACK_TIMEOUT_MS }),
    onNotice,
  })
  const installation = new Installation({
    redis,
    nodeId,
    partitions: PARTITIONS,
    replicas: SERVERS,
    hasAppsBucket: true,
    timers,
    onLoss: seams.onLoss,
    onShared: (text) => onFault(new Error(text)),
    onRefused: (text) => onFault(new Error(text)),
  })
  const admission = new SharedAdmission({
    link: redis,
    nodeId,
    partitions: PARTITIONS,
    maxKeys: MAX_KEYS,
    seed: Math.floor(random() * 0x100000000),
    timers,
    calls: seams.limitCalls,
    onFault,
    onNotice,
  })
  const auditor = new Auditor({
    nodeId,
    partitions: PARTITIONS,
    replicas: SERVERS,
    redis,
    connection: () => queue.connection,
    timers,
    askLimits: async (appIds) => appIds.map((appId) => seams.findApp(appId) ?? null),
    onAlert: seams.onAlert,
    onNotice,
  })
  installation.watch(() => queue.connection)
  if (spoolDisk !== null) spool = await openSpoolOn(spoolDisk, seams, queue, admission)
  return {
    admission,
    queue: spool ?? queue,
    spooled: () => spool?.contents.batches ?? 0,
    isReady: () => redis.hasBeenUp && (spool !== null || queue.hasBeenUp),
    redisOutages: () => outages,
    losses: () => installation.losses,
    stop: async () => {
      await (spool ?? queue).stop()
      await auditor.stop()
      await admission.stop()
      await installation.stop()
      // The end of a connection that the node itself closes is no outage.
      isStopping = true
      await redis.stop()
    },
  }
}
