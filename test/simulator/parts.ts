// A node's parts behind the interfaces of ingest: limits, keys, queue and audit over the simulated Redis and NATS. A part
// is replaced by another only here.

import { Auditor } from '../../src/audit/auditor.ts'
import type { Timers } from '../../src/lib/timers.ts'
import type { Admission } from '../../src/limits/admission.ts'
import { type LimitCalls, SharedAdmission } from '../../src/limits/shared/shared-admission.ts'
import type { Dial } from '../../src/nats/connection.ts'
import type { EventQueue } from '../../src/queue/queue.ts'
import { openPublisher } from '../../src/queue/stream/publisher.ts'
import { openRedis, untilUp } from '../../src/redis/connection.ts'
import type { OpenSession } from '../../src/redis/session.ts'

/** What a node gets from the simulated world. */
export interface NodeSeams {
  /** 12 hex digits, new at every start of a process. */
  readonly nodeId: string
  readonly timers: Timers
  /** A number from 0 up to 1. */
  readonly random: () => number
  readonly openSession: OpenSession
  readonly dial: Dial
  readonly limitCalls: LimitCalls
  readonly onNotice: (message: string) => void
  /** A bug: something threw. */
  readonly onFault: (error: unknown) => void
}

export interface NodeParts {
  readonly admission: Admission
  readonly queue: Pick<EventQueue, 'publish' | 'stop'>
  /** The answer of /readyz: a balancer sends nothing before. */
  readonly isReady: () => boolean
  /** How often it declared Redis away. */
  readonly redisOutages: () => number
  /** To be called after the last answer: gives the buckets back and closes. */
  stop(): Promise<void>
}

export const PARTITIONS = 2
const MAX_KEYS = 100_000
const REDIS_START_MS = 2000

export type OpenParts = (seams: NodeSeams) => Promise<NodeParts>

/** As src/start/shared.ts does it. */
export async function openParts(seams: NodeSeams): Promise<NodeParts> {
  const { nodeId, timers, random, onNotice, onFault } = seams
  const redis = openRedis({ url: 'redis://simulated', timers, random, openSession: seams.openSession, onNotice })
  let outages = 0
  redis.onChange((isUp) => {
    if (!isUp) outages++
  })
  await untilUp(redis, REDIS_START_MS, timers)
  const queue = openPublisher({
    nats: 'nats://simulated',
    nodeId,
    partitions: PARTITIONS,
    newStream: { replicas: 1, keepMs: 72 * 3_600_000, maxBytes: null },
    timers,
    random,
    dial: seams.dial,
    onDoubt: (doubt) => admission.doubt(doubt),
    onNotice,
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
    replicas: 1,
    redis,
    connection: () => queue.connection,
    timers,
    onNotice,
  })
  return {
    admission,
    queue,
    isReady: () => redis.hasBeenUp && queue.hasBeenUp,
    redisOutages: () => outages,
    stop: async () => {
      await queue.stop()
      await auditor.stop()
      await admission.stop()
      await redis.stop()
    },
  }
}
