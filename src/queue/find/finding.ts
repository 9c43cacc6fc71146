// What a search for one batch has found. Faces put it into words.

import type { NotFoundReason } from './not-found-reason.ts'
import { MAX_LEAD_MS, type Question, type Span } from './question.ts'

export interface StreamPlace {
  readonly kind: 'stream'
  readonly stream: string
  readonly subject: string
  readonly sequence: number
  readonly storedAtMs: number
}

export type Place =
  | { readonly kind: 'journal'; readonly segment: string; readonly offsetBytes: number; readonly lengthBytes: number }
  | StreamPlace

/**
 * acknowledged: the consumer is done with it. delivered: it was sent to the consumer, and is not known to be acknowledged,
 * since something before it, or itself, still waits for that. waiting: not sent yet. skipped: the consumer was told to
 * begin behind it. other subject: the consumer does not read this partition.
 */
export type ConsumerStateName = 'acknowledged' | 'delivered' | 'waiting' | 'skipped' | 'other subject'

export interface ConsumerState {
  readonly name: string
  readonly state: ConsumerStateName
}

export interface Found {
  readonly kind: 'found'
  readonly record: FoundRecord
  readonly place: Place
  /** The durable consumers of the stream, the first ones by name; none for a journal. */
  readonly consumers: readonly ConsumerState[]
}

export interface NotFound {
  readonly kind: 'not found'
  readonly reason: NotFoundReason
  /** What was read of the queue. */
  readonly searched: Span
  /** When the oldest record in the queue was stored; null: the queue is empty. */
  readonly reachesBackToMs: number | null
}

export type Finding = Found | NotFound

/** `stoppedAtMs`: the time of the oldest record that was read; null: nothing was left to read. */
export function notFound(
  question: Question,
  { reachesBackToMs, stoppedAtMs }: Pick<NotFound, 'reachesBackToMs'> & { readonly stoppedAtMs: number | null },
): NotFound {
  const { spans, askedAtMs } = question
  const span = spans[spans.length - 1]
  const fromMs = stoppedAtMs ?? (Number.isFinite(span.fromMs) ? span.fromMs : (reachesBackToMs ?? askedAtMs))
  return {
    kind: 'not found',
    reason: stoppedAtMs === null ? reasonOf(question, reachesBackToMs) : 'stopped',
    searched: { fromMs, beforeMs: Math.min(span.beforeMs, askedAtMs) },
    reachesBackToMs,
  }
}

/** A search before this time goes on where this one stopped. Others of the same millisecond may not have been read. */
export function goOnBeforeMs({ searched }: NotFound): number {
  return searched.fromMs + 1
}

function reasonOf(
  { madeAtMs, spans, isNarrowed, askedAtMs }: Question,
  reachesBackToMs: number | null,
): NotFoundReason {
  const span = spans[spans.length - 1]
  if (reachesBackToMs === null) return 'empty'
  if (madeAtMs !== null && madeAtMs > askedAtMs + MAX_LEAD_MS) return 'future'
  if (isNarrowed && (span.fromMs > reachesBackToMs || span.beforeMs <= askedAtMs)) return 'narrowed'
  return madeAtMs !== null && madeAtMs < reachesBackToMs ? 'expired' : 'absent'
}

/** How far a search of a journal has come. */
export interface Progress {
  readonly bytesRead: number
  /** The time that it has reached. */
  readonly reachedMs: number
}

export interface SearchOptions {
  /** Ends the search when the part that it reads is read. It then answers how far it came. */
  readonly signal?: AbortSignal
  readonly onProgress?: (progress: Progress) => void
}

/** The record that was looked for. */
export interface FoundRecord {
  /** As stored, without its newline. */
  readonly line: Buffer
  readonly batchId: string
  readonly appId: string
  readonly receivedAt: string
  readonly sdkVersion: string | null
  /** The request's `traceparent`. */
  readonly trace: string | null
  readonly events: number
}

/** The bytes with which the record of a batch begins. A client cannot put them at the start of a line. */
export function startOfRecord(batchId: string): string {
  return `{"v":1,"batch_id":"${batchId}"`
}

const APP_ID = /^[A-Za-z0-9_-]{1,64}$/
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/

/** null: the line is not a whole record, or another batch's. */
export function readFoundRecord(line: Buffer, batchId: string): FoundRecord | null {
  let value: unknown
  try {
    value = JSON.parse(line.toString('utf8'))
  } catch {
    return null
  }
  if (typeof value !== 'object' || value === null) return null
  const members = value as Readonly<Record<string, unknown>>
  const { batch_id: id, app_id: appId, received_at: receivedAt, events } = members
  if (id !== batchId || typeof appId !== 'string' || typeof receivedAt !== 'string' || !Array.isArray(events)) {
    return null
  }
  // Anybody may have written the line, and these are shown on a terminal as they are.
  if (!APP_ID.test(appId) || !TIME.test(receivedAt)) return null
  return {
    line,
    batchId,
    appId,
    receivedAt,
    sdkVersion: textOrNull(members['sdk_version']),
    trace: textOrNull(members['trace']),
    events: events.length,
  }
}

function textOrNull(value: unknown): string | null {
  return typeof value === 'string' ? value : null
}
