// What a search for one batch has found, and the same as JSON, for `sluice find --json` and for the console.

import type { Question } from './question.ts'

export type Place =
  | { readonly kind: 'journal'; readonly segment: string; readonly offsetBytes: number; readonly lengthBytes: number }
  | {
      readonly kind: 'stream'
      readonly stream: string
      readonly subject: string
      readonly sequence: number
      readonly storedAtMs: number
    }

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
  readonly searched: { readonly fromMs: number; readonly toMs: number }
  /** When the oldest record in the queue was stored; null: the queue is empty. */
  readonly reachesBackToMs: number | null
  /** false: the search was ended before it had read all of `searched`. */
  readonly isComplete: boolean
  /** What may have become of the batch, and what to try, in sentences. */
  readonly advice: string
}

export type Finding = Found | NotFound

/** How far a search has come. */
export interface Progress {
  readonly unit: 'messages' | 'bytes'
  readonly read: number
  /** The time that it has reached in the queue. */
  readonly reachedMs: number
}

export interface SearchOptions {
  /** Ends the search, which then answers with what it knows. */
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

/** `withRecord`: the record stands in it byte for byte, since a parser would round its numbers. */
export function findingJson(finding: Finding, question: Question, { withRecord }: { withRecord: boolean }): string {
  if (finding.kind === 'not found') {
    const { searched, reachesBackToMs, isComplete, advice } = finding
    return JSON.stringify({
      found: false,
      batch_id: question.batchId,
      searched_from: timeText(searched.fromMs),
      searched_to: timeText(searched.toMs),
      queue_reaches_back_to: reachesBackToMs === null ? null : timeText(reachesBackToMs),
      complete: isComplete,
      advice,
    })
  }
  const { record, place, consumers } = finding
  const head = JSON.stringify({
    found: true,
    batch_id: record.batchId,
    app_id: record.appId,
    received_at: record.receivedAt,
    sdk_version: record.sdkVersion,
    trace: record.trace,
    events: record.events,
    keyed: question.madeAtMs === null,
    place: placeJson(place),
    // NATS does not tell when a consumer read a message.
    consumers: consumers.map(({ name, state }) => ({ name, state, read_at: null })),
  })
  return withRecord ? `${head.slice(0, -1)},"record":${record.line.toString('utf8')}}` : head
}

function placeJson(place: Place): unknown {
  if (place.kind === 'journal') {
    const { kind, segment, offsetBytes, lengthBytes } = place
    return { kind, segment, offset_bytes: offsetBytes, length_bytes: lengthBytes }
  }
  const { kind, stream, subject, sequence, storedAtMs } = place
  return { kind, stream, subject, sequence, stored_at: timeText(storedAtMs) }
}

/** A time that no date can show is cut to the last one. */
export function timeText(timeMs: number): string {
  return new Date(Math.max(-MAX_DATE_MS, Math.min(MAX_DATE_MS, timeMs))).toISOString()
}

const MAX_DATE_MS = 8.64e15
