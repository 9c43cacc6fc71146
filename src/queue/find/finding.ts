// What a search for one batch has found. Faces put it into words.

import type { ConsumerStateName, NotFoundReason } from '../../contract/admin/words.ts'
import type { StoredRecord } from '../../contract/record/record-members.ts'
import type { Damage } from '../journal/segment-cursor.ts'
import { MAX_LEAD_MS, type Question, type Span } from './question.ts'

export interface StreamPlace {
  readonly kind: 'stream'
  readonly stream: string
  readonly subject: string
  readonly sequence: number
  readonly storedAtMs: number
  /** It came from the spool of a node. */
  readonly isSpooled: boolean
}

interface FilePlace {
  readonly segment: string
  readonly offsetBytes: number
  readonly lengthBytes: number
}

/** spool: on the disk of this node, in `folder`, and not known to be in the stream yet. */
export type Place =
  | (FilePlace & { readonly kind: 'journal' })
  | (FilePlace & { readonly kind: 'spool'; readonly folder: string })
  | StreamPlace

/**
 * acknowledged: the consumer is done with it. delivered: it was sent to the consumer, and is not known to be acknowledged,
 * since something before it, or itself, still waits for that. waiting: not sent yet. skipped: the consumer was configured to
 * begin behind it. other subject: the consumer does not read this partition.
 */
export interface ConsumerState {
  readonly name: string
  readonly state: ConsumerStateName
}

export interface Found {
  readonly kind: 'found'
  readonly record: StoredRecord
  readonly place: Place
  /** The durable consumers of the stream, the first ones by name; none for a journal or a spool. */
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
  /** What was met of a journal that is not as it was written. */
  readonly onDamage?: (damage: Damage) => void
  /** A part that cannot be read, and why; the search goes on without it. */
  readonly onUnread?: (reason: string) => void
}
