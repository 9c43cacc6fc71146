// Reads the stream as it grows, for `sluice tail`: from its start or its end, and over broken
// connections.

import { setTimeout as sleep } from 'node:timers/promises'
import type { JsMsg } from '@nats-io/jetstream'
import type { NatsConnection } from '@nats-io/transport-node'
import type { NatsAccess } from '../../../nats/address.ts'
import { connectNats, describeFault } from '../../../nats/connection.ts'
import { describeStream } from '../stream.ts'
import { readRange, type StreamRange } from './stream-range.ts'

const RECONNECT_MS = 250
/** Between two looks for a stream that does not exist yet. */
const ABSENT_POLL_MS = 250

export interface ReadStreamOptions {
  readonly nats: NatsAccess | string
  /** The oldest message that is kept, or the end as it is now. */
  readonly from: 'start' | 'end'
  /** Only this subject; undefined: all. */
  readonly subject?: string
  /** Goes on as the stream grows, and waits for a stream that does not exist yet. */
  readonly follow: boolean
  readonly signal: AbortSignal
  /** Gets a sentence when a followed stream cannot be read for a while, and when it is read again. */
  readonly onNotice?: (message: string) => void
}

/** Rejects where NATS cannot be reached at the start. A reader that follows waits for its return from then on. */
export async function* readStream(options: ReadStreamOptions): AsyncGenerator<JsMsg> {
  const { nats, follow, signal, onNotice = () => {} } = options
  const reader = new Reader(options)
  let connection: NatsConnection | null = await connectNats(nats)
  let isInterrupted = false
  try {
    while (!signal.aborted) {
      try {
        connection ??= await connectNats(nats)
        if (isInterrupted) onNotice(`reconnected${reader.place}`)
        isInterrupted = false
        yield* reader.read(connection)
        return
      } catch (error) {
        if (!follow) throw error
        if (!isInterrupted) onNotice(`the stream cannot be read: ${describeFault(error)}; trying again until it can`)
        isInterrupted = true
        await connection?.close()
        connection = null
        await sleep(RECONNECT_MS, undefined, { signal }).catch(() => {})
      }
    }
  } finally {
    await connection?.close()
  }
}

/** Knows what has been read, over all connections. */
class Reader {
  readonly #options: ReadStreamOptions
  /** The next sequence; null: not known before NATS has said where the stream begins and ends. */
  #next: number | null = null
  #createdAt: string | null = null

  constructor(options: ReadStreamOptions) {
    this.#options = options
  }

  /** Where it continues, in words. */
  get place(): string {
    return this.#next === null ? '' : `, continuing at message ${this.#next}`
  }

  async *read(connection: NatsConnection): AsyncGenerator<JsMsg> {
    const { follow, signal } = this.#options
    while (!signal.aborted) {
      const range = await this.#range(connection)
      if (range !== null) {
        if (range.until !== null && range.from > range.until) return
        for await (const message of readRange(connection, range)) {
          // Set before the yield, so that no message is read twice after an error.
          this.#next = message.seq + 1
          yield message
        }
        return
      }
      if (!follow) return
      await sleep(ABSENT_POLL_MS, undefined, { signal }).catch(() => {})
    }
  }

  /** What is to be read next; null: there is no stream. */
  async #range(connection: NatsConnection): Promise<(StreamRange & { readonly from: number }) | null> {
    const { from, follow, signal, subject } = this.#options
    const report = await describeStream(connection)
    if (report.kind === 'unreadable') throw new Error(report.reason)
    if (report.kind === 'absent') {
      // Everything in a stream that comes later is new.
      this.#next ??= 1
      return null
    }
    const { createdAt, firstSequence, lastSequence } = report.facts
    const isAnew = this.#createdAt !== null && createdAt !== this.#createdAt
    this.#createdAt = createdAt
    if (isAnew) this.#next = firstSequence
    this.#next ??= from === 'end' ? lastSequence + 1 : firstSequence
    return {
      from: Math.max(1, firstSequence, this.#next),
      until: follow ? null : lastSequence,
      signal,
      ...(subject === undefined ? {} : { subject }),
    }
  }
}
