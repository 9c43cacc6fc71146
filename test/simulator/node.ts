// One node: the real ingest, limits, keys and publisher, with a decoder on the main thread and an exchange without a
// socket. It is started, stopped and killed like a process.

import type { App, AppLookup } from '../../src/apps/app.ts'
import type { Alert } from '../../src/contract/alert.ts'
import { MAX_BODY_BYTES } from '../../src/contract/bounds.ts'
import { createFreshIds } from '../../src/contract/ids.ts'
import { HttpExchange } from '../../src/http/exchange.ts'
import { Turn } from '../../src/http/turn.ts'
import type { Wire } from '../../src/http/wire.ts'
import type { StoreName } from '../../src/installation/record.ts'
import { createIsoTime } from '../../src/lib/clock.ts'
import { createMetrics, type Metrics } from '../../src/observe/metrics.ts'
import { Inflater } from '../../src/request/inflate.ts'
import { Ingest } from '../../src/request/ingest.ts'
import { SLOT_WORDS, STATE, WORD } from '../../src/ring/layout.ts'
import { storedBytes } from '../support/stored-bytes.ts'
import type { SimulatedDisk } from './journal/disk.ts'
import { dialsTo } from './nats-connection.ts'
import type { NatsServer } from './nats-server.ts'
import type { NodeParts, OpenParts } from './parts.ts'
import type { Random } from './random.ts'
import type { RedisServer } from './redis-server.ts'
import { sessionsWith } from './redis-session.ts'
import { putRing, takeRing } from './ring-pool.ts'
import { Path } from './wire.ts'
import { Host, type World } from './world.ts'

/** So that random numbers go to few ids that nobody asks for. */
const IDS_AT_ONCE = 256
const DRAIN_PAUSE_MS = 20

export interface Servers {
  readonly world: World
  readonly redis: RedisServer
  readonly nats: NatsServer
  readonly openParts: OpenParts
  /** Of the node's spool; null: it has none. */
  readonly spoolDisk: SimulatedDisk | null
  /** NATS is known to sync before it acknowledges. */
  readonly isSynced: boolean
}

export interface Answer {
  readonly status: number
  readonly batchId: string | null
  readonly body: { readonly events?: number; readonly deduplicated?: boolean; readonly error?: string }
}

export class SimulatedNode {
  readonly host: Host
  readonly redisPath: Path
  readonly natsPath: Path
  readonly metrics: Metrics
  readonly notices: string[] = []
  readonly faults: unknown[] = []
  /** Losses in NATS that its log names. */
  readonly toldLosses: { readonly atMs: number; readonly store: StoreName; readonly text: string }[] = []
  readonly alerts: { readonly atMs: number; readonly alert: Alert }[] = []
  /** The newest record of each app that has reached this node. */
  readonly apps = new Map<string, App>()
  parts: NodeParts | null = null
  ingest: Ingest | null = null
  isStopping = false
  readonly spoolDisk: SimulatedDisk | null
  readonly #isSynced: boolean
  hasStopped = false
  /** Clients that wait for an answer, and are disconnected when the process ends. */
  readonly #clients = new Set<() => void>()
  readonly #world: World
  readonly #random: Random
  readonly #pooled = takeRing()
  #toDecode: number[] = []

  constructor({ world, redis, nats, openParts, spoolDisk, isSynced }: Servers, random: Random, apps: Iterable<App>) {
    this.#world = world
    this.#random = random
    this.host = new Host(world)
    this.redisPath = new Path(world, random)
    this.natsPath = new Path(world, random)
    this.metrics = createMetrics({ version: 'simulated', runtime: false })
    for (const app of apps) this.apps.set(app.appKey, app)
    this.spoolDisk = spoolDisk
    this.#isSynced = isSynced
    if (spoolDisk !== null) this.host.onKill(() => spoolDisk.processDied())
    void this.#start(redis, nats, openParts)
  }

  get isDead(): boolean {
    return this.host.isDead || this.hasStopped
  }

  /** Whether a balancer sends requests here. */
  get isReady(): boolean {
    return !this.isDead && !this.isStopping && this.parts !== null && this.parts.isReady()
  }

  async #start(redis: RedisServer, nats: NatsServer, openParts: OpenParts): Promise<void> {
    const { host, metrics } = this
    const random = (): number => this.#random.next()
    const parts = await openParts({
      nodeId: Array.from({ length: 12 }, () => this.#random.int(0, 15).toString(16)).join(''),
      host,
      timers: host.timers,
      random,
      openSession: sessionsWith(redis, this.redisPath, host),
      dial: dialsTo(nats, this.natsPath, host, this.#random),
      limitCalls: metrics.limitCalls,
      spoolDisk: this.spoolDisk?.of(host) ?? null,
      isSynced: this.#isSynced,
      onFault: (error) => this.faults.push(error),
      onLoss: (store, text) => this.toldLosses.push({ atMs: this.#world.nowMs, store, text }),
      findApp: (appId) => this.#appOf(appId),
      onAlert: (alert) => this.alerts.push({ atMs: this.#world.nowMs, alert }),
      onNotice: (message) => this.notices.push(`${this.#world.nowMs.toFixed(0)} ${message}`),
    })
    this.ingest = new Ingest(
      {
        ring: this.#pooled.ring,
        inflater: new Inflater({ capBytes: MAX_BODY_BYTES, maxWaitingBytes: MAX_BODY_BYTES }),
        apps: this.#appStore(),
        admission: parts.admission,
        bytes: storedBytes(() => host.timers.nowMs()),
        queue: parts.queue,
        metrics,
        observer: null,
        turn: host.timers,
        monotonicMs: () => host.timers.monotonicMs(),
        freshId: createFreshIds((bytes) => this.#random.fillBytes(bytes), IDS_AT_ONCE),
        isoTime: createIsoTime(),
        onFault: (error) => this.faults.push(error),
      },
      (slot) => this.#submit(slot),
    )
    this.parts = parts
  }

  /** Id and key of an app have the same number (anApp). */
  #appOf(appId: string): App | undefined {
    return this.apps.get(appId.replace('app', 'ak_'))
  }

  #appStore() {
    return {
      find: (appKey: string): AppLookup => this.apps.get(appKey) ?? 'unknown',
      all: () => this.apps.values(),
      stop: () => {},
    }
  }

  /** Receives a request. `answered` is called once, with null if the connection breaks before the answer. */
  receive(body: Uint8Array, key: string | null, answered: (answer: Answer | null) => void): void {
    const { ingest } = this
    if (ingest === null || this.isDead || this.isStopping) {
      answered(null)
      return
    }
    const broken = (): void => answered(null)
    this.#clients.add(broken)
    const head = {
      method: 'POST',
      path: '/api/v1/events',
      contentType: 'application/json',
      contentEncoding: null,
      idempotencyKey: key,
      traceparent: null,
      contentLengthBytes: body.length,
      framingFault: null,
      wantsClose: false,
      corsHeaders: '',
      origin: null,
      foreignOrigin: null,
    }
    const wire = wireInto((answer) => {
      this.#clients.delete(broken)
      answered(answer)
    })
    const exchange = new HttpExchange(
      head,
      wire,
      { turn: new Turn((error) => this.faults.push(error)), onClosed: () => {} },
      this.host.timers.monotonicMs(),
    )
    if (ingest.begin(exchange)) ingest.body(exchange, [body], body.length)
  }

  /** Like SIGTERM: answers the requests in flight and gives the buckets back. */
  stop(): void {
    this.host.receive(this.#world.nowMs, () => void this.#stop())
  }

  async #stop(): Promise<void> {
    const { ingest, parts } = this
    this.isStopping = true
    if (ingest === null || parts === null) {
      this.kill()
      return
    }
    ingest.close()
    while (ingest.inFlight > 0)
      await new Promise<void>((resolve) => this.host.timers.setTimeout(resolve, DRAIN_PAUSE_MS))
    await parts.stop()
    this.kill()
    this.hasStopped = true
  }

  kill(): void {
    if (this.host.isDead) return
    this.host.kill()
    for (const broken of this.#clients) broken()
    this.#clients.clear()
  }

  /** To be called after the run. */
  discard(): void {
    this.kill()
    putRing(this.#pooled)
  }

  /** null: requests received = outcomes + in flight. */
  imbalance(): string | null {
    const { ingest, metrics } = this
    if (ingest === null) return null
    const ended = Object.values(metrics.outcomeTotals()).reduce((sum, count) => sum + count, 0)
    if (metrics.requestsReceived === ended + ingest.inFlight) return null
    return `${metrics.requestsReceived} received, ${ended} ended, ${ingest.inFlight} in flight`
  }

  #submit(slot: number): void {
    if (this.#toDecode.push(slot) === 1) this.host.timers.setImmediate(() => this.#decode())
  }

  #decode(): void {
    const { ring, decoder } = this.#pooled
    const slots = this.#toDecode
    this.#toDecode = []
    for (const slot of slots) {
      const start = ring.offset(slot)
      const place = [start, start + ring.length(slot), this.#world.epochMs, ring.words, ring.decodedAt(slot)] as const
      const scanned = decoder.scan(...place)
      const validation = scanned === 'not sure' ? decoder.explain(...place) : scanned
      Atomics.store(ring.words, slot * SLOT_WORDS + WORD.STATE, STATE.DECODED)
      this.ingest?.decoded(slot, validation)
    }
  }
}

function wireInto(answered: (answer: Answer) => void): Wire {
  const send: Wire['send'] = ({ status, headers, body }) => {
    const batchId = /\r\nX-Batch-Id: ([^\r]*)/.exec(headers)?.[1] ?? null
    answered({ status: Number(status.slice(0, 3)), batchId, body: JSON.parse(body) as Answer['body'] })
    return true
  }
  const nothing = (): void => {}
  return { onAborted: nothing, onData: nothing, send, giveMoreTime: nothing, close: nothing }
}
