// Looks after the stream while a connection is up: makes it where it is missing, warns where it would break a promise,
// asks again as long as something is amiss, and measures it now and then.

import type { NatsConnection } from '@nats-io/transport-node'
import type { OnNotice } from '../../lib/notice.ts'
import type { Timer, Timers } from '../../lib/timers.ts'
import { type ConsumerLags, measureLags } from './consumer-lag.ts'
import {
  describeStream,
  differenceText,
  ensureStream,
  type NewStream,
  STREAM_NAME,
  type StreamFacts,
  type StreamReport,
} from './stream.ts'

/** Between two looks while something is amiss. */
const LOOK_INTERVAL_MS = 500
/** Between two measurements of a stream that is there. */
const MEASURE_INTERVAL_MS = 10_000

export interface StreamKeeperOptions {
  /** The stream, where it has to be made. */
  readonly newStream: NewStream
  /** Between two measurements of it. */
  readonly measureIntervalMs?: number
  /** Each look ends here: JetStream has answered, or has not. */
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
  #measured: StreamFacts | null = null
  #lags: ConsumerLags = {}

  constructor(options: StreamKeeperOptions) {
    this.#options = options
  }

  /** As it was some seconds ago; null: there is no connection, or no answer yet. */
  get measured(): StreamFacts | null {
    return this.#measured
  }

  /** Of its durable consumers, as they were some seconds ago. */
  get lags(): ConsumerLags {
    return this.#lags
  }

  /** A connection came up, or went (null). The first look at a new one is at once. */
  use(connection: NatsConnection | null): void {
    this.#connection = connection
    if (this.#timer !== null) this.#options.timers.clear(this.#timer)
    this.#timer = null
    this.#measured = null
    this.#lags = {}
    this.#measureLater()
    if (connection !== null) this.look()
  }

  /** Looks now, or, within the interval after the last look, at its end. */
  look(): void {
    this.#isWanted = true
    if (this.#connection === null || this.#isLooking || this.#timer !== null) return
    void this.#look(this.#connection)
  }

  async #look(connection: NatsConnection): Promise<void> {
    this.#isWanted = false
    this.#isLooking = true
    const report = await ensureStream(connection, this.#options.newStream)
    this.#isLooking = false
    if (connection !== this.#connection) {
      // It broke meanwhile, and what it said last is nothing to go by; the next one may be up already.
      if (this.#connection !== null) this.look()
      return
    }
    this.#timer = this.#options.timers.setTimeout(() => {
      this.#timer = null
      if (this.#isWanted) this.look()
    }, LOOK_INTERVAL_MS)
    this.#timer.unref()
    this.#take(report)
    this.#options.onReport(report)
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

  /** No answer is no sign of an outage: acknowledgements tell of that, and the last measurement stands. */
  async #measure(connection: NatsConnection): Promise<void> {
    const report = await describeStream(connection)
    const hasConsumers = report.kind === 'present' && report.facts.consumers > 0
    const lags = hasConsumers ? await measureLags(connection, this.#options.timers.nowMs()) : {}
    if (connection !== this.#connection) return
    if (report.kind === 'present' && lags !== null) this.#lags = lags
    this.#take(report)
    this.#measureLater()
  }

  #take(report: StreamReport): void {
    if (report.kind !== 'present') return
    this.#measured = report.facts
    if (report.created) {
      const { replicas } = report.facts
      const counted = replicas === 1 ? '1 replica' : `${replicas} replicas`
      this.#options.onNotice(`stream ${STREAM_NAME} was created with ${counted}`, 'info')
    }
    const difference = differenceText(report.facts.differences)
    if (difference !== null && difference !== this.#lastDifference) this.#options.onNotice(difference)
    this.#lastDifference = difference
  }
}
