// Starts every part of the service in order. A stop, or a start that fails half-way, stops them in reverse order.

import { randomFillSync } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import type { Alert } from '../contract/alert.ts'
import { MAX_BODY_BYTES } from '../contract/bounds.ts'
import { type Part, servicePart } from '../contract/health.ts'
import { createFreshIds } from '../contract/ids.ts'
import { DecodePool } from '../decode/pool.ts'
import { startAdmin } from '../http/admin.ts'
import { CertificateWatch, readCertificate } from '../http/certificate.ts'
import { chooseEngine } from '../http/engines.ts'
import { findPort } from '../http/port.ts'
import { type Server, startServer } from '../http/server.ts'
import { logRefusals } from '../inspect/refusals/refusal-lines.ts'
import { type Clock, createIsoTime, TurnClock } from '../lib/clock.ts'
import { errorMessage, StartError } from '../lib/errors.ts'
import { EXIT } from '../lib/exit.ts'
import type { LibraryFaults } from '../lib/library-fault.ts'
import { maxOpenFiles, openFiles } from '../lib/open-files.ts'
import { systemTimers } from '../lib/timers.ts'
import { packageVersion } from '../lib/version.ts'
import { StoredBytes } from '../limits/stored-bytes.ts'
import type { Sampler } from '../observe/gauges.ts'
import { alertsTo, type Log, noticeTo } from '../observe/log.ts'
import { createMetrics } from '../observe/metrics.ts'
import { watchStrain } from '../observe/strain.ts'
import { Inflater } from '../request/inflate.ts'
import { Ingest } from '../request/ingest.ts'
import type { FaultStage } from '../request/parts.ts'
import { Ring } from '../ring/ring.ts'
import type { Config } from '../settings/config.ts'
import { withOwnAddresses } from './addresses.ts'
import { openConsole } from './open-console.ts'
import { startPortal } from './open-portal.ts'
import { openStores } from './open-stores.ts'
import { Started } from './started.ts'

/** Bodies that are still arriving may take a quarter as many bytes as the ring holds. */
const GATHERING_SHARE = 4
/** A drain ends early after this long without a request: the open connections have nothing more to send. */
const DRAIN_QUIET_MS = 500
const DRAIN_POLL_MS = 10
/** Kept free before the deadline for the flush and the last snapshot; half of the time left where that is shorter. */
const FLUSH_RESERVE_MS = 2000

export interface SluiceContext {
  readonly log: Log
  readonly linesDropped?: () => number
  readonly clock: Clock
  /** True for one of several worker processes: they share the public port, and the supervisor has the admin port. */
  readonly supervised?: boolean
  /** Counted by whoever handles them, and shown on the metrics. */
  readonly libraryFaults?: LibraryFaults
}

export type Sluice = Awaited<ReturnType<typeof startSluice>>

/** Throws a StartError for what an operator must fix. */
export async function startSluice(given: Config, context: SluiceContext) {
  const { log, linesDropped = () => 0, clock, supervised = false } = context
  const config = await withOwnAddresses(given, noticeTo(log, 'node'))
  // While code is compiled the first requests live long. V8 would conclude that all requests do, and allocate later
  // ones in the old generation, where only a full collection frees them: ten times the bytes to move.
  setFlagsFromString('--no-allocation-site-pretenuring')
  const started = new Started()
  try {
    const engine = await chooseEngine(config)
    const { libraryFaults } = context
    const metrics = createMetrics({ version: packageVersion(), httpEngine: engine.name, libraryFaults })
    // The admin port answers probes while a long journal is read.
    const health = { ready: () => false, parts: (): readonly Part[] => [servicePart('starting')] }
    let draining = false
    const gauges: Sampler = { linesDropped, ready: () => health.ready(), draining: () => draining }
    metrics.sampleFrom(gauges)
    const turnClock = new TurnClock(clock)
    let nodes = (): number => 1
    const bytes = new StoredBytes({ nowMs: turnClock.nowMs, nodes: () => nodes(), timers: systemTimers })
    const seen = { log, metrics, bytes, health, gauges: () => gauges, supervised }
    const console = await openConsole(config, seen)
    started.add(() => console.stop())
    const { routes, portal, activity } = console
    const { adminHost: host, adminPort: port } = config
    const admin = routes === null ? null : await startAdmin({ host, port, metrics, health, routes, log })
    if (admin !== null) started.add(() => admin.stop())
    const portalServer =
      config.portal === null || portal === null ? null : await startPortal(config.portal, portal, log)
    if (portalServer !== null) started.add(() => portalServer.stop())
    // A port that is taken is reported before anything in the folder changes.
    if (config.embedded && config.publicPort !== 0)
      await findPort({ host: config.publicHost, port: config.publicPort, settings: 'HOST and PORT' })
    const adminAddress = admin === null ? {} : { adminAddress: { host: config.adminHost, port: admin.port } }
    const logAlert = alertsTo(log)
    const onAlert = (alert: Alert): void => {
      logAlert(alert)
      console.onAlert(alert)
    }
    const stores = await openStores(
      config,
      { log, clock, turnClock, metrics, bytes, onAlert, ...adminAddress },
      started,
    )
    nodes = stores.nodes
    let publicPort = config.publicPort
    console.use(stores, () => publicPort)
    started.add(logRefusals({ refusals: activity.refusals, log, timers: systemTimers }))
    started.add(
      watchStrain({ metrics, openFiles, maxOpenFiles, onNotice: noticeTo(log, 'node'), timers: systemTimers }),
    )
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
    started.add(() => pool.stop())
    await pool.start()
    const ingest = new Ingest(
      {
        ring,
        inflater: new Inflater({ capBytes: MAX_BODY_BYTES, maxWaitingBytes: config.ringBytes / GATHERING_SHARE }),
        apps: stores.apps,
        admission: stores.admission,
        bytes,
        queue: stores.queue,
        metrics,
        observer: activity,
        turn: turnClock,
        monotonicMs: () => performance.now(),
        freshId: createFreshIds(randomFillSync),
        isoTime: createIsoTime(),
        onFault: (error, stage, request_id) => log.error({ err: error, stage, request_id }, faultText(stage)),
      },
      (slot) => pool.submit(slot),
    )
    let isServing = false
    let server: Server | null = null
    let certificates: CertificateWatch | null = null
    Object.assign(gauges, {
      ringUsedBytes: () => ring.usedBytes,
      ringSizeBytes: () => ring.sizeBytes,
      ringRequests: () => ring.requests,
      parserQueue: () => pool.waiting,
      requestsInFlight: () => ingest.inFlight,
      connections: () => server?.connections,
      connectionsMax: () => config.maxConnections,
      tlsNotAfterSeconds: () => certificates?.notAfterSeconds,
      openFiles,
      maxOpenFiles,
      ...stores.gauges,
    } satisfies Sampler)
    health.ready = () => isServing && stores.isReady()
    health.parts = () => [...(draining ? [servicePart('stopping')] : []), ...stores.parts(), ...engine.parts]
    const certificate = config.tls === null ? null : await readCertificate(config.tls)
    const opened = await startServer({
      openEngine: engine.open,
      host: config.publicHost,
      port: config.publicPort,
      shared: supervised,
      tls: config.tls,
      corsOrigins: config.corsOrigins,
      maxConnections: config.maxConnections,
      gatheringMaxBytes: Math.max(config.ringBytes / GATHERING_SHARE, 2 * MAX_BODY_BYTES),
      ingest,
      turnMs: turnClock.monotonicMs,
      counts: metrics.connections,
      onFault: (error) =>
        log.error({ err: error }, 'bug: an answer could not be written; its client got none and will send again'),
      onPortLost: (error) => {
        log.fatal({ err: error }, 'the port was taken while its certificate was renewed: ending, to be started again')
        process.exit(EXIT.failed)
      },
      onTooMany: () => {
        const text = 'too many connections: new ones are closed at once; see SLUICE_MAX_CONNECTIONS'
        log.warn({ most: config.maxConnections }, text)
      },
    })
    server = opened
    publicPort = opened.port
    started.add(() => drain(opened, ingest, config))
    if (config.tls !== null && certificate !== null) {
      const watch = new CertificateWatch(certificate, {
        files: config.tls,
        timers: { ...systemTimers, nowMs: clock },
        use: () => opened.renewCertificate(),
        onNotice: noticeTo(log, 'tls'),
      })
      certificates = watch
      started.add(() => watch.stop())
    }
    isServing = true
    return {
      publicPort: opened.port,
      /** null: the supervisor has it. */
      adminPort: admin?.port ?? null,
      /** null: there is none, or the supervisor has it. */
      portalPort: portalServer?.port ?? null,
      demoApp: stores.demoApp,
      hasConsole: routes?.isOn === true,
      metrics,
      health,
      /** Reads the certificate, the console's token and the app file again, at once. */
      reread: () => {
        void certificates?.look(true)
        routes?.reread()
        stores.reread?.()
      },
      /** Drains: answers open requests, flushes the queue, and stops every part. */
      stop: () => {
        isServing = false
        draining = true
        console.drain()
        return started.stop()
      },
    }
  } catch (error) {
    await started
      .stop()
      .catch((fault: unknown) => log.error({ err: fault }, 'a part did not stop after a failed start'))
    throw error instanceof StartError ? error : new StartError(errorMessage(error))
  }
}

function faultText(stage: FaultStage): string {
  return stage === 'answer'
    ? 'bug while answering a request: it was counted; its answer may be missing, or show other limits'
    : `bug in ${stage}: this request got 503`
}

/** Refuses new connections, answers the requests that still arrive on open ones, then closes these. */
async function drain(
  server: Server,
  ingest: Ingest,
  { drainDelayMs, shutdownMs }: Pick<Config, 'drainDelayMs' | 'shutdownMs'>,
): Promise<void> {
  // The monotonic clock: a change of the system's time does not move the deadline.
  const deadlineMs = performance.now() + shutdownMs
  await sleep(drainDelayMs)
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
