// Keeps what a 202 survives up to date: learned at each connection and once a minute, logged when it changes. It has a
// connection of its own, since a server complains of questions that this account may not ask.

import type { NatsConnection } from '@nats-io/transport-node'
import type { Status } from '../contract/health.ts'
import type { OnNotice } from '../lib/notice.ts'
import { systemTimers, type Timer, type Timers } from '../lib/timers.ts'
import type { NatsAccess } from './address.ts'
import { NatsLink } from './connection.ts'
import { type Durability, judgeDurability } from './durability.ts'
import { type Placement, type PlacementReport, type ReplicaState, readPlacement, STREAMS } from './placement.ts'
import { type KnownServers, learnServers, type ServerFacts, type ServerStorage, storageOf } from './server-facts.ts'

const LOOK_INTERVAL_MS = 60_000
/** While nothing is known, or a node waits for what it must be shown. */
const WAITING_INTERVAL_MS = 2000
/** So long a node that was ready without NATS stays so once NATS answers, and does not show that it syncs. */
const SHOWN_WITHIN_MS = 60_000
/** The default of NATS. */
const UNKNOWN_SYNC_MS = 120_000

export interface Learned {
  /** Of the stream of events. */
  readonly events: PlacementReport
  /** null: it has no leader, or is not there. */
  readonly durability: Durability | null
}

/** One look. `known` keeps what servers have shown, for those that are away later. Never rejects. */
export async function learnDurability(
  connection: NatsConnection,
  monitorUrls: readonly string[],
  known: KnownServers = new Map(),
): Promise<Learned> {
  const [events, ...others] = await Promise.all(STREAMS.map((stream) => readPlacement(connection, stream)))
  if (typeof events === 'string') return { events, durability: null }
  await learnServers(connection, monitorUrls, known, new Set(events.replicas.map(({ server }) => server)))
  const buckets = others.filter((report) => typeof report === 'object')
  const isClustered = connection.info?.cluster !== undefined
  return { events, durability: judgeDurability({ isClustered, events, buckets, servers: known }) }
}

export interface DurabilityWatchOptions {
  readonly nats: NatsAccess | string
  readonly monitorUrls: readonly string[]
  /** The node is not ready until each copy has shown that it syncs. */
  readonly requireSync: boolean
  /** The node has a spool, which takes all batches until that was shown: it is ready while NATS cannot be asked. */
  readonly isSpooled?: boolean
  readonly onNotice: OnNotice
  readonly timers?: Timers
  readonly lookIntervalMs?: number
}

export class DurabilityWatch {
  readonly #options: DurabilityWatchOptions
  readonly #timers: Timers
  readonly #link: NatsLink
  readonly #known: KnownServers = new Map()
  #timer: Timer | null = null
  /** null: not known now. */
  #events: PlacementReport | null = null
  /** The last that was known, which holds while NATS is away. */
  #durability: Durability | null = null
  #hasShownSync = false
  /** Of a node with a spool, by the monotonic clock. It begins once NATS is known to be away. */
  #readyUntilMs = Number.NEGATIVE_INFINITY

  constructor(options: DurabilityWatchOptions) {
    this.#options = options
    this.#timers = options.timers ?? systemTimers
    this.#link = new NatsLink({
      nats: options.nats,
      timers: this.#timers,
      onUp: (connection) => void this.#look(connection),
      // The queue has its own connection, and logs what is wrong with NATS.
      onDown: () => {
        this.#forget()
        this.#readyUntilMs = Number.POSITIVE_INFINITY
      },
    })
  }

  get status(): Status<'durability'> {
    if (this.#durability === null) return { state: this.isReady ? 'unknown' : 'unsynced', reason: null }
    const { line, isWarning } = this.#durability
    if (!this.isReady) return { state: 'unsynced', reason: `a 202 survives ${line}` }
    return { state: isWarning ? 'warn' : 'ok', reason: line }
  }

  get isReady(): boolean {
    return this.isSatisfied || (this.#options.isSpooled === true && this.#timers.monotonicMs() < this.#readyUntilMs)
  }

  /** What SLUICE_REQUIRE_SYNC wants was shown once, or is not wanted. Until then a spool takes all batches. */
  get isSatisfied(): boolean {
    return this.#hasShownSync || !this.#options.requireSync
  }

  /** After so long at the most NATS has synced what it acknowledged, as far as is known; 0: before it acknowledges. */
  get syncMs(): number {
    if (this.#durability === null) return UNKNOWN_SYNC_MS
    return this.#durability.isSynced ? 0 : Math.max(UNKNOWN_SYNC_MS, ...[...this.#known.values()].map(syncMsOf))
  }

  /** Copies of the stream of events by their state; null: not known now. */
  get replicas(): Readonly<Record<ReplicaState, number>> | null {
    if (this.#placement === null) return null
    const counts = { current: 0, lagging: 0, offline: 0 }
    for (const { state } of this.#placement.replicas) counts[state] += 1
    return counts
  }

  /** Of the servers that hold copies of the stream of events, as far as they show it. */
  get storage(): readonly ServerStorage[] {
    return storageOf(this.#placement?.replicas ?? [], this.#known)
  }

  /** null: there is no stream, or no connection. */
  get hasLeader(): boolean | null {
    if (this.#events === 'leaderless') return false
    return this.#placement === null ? null : true
  }

  get #placement(): Placement | null {
    return typeof this.#events === 'string' ? null : this.#events
  }

  async stop(): Promise<void> {
    await this.#link.stop()
    this.#forget()
  }

  #forget(): void {
    if (this.#timer !== null) this.#timers.clear(this.#timer)
    this.#timer = null
    this.#events = null
  }

  async #look(connection: NatsConnection): Promise<void> {
    const { events, durability } = await learnDurability(connection, this.#options.monitorUrls, this.#known)
    if (connection !== this.#link.connection) return
    this.#events = events
    if (durability !== null) this.#take(durability)
    this.#limitReady(durability !== null)
    const isAskedSoon = durability === null || !this.isSatisfied
    const intervalMs = isAskedSoon ? WAITING_INTERVAL_MS : (this.#options.lookIntervalMs ?? LOOK_INTERVAL_MS)
    this.#timer = this.#timers.setTimeout(() => void this.#look(connection), intervalMs)
    this.#timer.unref()
  }

  /** `isAnswered`: the stream has a leader, which said where its copies are. */
  #limitReady(isAnswered: boolean): void {
    const atMs = this.#timers.monotonicMs()
    if (!isAnswered) this.#readyUntilMs = Number.POSITIVE_INFINITY
    else if (this.#readyUntilMs === Number.POSITIVE_INFINITY) this.#readyUntilMs = atMs + SHOWN_WITHIN_MS
    if (atMs < this.#readyUntilMs || this.#readyUntilMs === Number.NEGATIVE_INFINITY) return
    this.#readyUntilMs = Number.NEGATIVE_INFINITY
    if (this.isReady || this.#options.isSpooled !== true) return
    this.#options.onNotice(
      'NATS answers, and does not show that it syncs what it acknowledges: this node is not ready (SLUICE_REQUIRE_SYNC): it takes what still comes to its disk, and sends what is there; set sync_interval: always on each server, or NATS_MONITOR_URLS where they do not show it',
    )
  }

  #take(durability: Durability): void {
    const before = this.#durability?.line
    this.#durability = durability
    this.#hasShownSync ||= durability.isSynced
    if (durability.line === before) return
    this.#options.onNotice(`a 202 survives ${durability.line}`, durability.isWarning ? undefined : 'info')
  }
}

function syncMsOf({ sync }: ServerFacts): number {
  return typeof sync === 'number' ? sync * 1000 : 0
}
