// Looks for one batch in the stream, from the time at which it may have been stored on. A keyed record is a message of
// its own under its id, so headers are enough to find it; one without a key lies anywhere in the lines of a message.

import type { JsMsg } from '@nats-io/jetstream'
import type { NatsConnection } from '@nats-io/transport-node'
import {
  type Finding,
  type FoundRecord,
  readFoundRecord,
  type SearchOptions,
  startOfRecord,
} from '../../find/finding.ts'
import { notFound } from '../../find/not-found.ts'
import type { Question, Span } from '../../find/question.ts'
import { describeStream, ID_HEADER, STREAM_NAME, type StreamFacts } from '../stream.ts'
import { subjectOfApp } from '../stream-subject.ts'
import { consumerStates } from './consumer-states.ts'
import { getFromLeader } from './stream-message.ts'
import { readRange } from './stream-range.ts'
import { recordsOf } from './stream-records.ts'

const NANOSECONDS_A_MS = 1_000_000
const PROGRESS_EVERY = 1000
const GET_TIMEOUT_MS = 5000

export interface StreamSearchOptions extends SearchOptions {
  /** As the service has it: an app's records are in one of so many subjects. */
  readonly partitions: number
  /** Messages between two reports; default 1000. */
  readonly progressEvery?: number
}

interface Hit {
  readonly record: FoundRecord
  readonly subject: string
  readonly sequence: number
  readonly storedAtMs: number
}

/** Rejects where the stream cannot be read. */
export async function findInStream(
  connection: NatsConnection,
  question: Question,
  options: StreamSearchOptions,
): Promise<Finding> {
  const report = await describeStream(connection)
  if (report.kind === 'unreadable') throw new Error(`the stream cannot be read: ${report.reason}`)
  if (report.kind === 'absent' || report.facts.messages === 0) {
    return notFound(question, { reachesBackToMs: null, stoppedAtMs: null })
  }
  const search = new StreamSearch(connection, question, options, report.facts)
  const hit = await search.run()
  if (hit === null) {
    return notFound(question, { reachesBackToMs: report.facts.oldestAtMs, stoppedAtMs: search.stoppedAtMs })
  }
  const { record, subject, sequence, storedAtMs } = hit
  return {
    kind: 'found',
    record,
    place: { kind: 'stream', stream: STREAM_NAME, subject, sequence, storedAtMs },
    consumers: await consumerStates(connection, hit),
  }
}

class StreamSearch {
  /** null: the search was not stopped. */
  stoppedAtMs: number | null = null
  readonly #connection: NatsConnection
  readonly #question: Question
  readonly #options: StreamSearchOptions
  readonly #stream: StreamFacts
  /** What the record's line begins with. */
  readonly #wanted: Buffer
  #read = 0

  constructor(connection: NatsConnection, question: Question, options: StreamSearchOptions, stream: StreamFacts) {
    this.#connection = connection
    this.#question = question
    this.#options = options
    this.#stream = stream
    this.#wanted = Buffer.from(startOfRecord(question.batchId))
  }

  async run(): Promise<Hit | null> {
    const { appId, spans } = this.#question
    const subject = appId === null ? null : await subjectOfApp(this.#connection, appId, this.#options.partitions)
    for (const span of spans) {
      const hit = await this.#searchSpan(span, subject)
      if (hit !== null || this.stoppedAtMs !== null) return hit
    }
    return null
  }

  async #searchSpan({ fromMs, toMs }: Span, subject: string | null): Promise<Hit | null> {
    const { signal, onProgress, progressEvery = PROGRESS_EVERY } = this.#options
    const fromOldest = Math.max(fromMs, this.#stream.oldestAtMs ?? 0)
    if (fromOldest > toMs) return null
    const isEnded = (): boolean => signal?.aborted === true
    if (isEnded()) {
      this.stoppedAtMs = fromOldest
      return null
    }
    const messages = readRange(this.#connection, {
      from: { timeMs: fromOldest },
      until: this.#stream.lastSequence,
      headersOnly: this.#question.madeAtMs === null,
      ...(subject === null ? {} : { subject }),
      ...(signal === undefined ? {} : { signal }),
    })
    let reachedMs = fromOldest
    for await (const message of messages) {
      reachedMs = storedAtMs(message)
      if (reachedMs > toMs) return null
      const hit = await this.#look(message)
      if (hit !== null) return hit
      this.#read += 1
      if (this.#read % progressEvery === 0) onProgress?.({ unit: 'messages', read: this.#read, reachedMs })
    }
    if (isEnded()) this.stoppedAtMs = reachedMs
    return null
  }

  async #look(message: JsMsg): Promise<Hit | null> {
    if (this.#question.madeAtMs !== null) return this.#lookInto(message, message.data)
    if (message.headers?.get(ID_HEADER) !== this.#question.batchId) return null
    const whole = await getFromLeader(this.#connection, message.seq, GET_TIMEOUT_MS)
    // Removed between the two readings.
    return whole === null ? null : this.#lookInto(message, whole.data)
  }

  #lookInto(message: JsMsg, data: Uint8Array): Hit | null {
    const bytes = Buffer.from(data.buffer, data.byteOffset, data.length)
    // The lines are looked at only where the bytes are there at all.
    if (!bytes.includes(this.#wanted)) return null
    for (const line of recordsOf(bytes)) {
      if (!line.subarray(0, this.#wanted.length).equals(this.#wanted)) continue
      const record = readFoundRecord(line, this.#question.batchId)
      if (record === null) continue
      return { record, subject: message.subject, sequence: message.seq, storedAtMs: storedAtMs(message) }
    }
    return null
  }
}

function storedAtMs({ info }: JsMsg): number {
  return Math.floor(info.timestampNanos / NANOSECONDS_A_MS)
}
