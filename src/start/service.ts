// Builds every part by hand, in order, and takes them down again in reverse.

import { randomFillSync } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import type { App } from '../apps/app.ts'
import { MAX_BODY_BYTES } from '../bounds.ts'
import { DecodePool } from '../decode/pool.ts'
import { type AdminServer, type Health, startAdmin } from '../http/admin.ts'
import { type Server, startServer } from '../http/server.ts'
import { type Clock, createIsoTime } from '../lib/clock.ts'
import { errorMessage, StartError } from '../lib/errors.ts'
import { createFreshIds } from '../lib/ids.ts'
import { packageVersion } from '../lib/version.ts'
import type { Log } from '../observe/log.ts'
import { createMetrics, type Metrics } from '../observe/metrics.ts'
import { Inflater } from '../request/inflate.ts'
import { Ingest } from '../request/ingest.ts'
import { Ring } from '../ring/ring.ts'
import type { Config } from '../settings/config.ts'
import { openStores } from './stores.ts'

/** Between two log lines that say the same of connections. */
const CONNECTIONS_LOG_INTERVAL_MS = 60_000
/** Bodies on their way may take a quarter of what whole ones may. */
const GATHERING_SHARE = 4
/** A connection that has been silent for so long during the drain has nothing on its way to us. */
const DRAIN_QUIET_MS = 500
const DRAIN_POLL_MS = 10
/** Left of the deadline for flushing the queue and writing the last snapshot: so much, or half of a short one. */
const FLUSH_RESERVE_MS = 2000

export interface SluiceContext {
  readonly log: Log
  readonly clock: Clock
  /** One of several front ends on one port: it shares the public port, and its supervisor has the admin port. */
  readonly supervised?: boolean
}

export interface Sluice {
  readonly publicPort: number
  /** null: none of its own. */
  readonly adminPort: number | null
  readonly demoApp: App | null
  readonly metrics: Pick<Metrics, 'scrape' | 'contentType'>
  readonly health: Health
  /** Drains: answers what is in hand, flushes the queue, and lets everything go. */
  stop(): Promise<void>
}

/** Throws a StartError for what an operator must mend. */
export async function startSluice(config: Config, context: SluiceContext): Promise<Sluice> {
  const { log, clock, supervised = false } = context
  // The first requests live long while code is compiled; V8 would take that for a rule and put those that come later,
  // and all they refer to, where only a full collection finds them: ten times the bytes for it to move.
  setFlagsFromString('--no-allocation-site-pretenuring')
  // What is started goes on this list, and comes down in reverse where a later part cannot start.
  const started: (() => unknown)[] = []
  try {
    const metrics = createMetrics({ version: packageVersion() })
    // What the service is asked before it serves, and while a long journal is read.
    let health: Health = { ready: () => false, parts: () => ({ service: 'starting' }) }
    metrics.sampleFrom({ ready: () => false, draining: () => false })
    const admin = supervised ? null : await openAdmin(config, { log, metrics }, () => health)
    started.push(() => admin?.stop())
    const stores = await openStores(config, { log, clock, metrics })
    started.push(() => stores.stop())
    const ring = new Ring(config.ringBytes)
    const pool: DecodePool = new DecodePool({
      memory: ring.memory,
      slots: ring.slots,
      threads: config.parsers,
      decoder: config.decoder,
      onDecoded: (slot, validation) => ingest.decoded(slot, validation),
      onFailure: (slot, error) => ingest.decodeFailed(slot, error),
      onBusy: (slot) => ingest.decodeBusy(slot),
    })
    started.push(() => pool.stop())
    await pool.start()
    const ingest = new Ingest(
      {
        ring,
        inflater: new Inflater({ capBytes: MAX_BODY_BYTES, maxWaitingBytes: config.ringBytes / GATHERING_SHARE }),
        apps: stores.apps,
        admission: stores.admission,
        queue: stores.queue,
        metrics,
        nowMs: clock,
        monotonicMs: () => performance.now(),
        freshId: createFreshIds(randomFillSync),
        isoTime: createIsoTime(),
        onFault: (error) => log.error({ err: error }, 'a request was answered 503: a stage failed'),
      },
      (slot) => pool.submit(slot),
    )
    let isServing = false
    const isReady = () => isServing && stores.isReady()
    let draining = false
    let server: Server | null = null
    metrics.sampleFrom({
      ringUsedBytes: () => ring.usedBytes,
      ringSizeBytes: () => ring.sizeBytes,
      ringRequests: () => ring.requests,
      parserQueue: () => pool.waiting,
      requestsInFlight: () => ingest.inFlight,
      connections: () => server?.connections,
      connectionsMax: () => config.maxConnections,
      ...stores.gauges,
      ready: isReady,
      draining: () => draining,
    })
    health = {
      ready: isReady,
      parts: () => (draining ? { service: 'draining', ...stores.parts() } : stores.parts()),
    }
    const opened = await startServer({
      host: config.publicHost,
      port: config.publicPort,
      shared: supervised,
      tls: config.tls,
      maxConnections: config.maxConnections,
      gatheringMaxBytes: Math.max(config.ringBytes / GATHERING_SHARE, 2 * MAX_BODY_BYTES),
      ingest,
      counts: metrics.connections,
      onFault: (error) => log.error({ err: error }, 'an answer could not be written'),
      onTooMany: atMostOnceA(CONNECTIONS_LOG_INTERVAL_MS, () =>
        log.warn(
          { most: config.maxConnections },
          'too many connections: new ones are closed at once; see SLUICE_MAX_CONNECTIONS',
        ),
      ),
    })
    server = opened
    isServing = true
    return {
      publicPort: opened.port,
      adminPort: admin?.port ?? null,
      demoApp: stores.demoApp,
      metrics,
      health,
      stop: async () => {
        isServing = false
        draining = true
        // By a clock that nobody sets.
        const deadlineMs = performance.now() + config.shutdownMs
        await drain(opened, ingest, { delayMs: config.drainDelayMs, deadlineMs })
        await pool.stop()
        await stores.stop()
        admin?.stop()
      },
    }
  } catch (error) {
    for (const stop of started.reverse()) await stop()
    throw error instanceof StartError ? error : new StartError(errorMessage(error))
  }
}

function openAdmin(
  config: Config,
  { log, metrics }: { log: Log; metrics: Metrics },
  health: () => Health,
): Promise<AdminServer> {
  return startAdmin({
    host: config.adminHost,
    port: config.adminPort,
    metrics,
    health: { ready: () => health().ready(), parts: () => health().parts() },
    onFault: (error) => log.error({ err: error }, 'a page of the admin port could not be sent'),
  })
}

/** Calls `tell`, unless it did so a moment ago. */
function atMostOnceA(intervalMs: number, tell: () => void): () => void {
  let nextMs = 0
  return () => {
    const nowMs = performance.now()
    if (nowMs < nextMs) return
    nextMs = nowMs + intervalMs
    tell()
  }
}

/** Refuses new connections, answers what is in hand and what still comes on the open ones, then closes these. */
async function drain(
  server: Server,
  ingest: Ingest,
  { delayMs, deadlineMs }: { delayMs: number; deadlineMs: number },
): Promise<void> {
  await sleep(delayMs)
  server.stopListening()
  ingest.close()
  const closeAtMs = deadlineMs - Math.min(FLUSH_RESERVE_MS, (deadlineMs - performance.now()) / 2)
  let quietSinceMs = performance.now()
  let received = ingest.received
  while (server.connections > 0 && performance.now() < closeAtMs) {
    if (ingest.inFlight > 0 || ingest.received !== received) quietSinceMs = performance.now()
    received = ingest.received
    if (performance.now() - quietSinceMs >= DRAIN_QUIET_MS) break
    await sleep(DRAIN_POLL_MS)
  }
  server.close()
}
