// The stores of a node in a cluster: Redis counts the limits and keys, NATS holds the stream and the app records, and
// an audit thread compares the two.

import { randomBytes } from 'node:crypto'
import type { AuditState } from '../audit/auditor.ts'
import { startAudit } from '../audit/start-audit.ts'
import { readAlerts } from '../audit/stored-alerts.ts'
import { isUp, type Part, type Status } from '../contract/health.ts'
import { Installation } from '../installation/installation.ts'
import { errorMessage } from '../lib/errors.ts'
import { EXIT } from '../lib/exit.ts'
import { systemTimers } from '../lib/timers.ts'
import { SharedAdmission } from '../limits/shared/shared-admission.ts'
import type { NatsAccess } from '../nats/address.ts'
import { DurabilityWatch } from '../nats/durability-watch.ts'
import type { AuditSample, StreamSample } from '../observe/gauges.ts'
import { noticeTo } from '../observe/log.ts'
import { keyedAlone } from '../queue/stream/keyed-group.ts'
import { openPublisher, type StreamPublisher } from '../queue/stream/publisher.ts'
import type { PublisherOptions } from '../queue/stream/publisher-options.ts'
import type { RedisAccess } from '../redis/address.ts'
import { openRedis, type RedisConnection, untilUp } from '../redis/connection.ts'
import { checkClient } from '../redis/session.ts'
import type { Config } from '../settings/config.ts'
import { openSharedApps } from './shared-apps.ts'
import { openSharedSpool, type SharedSpool, takeSpoolFolder, tellLeft, tellStranded } from './shared-spool.ts'
import type { Started } from './started.ts'
import type { Stores, StoresContext } from './stores.ts'

/** How long a start waits for Redis before it serves without it. */
const REDIS_START_MS = 2000
const NODE_ID_BYTES = 6
/** How long a request waits for NATS before its batch goes to the spool, where there is one. */
const SPOOL_ACK_TIMEOUT_MS = 500

interface SharedContext extends StoresContext {
  readonly redisAccess: RedisAccess
  readonly nats: NatsAccess
}

export async function openSharedStores(config: Config, context: SharedContext, started: Started): Promise<Stores> {
  const { redisAccess, nats } = context
  const { partitions, stream } = config
  const nodeId = randomBytes(NODE_ID_BYTES).toString('hex')
  await checkClient()
  const redis = connectRedis(redisAccess, context)
  started.add(() => redis.stop())
  // While Redis is away, a node enforces its share among the nodes it last saw. One that has seen none would enforce
  // the whole limit by itself.
  await untilUp(redis, REDIS_START_MS)
  const installation = createInstallation(config, context, redis, nodeId)
  started.add(() => installation.stop())
  await installation.open(nats)
  const spoolFolder = await takeSpoolFolder(config, started, noticeTo(context.log, 'spool'))
  const {
    store: apps,
    bucket,
    isLoaded,
    appsPart,
    reread,
  } = await openSharedApps(
    { path: config.appsFile, isNamed: config.appsFileNamed },
    {
      nats,
      replicas: stream.replicas,
      judge: ({ connection }, facts) => installation.judgeApps(connection, facts),
    },
    spoolFolder,
    context,
  )
  started.add(() => apps.stop())
  const admission = createAdmission(config, context, redis, nodeId)
  started.add(() => admission.stop())
  const audit = startAudit(
    { nodeId, partitions, replicas: stream.replicas, redis: redisAccess, nats },
    { onNotice: noticeTo(context.log, 'audit'), onAlert: context.onAlert, apps },
  )
  started.add(() => audit.stop())
  const durability = watchDurability(nats, config, context)
  started.add(() => durability.stop())
  // Opened last and so stopped first: its flush finishes requests, which commit their charges in the parts above.
  let spool: SharedSpool | null = null
  const facts = {
    nats,
    nodeId,
    keyedAlone: () => keyedAlone(durability.syncMs),
    serverStorage: () => durability.storage,
  }
  const queue = connectStream(facts, config, context, (doubt, record) => {
    if (spool === null) admission.doubt(doubt)
    else spool.spool.doubt(doubt, record)
  })
  started.add(async () => {
    await (spool?.spool ?? queue).stop()
    if (spool !== null) tellLeft(spool, noticeTo(context.log, 'spool'))
  })
  if (spoolFolder !== null) {
    const { log, metrics, clock } = context
    spool = await openSharedSpool(
      spoolFolder,
      config.spool?.maxBytes ?? 0,
      config,
      {
        clock,
        fillers: context.bytes,
        onNotice: noticeTo(log, 'spool'),
        onCommit: (records) => metrics.publishRecords.observe(records),
        onDamage: (kind) => void (metrics.journalDamage[kind] += 1),
      },
      {
        stream: queue,
        limits: admission,
        syncMs: () => durability.syncMs,
        isSyncShown: () => durability.isSatisfied,
        isAudited: true,
      },
    )
    void tellStranded(config, spoolFolder, noticeTo(log, 'spool'))
  }
  const spooled = spool
  installation.watch(() => queue.connection)
  const limitsStatus = (): Status<'redis'> => {
    if (redis.isUp && admission.hasForgotten) return { state: 'forgotten', reason: null }
    const { unserved } = admission
    return redis.isUp && unserved.length > 0
      ? { state: 'unserved', reason: `those of partitions ${unserved.join(', ')}` }
      : redis.status
  }
  return {
    apps,
    admission,
    nodes: () => admission.nodes,
    queue: spooled?.spool ?? queue,
    alerts: (appId) => readAlerts(queue.connection, appId),
    demoApp: null,
    gauges: {
      badAppRecords: () => bucket?.badRecords ?? 0,
      badAppRecordsNow: () => bucket?.badRecordsNow ?? Number(appsPart().state === 'error'),
      keysRemembered: () => admission.keysRemembered,
      degraded: () => ({
        limits: !isUp(limitsStatus()),
        idempotency: !redis.isUp,
        ...(bucket === null ? {} : { apps: !bucket.isUp }),
      }),
      redisUp: () => redis.isUp,
      natsUp: () => queue.isUp,
      stream: () => sampleStream(queue, context.clock()),
      ...(spooled === null ? {} : { spool: spooled.sample }),
      storesLost: () => installation.losses,
      replicas: () => durability.replicas,
      streamLeader: () => durability.hasLeader ?? undefined,
      audit: () => sampleAudit(audit.state, context.clock()),
    },
    isReady: () => redis.hasBeenUp && (spooled !== null || queue.hasBeenUp) && durability.isReady && isLoaded(),
    parts: () => [
      spooled === null
        ? { part: 'queue', kind: 'jetstream', ...queue.status }
        : { part: 'queue', kind: 'spool', ...spooled.spool.status },
      { part: 'limits', kind: 'redis', ...limitsStatus() },
      appsPart(),
      { part: 'durability', kind: 'durability', ...durability.status },
      auditPart(audit.state),
    ],
    ...(reread === undefined ? {} : { reread }),
  }
}

function connectRedis(redis: RedisAccess, { log, metrics }: StoresContext): RedisConnection {
  return openRedis({
    redis,
    onNotice: noticeTo(log, 'redis'),
    onCall: (_result, seconds) => metrics.redisCallSeconds.observe(seconds),
    onBadReply: () => void (metrics.redisBadReplies += 1),
  })
}

function createInstallation(
  { partitions, stream, appsFile }: Config,
  { log, clock }: StoresContext,
  redis: RedisConnection,
  nodeId: string,
): Installation {
  return new Installation({
    redis,
    nodeId,
    partitions,
    replicas: stream.replicas,
    hasAppsBucket: appsFile === null,
    timers: { ...systemTimers, nowMs: clock },
    onLoss: (store, text) => log.error({ part: 'nats', store }, text),
    onShared: (text) => log.error({ part: 'redis' }, text),
    onRefused: (text) => {
      log.fatal({ part: 'nats' }, text)
      process.exit(EXIT.failed)
    },
  })
}

function createAdmission(
  { partitions, maxKeys }: Config,
  { clock, log, metrics }: StoresContext,
  redis: RedisConnection,
  nodeId: string,
): SharedAdmission {
  return new SharedAdmission({
    link: redis,
    nodeId,
    partitions,
    maxKeys,
    seed: randomBytes(4).readUInt32LE(),
    timers: { ...systemTimers, nowMs: clock },
    calls: metrics.limitCalls,
    onNotice: noticeTo(log, 'redis'),
    onFault: onChange((problem) =>
      log.error(
        { part: 'limits', problem },
        "Redis returned an error; these requests were counted against this node's share",
      ),
    ),
  })
}

function connectStream(
  facts: Required<Pick<PublisherOptions, 'nats' | 'nodeId' | 'keyedAlone' | 'serverStorage'>>,
  { partitions, stream, spool }: Config,
  { log, metrics, bytes }: StoresContext,
  onDoubt: PublisherOptions['onDoubt'] & {},
): StreamPublisher {
  return openPublisher({
    ...facts,
    partitions,
    newStream: stream,
    fillers: bytes,
    onCommit: (records) => metrics.publishRecords.observe(records),
    onDoubt,
    // What waits longer goes to the disk.
    ...(spool === null ? {} : { ackTimeoutMs: SPOOL_ACK_TIMEOUT_MS, isSpooled: true }),
    onNotice: noticeTo(log, 'nats'),
  })
}

function watchDurability(
  nats: NatsAccess,
  { natsMonitorUrls: monitorUrls, requireSync, spool }: Config,
  { log }: StoresContext,
): DurabilityWatch {
  const onNotice = noticeTo(log, 'durability')
  return new DurabilityWatch({ nats, monitorUrls, requireSync, isSpooled: spool !== null, onNotice })
}

/** Reports a problem unless it is the same as the last one. */
function onChange(report: (problem: string) => void): (error: unknown) => void {
  let last: string | null = null
  return (error) => {
    const problem = errorMessage(error)
    if (problem !== last) report(problem)
    last = problem
  }
}

function sampleStream({ stream, consumerLags }: StreamPublisher, nowMs: number): StreamSample | null {
  if (stream === null) return null
  const { bytes, maxBytes, oldestAtMs, keepMs } = stream
  // The clock of NATS may be ahead of this one.
  const oldestSeconds = oldestAtMs === null ? 0 : Math.max(0, (nowMs - oldestAtMs) / 1000)
  const keepSeconds = keepMs === null ? null : keepMs / 1000
  return { bytes, maxBytes, oldestSeconds, keepSeconds, consumerLagSeconds: consumerLags }
}

function auditPart(state: AuditState | null): Part {
  const stopped = state?.stopped ?? null
  if (stopped !== null && stopped !== 'redis_unknown')
    return { part: 'audit', kind: 'audit', state: stopped, reason: null }
  const { partitions = [] } = state ?? {}
  const reason = partitions.length === 0 ? 'no partition' : `partitions ${partitions.join(', ')}`
  return { part: 'audit', kind: 'audit', state: 'ok', reason }
}

/** The lag grows while no audit round succeeds. */
function sampleAudit(state: AuditState | null, nowMs: number): AuditSample {
  if (state === null) {
    const counts = { badMessages: 0, futureEvents: 0, unsettledDoubts: 0 }
    return { lagSeconds: null, ...counts, clockSkewSeconds: {}, isSkewed: false }
  }
  const { auditedUntilMs, badMessages, futureEvents, unsettledDoubts, skews, stopped } = state
  const known = Object.entries(skews).filter(([, skewMs]) => skewMs !== null)
  return {
    lagSeconds: auditedUntilMs === null ? null : Math.max(0, nowMs - auditedUntilMs) / 1000,
    badMessages,
    futureEvents,
    unsettledDoubts,
    clockSkewSeconds: Object.fromEntries(known.map(([of, skewMs]) => [of, Number(skewMs) / 1000])),
    isSkewed: stopped !== null && stopped !== 'redis_unknown',
  }
}
