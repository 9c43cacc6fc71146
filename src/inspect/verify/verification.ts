// What a reading of the whole queue has found, and the checks of each record that journal and stream share.

import { readRecord, type StoredRecord } from '../../contract/record/record-members.ts'

/** Of an idempotency key, by when two records were stored. */
export const REPEAT_WINDOW_MS = 600_000
/** Of the ids that are compared; two lists of so many are kept. */
const MAX_IDS = 2_000_000
const MAX_PROBLEMS = 1000
const MAX_APPS = 20

export interface AppShare {
  readonly appId: string
  batches: number
  events: number
}

/**
 * checksum: bytes that are not those that were written. missing: they were written, and are gone. unchecked: there is no
 * checksum, among others. torn: a line without an end. record: no record. repeated: a batch with a key is there twice.
 * cost: the events that were charged are not those that are stored. gap: a file is missing. snapshot, cursor: it cannot be used.
 */
export type ProblemKind =
  | 'checksum'
  | 'missing'
  | 'unchecked'
  | 'torn'
  | 'record'
  | 'repeated'
  | 'cost'
  | 'gap'
  | 'snapshot'
  | 'cursor'

export interface Problem {
  readonly kind: ProblemKind
  /** A file, or the stream. */
  readonly where: string
  /** A byte of the file, or a sequence; null: it is about all of it. */
  readonly at: number | null
  /** A sentence without a period. */
  readonly detail: string
  /** Whose events they were, as far as it can be read; the first 20. */
  readonly apps: AppShare[]
}

interface RecordPlace {
  readonly where: string
  readonly at: number
  readonly storedAtMs: number | null
  readonly windowMs?: number
}

export interface Progress {
  /** Of `total`: bytes, or messages. */
  readonly done: number
  readonly total: number
}

export class Verification {
  records = 0
  events = 0
  bytes = 0
  /** Bytes that have no checksum: an earlier version wrote them, or they were written just now. */
  uncheckedBytes = 0
  /** The first ones. */
  readonly problems: Problem[] = []
  problemCount = 0
  /** More ids came within the window than are remembered. */
  hasForgottenIds = false
  #ids = new Map<number, number>()
  #olderIds = new Map<number, number>()
  #sinceMs = Number.NEGATIVE_INFINITY

  add(kind: ProblemKind, where: string, at: number | null, detail: string): Problem {
    const problem = { kind, where, at, detail, apps: [] }
    this.problemCount += 1
    if (this.problems.length < MAX_PROBLEMS) this.problems.push(problem)
    return problem
  }

  /**
   * null: the line is no record, which is a problem. `storedAtMs`: null, where the record alone tells. `windowMs`: in which its key
   * may not be there again.
   */
  addRecord(line: Buffer, { where, at, storedAtMs, windowMs = REPEAT_WINDOW_MS }: RecordPlace): StoredRecord | null {
    const record = readRecord(line)
    if (record === null) return null
    this.records += 1
    this.events += record.events
    const { batchId, appId, receivedAt, events } = record
    const timeMs = storedAtMs ?? Date.parse(receivedAt)
    const beforeMs = batchId[14] === '5' ? this.#remember(batchId, timeMs, windowMs) : null
    if (beforeMs !== null) {
      const spanS = Math.round((timeMs - beforeMs) / 1000)
      const problem = this.add(
        'repeated',
        where,
        at,
        `batch ${batchId} is stored again, ${spanS} s after the first time`,
      )
      addShare(problem, appId, events)
    }
    return record
  }

  /** What is read from here on is another copy: a batch that it shares with what was read before is not stored twice. */
  beginCopy(): void {
    this.#ids = new Map()
    this.#olderIds = new Map()
    this.#sinceMs = Number.NEGATIVE_INFINITY
  }

  /** When the same id was stored within the window; null: it was not. */
  #remember(batchId: string, timeMs: number, windowMs: number): number | null {
    if (this.#ids.size >= MAX_IDS || timeMs - this.#sinceMs > REPEAT_WINDOW_MS) {
      this.hasForgottenIds ||= timeMs - this.#sinceMs <= REPEAT_WINDOW_MS && this.#olderIds.size > 0
      this.#olderIds = this.#ids
      this.#ids = new Map()
      this.#sinceMs = timeMs
    }
    // The id has 122 bits that are as good as random: 52 of them, and ten more beside the time.
    const id = Number.parseInt(`${batchId.slice(20, 21)}${batchId.slice(24)}`, 16)
    const more = Number.parseInt(batchId.slice(0, 3), 16) & 1023
    const before = this.#ids.get(id) ?? this.#olderIds.get(id)
    this.#ids.set(id, timeMs * 1024 + more)
    if (before === undefined || before % 1024 !== more) return null
    const beforeMs = Math.floor(before / 1024)
    return Math.abs(timeMs - beforeMs) <= windowMs ? beforeMs : null
  }
}

export function addShare({ apps }: Problem, appId: string, events: number): void {
  const known = apps.find((share) => share.appId === appId)
  if (known !== undefined) {
    known.batches += 1
    known.events += events
  } else if (apps.length < MAX_APPS) apps.push({ appId, batches: 1, events })
}
