// Watches the stream while NATS is connected: creates it where it is missing, warns where its configuration would break
// a promise or it fills, repeats this while something is wrong, and measures the stream now and then.

import type { NatsConnection } from '@nats-io/transport-node'
import type { OnNotice } from '../../lib/notice.ts'
import type { Timer, Timers } from '../../lib/timers.ts'
import type { ServerStorage } from '../../nats/server-facts.ts'
import { EVENTS_STREAM } from '../../nats/store-names.ts'
import { type Fillers, Filling } from '../filling.ts'
import { limiterOf } from './ack.ts'
import { type ConsumerLags, measureLags } from './consumer-lag.ts'
import { fullAtBytes, readAccountLimit, roomBytesOf, type StorageLimit, serverLimitOf } from './storage-limit.ts'
import {
  describeStream,
  differenceText,
  ensureStream,
  MAX_RECORD_BYTES,
  type NewStream,
  PURGE_ADVICE,
  type StreamFacts,
  type StreamReport,
} from './stream.ts'

/** Between two looks while something is wrong. */
const LOOK_INTERVAL_MS = 500
const MEASURE_INTERVAL_MS = 10_000
const STREAM_LIMIT = { store: `stream ${EVENTS_STREAM}`, copies: 1 }

export interface StreamKeeperOptions {
  /** The stream, where it has to be created. */
  readonly newStream: NewStream
  readonly measureIntervalMs?: number
  readonly fillers?: Fillers
  /** Of the servers that hold its copies, as far as they show it. */
  readonly serverStorage?: () => readonly ServerStorage[]
  /** Called after each look, whether JetStream answered or not. */
  readonly onReport: (report: StreamReport) => void
  readonly onNotice: OnNotice
  readonly timers: Timers
}

export class StreamKeeper {
  readonly #options: StreamKeeperOptions
  #connection: NatsConnection | null = null
  #isWanted = false
  #timer: Timer | null = null
  #isLooking = false
  #lastDifference: string | null = null
  #measureTimer: Timer | null = null
  /** Of the stream, its account, and the servers, by the subject of their sentences. */
  readonly #fillings = new Map<string, Filling>()
  #accountLimit: StorageLimit | null = null
  #measured: StreamFacts | null = null
  /** As it was last reported. */
  #unsafe: string | null = null
  #lags: ConsumerLags = {}

  constructor(options: StreamKeeperOptions) {
    this.#options = options
  }

  /** Measured some seconds ago, with `maxBytes` by the tightest of all limits; null: there is no connection, or no answer yet. */
  get measured(): StreamFacts | null {
    return this.#measured
  }

  /** The lags of its durable consumers, measured some seconds ago. */
  get lags(): ConsumerLags {
    return this.#lags
  }

  /** A connection came up, which is used at once, or went (null). */
  use(connection: NatsConnection | null): void {
    this.#connection = connection
    if (this.#timer !== null) this.#options.timers.clear(this.#timer)
    this.#timer = null
    this.#measured = null
    this.#accountLimit = null
    this.#lags = {}
    this.#measureLater()
    if (connection !== null) this.look()
  }

  /** Looks now, or once the interval after the last look has passed. */
  look(): void {
    this.#isWanted = true
    if (this.#connection === null || this.#isLooking || this.#timer !== null) return
    void this.#look(this.#connection)
  }

  /** A message was refused. Looks where that was for want of storage, unless it is known. */
  noteRefusal(reason: string): void {
    const limiter = limiterOf(reason)
    // Which of the servers it was is not said: the fullest.
    const limit = limiter === 'stream' ? STREAM_LIMIT : this.#limits.find((one) => one.of === limiter)
    const filling = limit === undefined ? undefined : this.#fillingOf(limit)
    filling?.noteRefusal()
    // Of an account's limit that is new there is nothing yet.
    if (filling?.isFull === false || (limit === undefined && limiter === 'account')) this.look()
  }

  /** The one with the least room first. */
  get #limits(): readonly StorageLimit[] {
    const servers = this.#options.serverStorage?.() ?? []
    const account = this.#accountLimit === null ? [] : [this.#accountLimit]
    return [...account, ...servers.map(serverLimitOf)].toSorted((one, other) => roomBytesOf(one) - roomBytesOf(other))
  }

  async #look(connection: NatsConnection): Promise<void> {
    this.#isWanted = false
    this.#isLooking = true
    const report = await ensureStream(connection, this.#options.newStream, this.#options.timers.nowMs())
    this.#isLooking = false
    if (connection !== this.#connection) {
      // The connection broke meanwhile, so its report says nothing. The next one may be up already.
      if (this.#connection !== null) this.look()
      return
    }
    this.#timer = this.#options.timers.setTimeout(() => {
      this.#timer = null
      if (this.#isWanted) this.look()
    }, LOOK_INTERVAL_MS)
    this.#timer.unref()
    this.#take(report)
    if (report.kind === 'present') this.#unsafe = report.facts.unsafe
    this.#options.onReport(report)
    if (report.kind === 'present') await this.#fill(connection, report.facts)
  }

  #measureLater(): void {
    if (this.#measureTimer !== null) this.#options.timers.clear(this.#measureTimer)
    this.#measureTimer = null
    const connection = this.#connection
    if (connection === null) return
    const intervalMs = this.#options.measureIntervalMs ?? MEASURE_INTERVAL_MS
    this.#measureTimer = this.#options.timers.setTimeout(() => void this.#measure(connection), intervalMs)
    this.#measureTimer.unref()
  }

  /** A missing answer does not count as an outage, which the acknowledgements detect: the last measurement is kept. */
  async #measure(connection: NatsConnection): Promise<void> {
    const report = await describeStream(connection)
    const hasConsumers = report.kind === 'present' && report.facts.consumers > 0
    const lags = hasConsumers ? await measureLags(connection, this.#options.timers.nowMs()) : {}
    if (connection !== this.#connection) return
    if (report.kind === 'present' && lags !== null) this.#lags = lags
    // Where nothing is published, no missing acknowledgement shows that the stream was deleted.
    if (report.kind === 'absent') this.look()
    if (report.kind === 'present' && report.facts.unsafe !== this.#unsafe) this.look()
    this.#take(report)
    if (report.kind === 'present') await this.#fill(connection, report.facts)
    if (connection !== this.#connection) return
    this.#measureLater()
  }

  #take(report: StreamReport): void {
    if (report.kind !== 'present') return
    if (report.created) {
      const { replicas } = report.facts
      const counted = replicas === 1 ? '1 replica' : `${replicas} replicas`
      this.#options.onNotice(`stream ${EVENTS_STREAM} was created with ${counted}`, 'info')
    }
    const difference = differenceText(report.facts.differences)
    if (difference !== null && difference !== this.#lastDifference) this.#options.onNotice(difference)
    this.#lastDifference = difference
  }

  /** How full the stream is, and what else its messages take the room of. */
  async #fill(connection: NatsConnection, facts: StreamFacts): Promise<void> {
    const { bytes, discardsOld, maxBytes, replicas } = facts
    const accountLimit = await readAccountLimit(connection, replicas)
    if (connection !== this.#connection) return
    this.#accountLimit = accountLimit
    const limits = this.#limits
    this.#measured = { ...facts, maxBytes: fullAtBytes(facts, limits) }
    const bounded = new Set(limits.map(({ store }) => store))
    if (maxBytes !== null && !discardsOld) {
      bounded.add(STREAM_LIMIT.store)
      this.#fillingOf(STREAM_LIMIT).look(bytes, maxBytes, adviceOf('raise its max_bytes'))
    }
    for (const limit of limits) this.#fillingOf(limit).look(limit.usedBytes, limit.maxBytes, adviceOf(limit.advice))
    for (const [store, filling] of this.#fillings) {
      if (bounded.has(store)) continue
      filling.unbound()
      // A server without a name of its own has another at each start.
      this.#fillings.delete(store)
    }
  }

  #fillingOf({ store, copies }: Pick<StorageLimit, 'store' | 'copies'>): Filling {
    const known = this.#fillings.get(store)
    if (known !== undefined) return known
    const filling = new Filling({ ...this.#options, store, largestBytes: copies * MAX_RECORD_BYTES })
    this.#fillings.set(store, filling)
    return filling
  }
}

function adviceOf(first: string): () => string {
  return () => `${first}, or ${PURGE_ADVICE}`
}
