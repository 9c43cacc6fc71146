// The stores of a node in a cluster: Redis counts the limits and keys, NATS holds the stream and the app records, and
// an audit thread compares the two.

import { randomBytes } from 'node:crypto'
import type { AuditState } from '../audit/auditor.ts'
import { startAudit } from '../audit/start-audit.ts'
import type { Part } from '../health.ts'
import { Installation } from '../installation/installation.ts'
import { errorMessage } from '../lib/errors.ts'
import { EXIT } from '../lib/exit.ts'
import { systemTimers } from '../lib/timers.ts'
import { SharedAdmission } from '../limits/shared/shared-admission.ts'
import type { NatsAccess } from '../nats/address.ts'
import { DurabilityWatch } from '../nats/durability-watch.ts'
import type { AuditSample, StreamSample } from '../observe/gauges.ts'
import { noticeTo } from '../observe/log.ts'
import { openPublisher, type StreamPublisher } from '../queue/stream/publisher.ts'
import { openRedis, type RedisConnection, untilUp } from '../redis/connection.ts'
import type { Config } from '../settings/config.ts'
import { openSharedApps } from './shared-apps.ts'
import type { Started } from './started.ts'
import type { Stores, StoresContext } from './stores.ts'

/** How long a start waits for Redis before it serves without it. */
const REDIS_START_MS = 2000
const NODE_ID_BYTES = 6

interface SharedContext extends StoresContext {
  readonly redisUrl: string
  readonly nats: NatsAccess
}

export async function openSharedStores(config: Config, context: SharedContext, started: Started): Promise<Stores> {
  const { redisUrl, nats } = context
  const { partitions, stream } = config
  const nodeId = randomBytes(NODE_ID_BYTES).toString('hex')
  const redis = connectRedis(redisUrl, context)
  started.add(() => redis.stop())
  // While Redis is away, a node enforces its share among the nodes it last saw. One that has seen none would enforce
  // the whole limit by itself.
  await untilUp(redis, REDIS_START_MS)
  const installation = createInstallation(config, context, redis)
  started.add(() => installation.stop())
  await installation.open(nats)
  const {
    store: apps,
    bucket,
    appsPart,
  } = await openSharedApps(
    { path: config.appsFile, isNamed: config.appsFileNamed },
    {
      nats,
      replicas: stream.replicas,
      judge: ({ connection }, facts) => installation.judgeApps(connection, facts),
    },
    context,
  )
  started.add(() => apps.stop())
  const admission = createAdmission(config, context, redis, nodeId)
  started.add(() => admission.stop())
  const audit = startAudit(
    { nodeId, partitions, replicas: stream.replicas, redisUrl, nats },
    noticeTo(context.log, 'audit'),
  )
  started.add(() => audit.stop())
  const durability = watchDurability(nats, config, context)
  started.add(() => durability.stop())
  // Opened last and so stopped first: its flush settles requests, which settle their charges in the parts above.
  const queue = connectStream(nats, nodeId, config, context, admission)
  started.add(() => queue.stop())
  installation.watch(() => queue.connection)
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
      stream: () => sampleStream(queue, context.clock()),
      storesLost: () => installation.losses,
      replicas: () => durability.replicas,
      streamLeader: () => durability.hasLeader ?? undefined,
      audit: () => sampleAudit(audit.state, context.clock()),
    },
    isReady: () => redis.hasBeenUp && queue.hasBeenUp && durability.isSatisfied && (bucket?.isLoaded ?? true),
    parts: () => [
      { part: 'queue', kind: 'jetstream', ...queue.status },
      { part: 'limits', kind: 'redis', ...redis.status },
      appsPart(),
      { part: 'durability', kind: 'durability', ...durability.status },
      auditPart(audit.state),
    ],
  }
}

function connectRedis(url: string, { log, metrics }: StoresContext): RedisConnection {
  return openRedis({
    url,
    onNotice: noticeTo(log, 'redis'),
    onCall: (_result, seconds) => metrics.redisCallSeconds.observe(seconds),
  })
}

function createInstallation(
  { partitions, stream, appsFile }: Config,
  { log, clock }: StoresContext,
  redis: RedisConnection,
): Installation {
  return new Installation({
    redis,
    partitions,
    replicas: stream.replicas,
    hasAppsBucket: appsFile === null,
    timers: { ...systemTimers, nowMs: clock },
    onLoss: (store, text) => log.error({ part: 'nats', store }, text),
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
  nats: NatsAccess,
  nodeId: string,
  { partitions, stream }: Config,
  { log, metrics }: StoresContext,
  admission: SharedAdmission,
): StreamPublisher {
  return openPublisher({
    nats,
    nodeId,
    partitions,
    newStream: stream,
    onCommit: (records) => metrics.publishRecords.observe(records),
    onDoubt: (doubt) => admission.doubt(doubt),
    onNotice: noticeTo(log, 'nats'),
  })
}

function watchDurability(
  nats: NatsAccess,
  { natsMonitorUrls: monitorUrls, requireSync }: Config,
  { log }: StoresContext,
): DurabilityWatch {
  return new DurabilityWatch({ nats, monitorUrls, requireSync, onNotice: noticeTo(log, 'durability') })
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
