// Which batch is looked for, and the times at which it may have been stored. An id of version 7 holds the time at which it was made;
// one of version 5, which is derived from app and Idempotency-Key, does not. No batch has an id of another version: it is not found.

import { batchIdOf, isAppId, isUuid, timeOfId } from '../../contract/ids.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../lib/spans.ts'
import { parseTimestamp } from '../../lib/timestamp.ts'

const UNIT_MS = { m: MINUTE_MS, h: HOUR_MS, d: DAY_MS } as const
/** Read first: nearly every record is stored within a moment of its id, and a busy queue holds a million a minute. */
const AT_ONCE = { beforeMs: 200, afterMs: 2000 } as const
/** Read next: the record waited, or a clock was wrong. */
const MARGIN_MS = 10 * MINUTE_MS
/** The clock of another machine may be ahead by this much. */
export const MAX_LEAD_MS = MARGIN_MS

export interface Span {
  readonly fromMs: number
  /** The first time behind it. */
  readonly beforeMs: number
}

export interface Question {
  /** In lower case. */
  readonly batchId: string
  /** null: not known. */
  readonly appId: string | null
  /** When the id was made; null: it does not tell, such as one that was derived from an Idempotency-Key. */
  readonly madeAtMs: number | null
  /** What is searched, one after the other; the last one holds the others. */
  readonly spans: readonly Span[]
  /** The asker gave a time, so that these may leave out what the queue has. */
  readonly isNarrowed: boolean
  readonly askedAtMs: number
}

/** The words of a command line or a query: an id alone, or app and key. */
export interface Asked {
  readonly id?: string | undefined
  readonly app?: string | undefined
  readonly key?: string | undefined
  /** These two: RFC 3339, or an age such as `30m`, `2h` or `3d`. */
  readonly since?: string | undefined
  readonly before?: string | undefined
}

/** Of a UUID: a batch with a key has one of version 5, one without a key one of version 7. */
export const isBatchId = (uuid: string): boolean => '57'.includes(uuid[14])

/** `mistake` says what is wrong with the member, such as `must not lie in the future`. */
export type QuestionReading =
  | { readonly kind: 'question'; readonly question: Question }
  | { readonly kind: 'mistake'; readonly member: keyof Asked; readonly mistake: string }

export function readQuestion({ id, app, key, since, before }: Asked, nowMs: number): QuestionReading {
  const sinceMs = since === undefined ? Number.NEGATIVE_INFINITY : parseTime(since, nowMs)
  const untilMs = before === undefined ? Number.POSITIVE_INFINITY : parseTime(before, nowMs)
  if (sinceMs === null) return mistaken('since', TIME_WANTED)
  if (untilMs === null) return mistaken('before', TIME_WANTED)
  if (sinceMs > nowMs) return mistaken('since', 'must not lie in the future')
  if (sinceMs >= untilMs) return mistaken('before', 'must be later than the time that the search looks back to')
  const found = (batchId: string, appId: string | null, madeAtMs: number | null): QuestionReading => {
    const isNarrowed = since !== undefined || before !== undefined
    const spans = spansOf(madeAtMs, { fromMs: sinceMs, beforeMs: untilMs })
    return { kind: 'question', question: { batchId, appId, madeAtMs, spans, isNarrowed, askedAtMs: nowMs } }
  }
  if (id !== undefined) {
    if (app !== undefined || key !== undefined) return mistaken('id', 'stands alone, without an app and a key')
    if (!isUuid(id)) return mistaken('id', 'must be a UUID, such as 0199f3a0-7c1e-7d2a-9f5b-3e8c1a2b4c6d')
    const batchId = id.toLowerCase()
    return found(batchId, null, timeOfId(batchId))
  }
  if (app === undefined) return mistaken(key === undefined ? 'id' : 'app', 'is missing')
  if (!isAppId(app)) return mistaken('app', 'must be an app_id: 1 to 64 letters, digits, _ or -')
  if (key === undefined) return mistaken('key', 'is missing')
  if (!isUuid(key)) return mistaken('key', 'must be an Idempotency-Key, which is a UUID')
  return found(batchIdOf(app, key.toLowerCase()), app, null)
}

const TIME_WANTED = 'must be a time with its zone, such as 2026-11-20T12:00:00Z, or an age such as 30m, 2h or 3d'

function mistaken(member: keyof Asked, mistake: string): QuestionReading {
  return { kind: 'mistake', member, mistake }
}

function spansOf(madeAtMs: number | null, asked: Span): Span[] {
  if (madeAtMs === null) return [asked]
  const fromMs = Math.max(asked.fromMs, madeAtMs - AT_ONCE.beforeMs)
  const beforeMs = Math.min(asked.beforeMs, madeAtMs + AT_ONCE.afterMs)
  // Whoever gives a time to look back to expects a clock that was further off.
  const hasSince = Number.isFinite(asked.fromMs)
  const around = { fromMs: madeAtMs - MARGIN_MS, beforeMs: Math.min(asked.beforeMs, madeAtMs + MARGIN_MS) }
  return [...(fromMs < beforeMs ? [{ fromMs, beforeMs }] : []), hasSince ? asked : around]
}

/** null: neither a time nor an age. */
function parseTime(text: string, nowMs: number): number | null {
  const age = /^(\d{1,6})([mhd])$/.exec(text)
  if (age !== null) return nowMs - Number(age[1]) * UNIT_MS[age[2] as keyof typeof UNIT_MS]
  return parseTimestamp(text, { needsZone: true })
}
