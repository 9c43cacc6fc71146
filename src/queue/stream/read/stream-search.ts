// Looks for one batch in the stream, the newest messages first. A keyed record is a message of its own under its id, so
// headers are enough to find it; one without a key lies anywhere in the lines of a message.

import type { JsMsg } from '@nats-io/jetstream'
import type { NatsConnection } from '@nats-io/transport-node'
import { startOfRecord } from '../../../contract/record/record-head.ts'
import { recordsOf } from '../../../contract/record/record-lines.ts'
import { readRecord } from '../../../contract/record/record-members.ts'
import { UnavailableError } from '../../../lib/errors.ts'
import { EVENTS_STREAM } from '../../../nats/store-names.ts'
import { type Finding, type Found, notFound, type SearchOptions, type StreamPlace } from '../../find/finding.ts'
import { MAX_LEAD_MS, type Question, type Span } from '../../find/question.ts'
import { describeStream, ID_HEADER, SPOOL_HEADER, type StreamFacts } from '../stream.ts'
import { subjectOfApp } from '../stream-subject.ts'
import { consumerStates } from './consumer-states.ts'
import { getFromLeader } from './stream-message.ts'
import { readRange, type StreamRange } from './stream-range.ts'

const NANOSECONDS_A_MS = 1_000_000
const GET_TIMEOUT_MS = 5000
/** NATS reads forward only, so that the stream is read in chunks, each so large that it takes about this long. */
const CHUNK_MS = 200
/** Sequences of the first chunk, also the fewest. */
const MIN_CHUNK = 256
const MAX_CHUNK = 1_048_576
const MAX_HEADERS_AHEAD = 4096
/** One that is not read by then never will be. */
const CHUNK_TIMEOUT_MS = 10_000

export interface StreamSearchOptions extends SearchOptions {
  /** As the service has it: an app's records are in one of so many subjects. */
  readonly partitions: number
}

interface Search {
  readonly connection: NatsConnection
  readonly question: Question
  readonly stream: StreamFacts
  /** Of the app that is asked for; null: of any. */
  readonly subject: string | null
  readonly signal: AbortSignal | undefined
}

/** Rejects where the stream cannot be read. */
export async function findInStream(
  connection: NatsConnection,
  question: Question,
  { partitions, signal }: StreamSearchOptions,
): Promise<Finding> {
  const report = await describeStream(connection)
  if (report.kind === 'unreadable') throw new UnavailableError(`the stream cannot be read: ${report.reason}`)
  if (report.kind === 'absent' || report.facts.messages === 0) {
    return notFound(question, { reachesBackToMs: null, stoppedAtMs: null })
  }
  const { appId, spans } = question
  const subject = appId === null ? null : await subjectOfApp(connection, appId, partitions)
  const search: Search = { connection, question, stream: report.facts, subject, signal }
  let stoppedAtMs: number | null = null
  for (const [index, span] of spans.entries()) {
    const result = await searchSpan(search, span, { isLast: index === spans.length - 1 })
    if (typeof result === 'number') stoppedAtMs = result
    else if (result !== null) return { ...result, consumers: await consumerStates(connection, result.place) }
  }
  return notFound(question, { reachesBackToMs: report.facts.oldestAtMs, stoppedAtMs })
}

type Hit = Found & { readonly place: StreamPlace }

/**
 * A number: the time of the oldest message that was read before the search was ended. A span that is not the last one is
 * read as one chunk, since the batch most likely is among its first.
 */
async function searchSpan(
  search: Search,
  { fromMs, beforeMs }: Span,
  { isLast }: { isLast: boolean },
): Promise<Hit | number | null> {
  const first = await sequenceAt(search, fromMs)
  let end = await sequenceAt(search, beforeMs)
  let size = isLast ? MIN_CHUNK : MAX_CHUNK
  while (end > first) {
    const startedAtMs = performance.now()
    const start = Math.max(first, end - size)
    const hit = await newestIn(search, start, end - 1)
    if (hit !== null) return hit
    end = start
    if (isLast && end > first && search.signal?.aborted === true) {
      const oldest = await firstFrom(search, end)
      return oldest === null ? search.question.askedAtMs : storedAtMs(oldest)
    }
    const factor = Math.min(4, Math.max(0.25, CHUNK_MS / (performance.now() - startedAtMs)))
    size = Math.min(MAX_CHUNK, Math.max(MIN_CHUNK, Math.round(size * factor)))
  }
  return null
}

/** The sequence of the first message that was stored at this time or later. */
async function sequenceAt(search: Search, timeMs: number): Promise<number> {
  const { firstSequence, lastSequence, oldestAtMs } = search.stream
  if (timeMs <= (oldestAtMs ?? 0)) return firstSequence
  // Nothing is stored so late, and NATS takes no year of five digits.
  const isAhead = timeMs > search.question.askedAtMs + MAX_LEAD_MS
  return (isAhead ? null : await firstFrom(search, { timeMs }))?.seq ?? lastSequence + 1
}

/** Of any subject. */
async function firstFrom({ connection, stream }: Search, from: StreamRange['from']): Promise<JsMsg | null> {
  const signal = AbortSignal.timeout(GET_TIMEOUT_MS)
  const range = { from, until: stream.lastSequence, headersOnly: true, messagesAhead: 1, signal }
  for await (const message of readRange(connection, range)) return message
  return null
}

/** The newest one of these sequences; or any one, where there are no two of an id. */
async function newestIn(search: Search, from: number, until: number): Promise<Hit | null> {
  const { connection, question, subject } = search
  const headersOnly = question.madeAtMs === null
  const signal = AbortSignal.timeout(CHUNK_TIMEOUT_MS)
  const messagesAhead = Math.min(until - from + 1, MAX_HEADERS_AHEAD)
  const how = { ...(headersOnly ? { headersOnly, messagesAhead } : {}), ...(subject === null ? {} : { subject }) }
  let newest: Hit | null = null
  for await (const message of readRange(connection, { from, until, signal, ...how })) {
    newest = (await hitIn(search, message)) ?? newest
    if (newest !== null && !headersOnly) break
  }
  if (signal.aborted) throw new UnavailableError(`NATS did not send ${until - from + 1} messages within 10 s`)
  return newest
}

async function hitIn({ connection, question }: Search, message: JsMsg): Promise<Hit | null> {
  if (question.madeAtMs !== null) return recordIn(message, message.data, question)
  // Of a batch that was in doubt the id may be followed by a number (Entry.burntIds).
  if (message.headers?.get(ID_HEADER).startsWith(question.batchId) !== true) return null
  const whole = await getFromLeader(connection, message.seq, GET_TIMEOUT_MS)
  // Removed between the two readings.
  return whole === null ? null : recordIn(message, whole.data, question)
}

function recordIn(message: JsMsg, data: Uint8Array, { batchId, appId }: Question): Hit | null {
  // Its lines are parsed only where the bytes are there at all.
  if (!Buffer.from(data.buffer, data.byteOffset, data.length).includes(startOfRecord(batchId, appId))) return null
  for (const line of recordsOf(data)) {
    const record = readRecord(line)
    if (record?.batchId !== batchId || (appId !== null && record.appId !== appId)) continue
    const { subject, seq: sequence } = message
    const isSpooled = message.headers?.has(SPOOL_HEADER) === true
    const stored = { subject, sequence, storedAtMs: storedAtMs(message), isSpooled }
    const place = { kind: 'stream', stream: EVENTS_STREAM, ...stored } as const
    return { kind: 'found', record, place, consumers: [] }
  }
  return null
}

function storedAtMs({ info }: JsMsg): number {
  return Math.floor(info.timestampNanos / NANOSECONDS_A_MS)
}
