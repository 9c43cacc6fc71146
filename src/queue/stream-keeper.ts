// Looks after the stream while a connection is up: makes it where it is missing, warns where it differs, and asks again
// as long as something is amiss.

import type { NatsConnection } from '@nats-io/transport-node'
import type { OnNotice } from '../lib/notice.ts'
import type { Timer, Timers } from '../lib/timers.ts'
import { differenceText, ensureStream, STREAM_NAME, type StreamReport } from './stream.ts'

/** Between two looks while something is amiss. */
const LOOK_INTERVAL_MS = 500

export interface StreamKeeperOptions {
  /** Of the stream, where it is made here. */
  readonly replicas: number
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

  constructor(options: StreamKeeperOptions) {
    this.#options = options
  }

  /** A connection came up, or went (null). The first look at a new one is at once. */
  use(connection: NatsConnection | null): void {
    this.#connection = connection
    if (this.#timer !== null) this.#options.timers.clear(this.#timer)
    this.#timer = null
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
    const report = await ensureStream(connection, this.#options.replicas)
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
    this.#tell(report)
    this.#options.onReport(report)
  }

  #tell(report: StreamReport): void {
    if (report.kind !== 'present') return
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
