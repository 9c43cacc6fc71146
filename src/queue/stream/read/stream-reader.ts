// Reads the stream as it grows, for `sluice tail`: from its start or its end, over broken connections, and without a consumer in the server.

import { setTimeout as sleep } from 'node:timers/promises'
import type { NatsConnection } from '@nats-io/transport-node'
import { connectNats, describeFault } from '../../../nats/connection.ts'
import { ALL_SUBJECTS, describeStream } from '../stream.ts'
import type { StoredMessage } from './stream-message.ts'
import { readRange, type StreamRange } from './stream-range.ts'

const RECONNECT_MS = 250
const DEFAULT_POLL_MS = 1000
/** A message rings before it is stored: so soon the next look, and so many of them. */
const RUNG_POLL_MS = 20
const MAX_RUNG_POLLS = 25
const NO_STREAM = { allowsDirect: false, createdAt: null, firstSequence: 1, lastSequence: 0 }

export interface ReadStreamOptions {
  readonly url: string
  /** The oldest message that is kept, or the end as it is now. */
  readonly from: 'start' | 'end'
  /** Only this subject; undefined: all. */
  readonly subject?: string
  /** Goes on as the stream grows; a stream that does not exist yet is waited for. */
  readonly follow: boolean
  readonly signal: AbortSignal
  /** Between two looks at the stream's end where no message rings for one: a bell may be lost. */
  readonly pollMs?: number
  /** Gets a sentence where a followed stream cannot be read for a while, and where it goes on. */
  readonly onNotice?: (message: string) => void
}

/** Rejects where NATS cannot be reached at the start; one that follows then waits for its return. */
export async function* readStream(options: ReadStreamOptions): AsyncGenerator<StoredMessage> {
  const { url, follow, signal, onNotice = () => {} } = options
  const cursor = new Cursor(options)
  let connection: NatsConnection | null = await connectNats(url)
  let isTroubled = false
  try {
    while (!signal.aborted) {
      try {
        connection ??= await connectNats(url)
        if (isTroubled) onNotice('reading goes on')
        isTroubled = false
        yield* cursor.read(connection)
        return
      } catch (error) {
        if (!follow) throw error
        if (!isTroubled) onNotice(`the stream cannot be read for now: ${describeFault(error)}`)
        isTroubled = true
        await connection?.close()
        connection = null
        await sleep(RECONNECT_MS, undefined, { signal }).catch(() => {})
      }
    }
  } finally {
    await connection?.close()
  }
}

/** Where the reading stands, over all connections. */
class Cursor {
  readonly #options: ReadStreamOptions
  /** The next sequence; null: not known before NATS has told where the stream begins and ends. */
  #next: number | null = null
  #createdAt: string | null = null

  constructor(options: ReadStreamOptions) {
    this.#options = options
  }

  async *read(connection: NatsConnection): AsyncGenerator<StoredMessage> {
    const { follow, signal } = this.#options
    const bell = follow ? new Bell(connection, this.#options) : null
    try {
      while (!signal.aborted) {
        const range = await this.#look(connection)
        const { from, until } = range
        for await (const message of readRange(connection, range)) {
          // Before the caller has it: whatever happens next, it is not read twice.
          this.#next = message.sequence + 1
          yield message
          if (signal.aborted) return
        }
        this.#next = Math.max(from, until + 1)
        if (bell === null) return
        await bell.wait(until >= from)
      }
    } finally {
      bell?.stop()
    }
  }

  /** What is to be read next; throws where NATS does not tell. */
  async #look(connection: NatsConnection): Promise<StreamRange> {
    const { from, subject } = this.#options
    const report = await describeStream(connection)
    if (report.kind === 'unreadable') throw new Error(report.reason)
    const facts = report.kind === 'present' ? report.facts : NO_STREAM
    const { allowsDirect, createdAt, firstSequence, lastSequence } = facts
    const isAnew = this.#createdAt !== null && createdAt !== null && createdAt !== this.#createdAt
    this.#createdAt = createdAt ?? this.#createdAt
    if (isAnew) this.#next = firstSequence
    this.#next ??= from === 'end' ? lastSequence + 1 : firstSequence
    return {
      from: Math.max(1, firstSequence, this.#next),
      until: lastSequence,
      allowsDirect,
      ...(subject === undefined ? {} : { subject }),
    }
  }
}

/** Wakes a reader that has seen all there is, soon after a message came. */
class Bell {
  readonly #signal: AbortSignal
  readonly #pollMs: number
  readonly #stopListening: () => void
  #isRung = false
  #rungPolls = 0
  #wake: (() => void) | null = null

  constructor(connection: NatsConnection, { pollMs, signal, subject }: ReadStreamOptions) {
    this.#signal = signal
    this.#pollMs = pollMs ?? DEFAULT_POLL_MS
    const subscription = connection.subscribe(subject ?? ALL_SUBJECTS, {
      callback: () => {
        this.#isRung = true
        this.#wake?.()
      },
    })
    const onAbort = (): void => this.#wake?.()
    signal.addEventListener('abort', onAbort)
    this.#stopListening = () => {
      signal.removeEventListener('abort', onAbort)
      if (!connection.isClosed()) subscription.unsubscribe()
    }
    void connection.closed().then(onAbort)
  }

  /** `hasNews`: the last look found something, so that what rang may have been that. */
  async wait(hasNews: boolean): Promise<void> {
    if (this.#isRung) this.#rungPolls = MAX_RUNG_POLLS
    this.#isRung = false
    if (hasNews) this.#rungPolls = Math.min(this.#rungPolls, 1)
    const isExpecting = this.#rungPolls > 0
    if (isExpecting) this.#rungPolls -= 1
    if (this.#signal.aborted) return
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, isExpecting ? RUNG_POLL_MS : this.#pollMs)
      // One that expects news waits its few ms even where more rings: many messages need not make as many looks.
      if (isExpecting) return
      this.#wake = () => {
        clearTimeout(timer)
        resolve()
      }
    })
    this.#wake = null
  }

  stop(): void {
    this.#stopListening()
  }
}
