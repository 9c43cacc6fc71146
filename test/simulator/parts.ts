// What a node is made of behind the seams of ingest: limits, keys and queue over the simulated Redis and NATS. Another
// limiter, deduplicator or publisher is put in here, and nowhere else.

import type { AppStore } from '../../src/admit/app.ts'
import type { Deduplicator } from '../../src/admit/deduplicator.ts'
import type { Limiter } from '../../src/admit/limiter.ts'
import { type StoredRecord, UNUSED_MARK } from '../../src/admit/reclaim.ts'
import { openRedis, untilUp } from '../../src/admit/redis-connection.ts'
import { createRedisDeduplicator } from '../../src/admit/redis-deduplicator.ts'
import { openRedisLimiter } from '../../src/admit/redis-limiter.ts'
import type { OpenSession } from '../../src/admit/redis-session.ts'
import type { Timers } from '../../src/lib/timers.ts'
import { openJetStreamQueue } from '../../src/queue/jetstream.ts'
import type { Dial } from '../../src/queue/nats-connection.ts'
import type { EventQueue } from '../../src/queue/queue.ts'
import { type StoredCost, StreamLedger } from '../../src/queue/stream-ledger.ts'

/** What the simulated world gives to a node. */
export interface NodeSeams {
  /** New with every start of a process: 12 hex digits. */
  readonly nodeId: string
  readonly timers: Timers
  /** A number from 0 up to 1. */
  readonly random: () => number
  readonly openSession: OpenSession
  readonly dial: Dial
  readonly apps: AppStore
  readonly leaseRequests: { granted: number; refused: number; failed: number }
  /** A sentence for the log. */
  readonly onNotice: (message: string) => void
}

export interface NodeParts {
  readonly limiter: Limiter
  readonly deduplicator: Deduplicator
  readonly queue: EventQueue
  /** As /readyz says it: a balancer sends nothing before. */
  readonly isReady: () => boolean
  /** How often it took Redis for away. */
  readonly redisOutages: () => number
  /** After the last request was answered: settles what is in hand, gives back, and closes. */
  stop(): Promise<void>
}

function markedCost({ appId, cost, receivedAtMs, sequence }: StoredCost): StoredRecord {
  return { appId, cost, receivedAtMs, mark: sequence }
}

const PARTITIONS = 4
const MAX_KEYS = 100_000
const REDIS_START_MS = 2000
const SWEEP_INTERVAL_MS = 1000

export type OpenParts = (seams: NodeSeams) => Promise<NodeParts>

/** As src/stores.ts does it. */
export async function openParts(seams: NodeSeams): Promise<NodeParts> {
  const { nodeId, timers, random, onNotice } = seams
  const redis = openRedis({ url: 'redis://simulated', timers, random, openSession: seams.openSession, onNotice })
  let outages = 0
  redis.onChange((isUp) => {
    if (!isUp) outages++
  })
  await untilUp(redis, REDIS_START_MS, timers)
  const stream = openJetStreamQueue({
    url: 'nats://simulated',
    nodeId,
    partitions: PARTITIONS,
    newStream: { replicas: 1, keepMs: 72 * 3_600_000, maxBytes: null },
    timers,
    random,
    dial: seams.dial,
    onNotice,
  })
  const seed = Math.floor(random() * 0x100000000)
  const deduplicator = createRedisDeduplicator({
    link: redis,
    nodeId,
    maxKeys: MAX_KEYS,
    seed,
    timers,
    onFault: onNotice,
  })
  const sweeper = timers.setInterval(() => deduplicator.sweep(timers.nowMs()), SWEEP_INTERVAL_MS)
  const ledger = new StreamLedger(undefined, timers)
  const limiter = openRedisLimiter({
    link: redis,
    nodeId,
    timers,
    ledger: {
      mark: () => stream.place.mark ?? UNUSED_MARK,
      storedBy: async (node, afterSequence) => {
        const costs = await ledger.storedBy(stream.connection, { nodeId: node, afterSequence })
        return costs === 'away' ? 'away' : costs.map(markedCost)
      },
    },
    leaseRequests: seams.leaseRequests,
    onNotice,
  })
  return {
    limiter,
    deduplicator,
    queue: stream,
    isReady: () => redis.hasBeenUp && stream.hasBeenUp,
    redisOutages: () => outages,
    stop: async () => {
      await stream.stop()
      await limiter.stop()
      timers.clear(sweeper)
      await redis.stop()
    },
  }
}
