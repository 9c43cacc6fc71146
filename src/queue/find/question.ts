// Which batch is looked for, and the times at which it may have been stored. An id of version 7 tells when it was made;
// one of version 5, which is derived from app and Idempotency-Key, does not.

import { batchIdOf, isUuid } from '../../lib/ids.ts'
import { parseTimestamp } from '../../lib/timestamp.ts'

const MINUTE_MS = 60_000
const UNIT_MS = { m: MINUTE_MS, h: 60 * MINUTE_MS, d: 1440 * MINUTE_MS } as const
/** Read first: nearly every record is stored within a moment of its id, and a busy queue holds a million a minute. */
const AT_ONCE = { beforeMs: 200, afterMs: 2000 } as const
/** Read next: the record waited, or two clocks differ a little. */
const SOON = { beforeMs: 5000, afterMs: 15_000 } as const
/** Read last: a clock was wrong. */
const MARGIN_MS = 10 * MINUTE_MS
/** How far back a keyed batch is looked for where no time is given: what the stream's duplicate window covers. */
const KEYED_BACK_MS = 10 * MINUTE_MS

/** Both ends are inside. */
export interface Span {
  readonly fromMs: number
  readonly toMs: number
}

export interface Question {
  /** In lower case. */
  readonly batchId: string
  /** null: not known. */
  readonly appId: string | null
  /** When the id was made; null: it was derived from an Idempotency-Key, and does not tell. */
  readonly madeAtMs: number | null
  /** The time that the asker gave to look back to; null: none. */
  readonly sinceMs: number | null
  /** What is read, one after the other; the last one covers the others. */
  readonly spans: readonly Span[]
  readonly askedAtMs: number
}

/** The words of a command line or a query: an id alone, or app and key. */
export interface Asked {
  readonly id?: string | undefined
  readonly app?: string | undefined
  readonly key?: string | undefined
  /** RFC 3339, or an age such as `30m`, `2h` or `3d`. */
  readonly since?: string | undefined
}

/** `mistake` is a sentence for whoever asked. */
export type QuestionReading =
  | { readonly kind: 'question'; readonly question: Question }
  | { readonly kind: 'mistake'; readonly mistake: string }

export function readQuestion({ id, app, key, since }: Asked, nowMs: number): QuestionReading {
  const sinceMs = since === undefined ? null : parseSince(since, nowMs)
  if (Number.isNaN(sinceMs)) {
    return mistaken('since must be a time with its zone, such as 2026-11-20T12:00:00Z, or an age such as 30m, 2h or 3d')
  }
  if (sinceMs !== null && sinceMs > nowMs) return mistaken('since must not lie in the future')
  if (id !== undefined) {
    if (app !== undefined || key !== undefined) return mistaken('give either a batch id, or app and key')
    if (!isUuid(id)) return mistaken('a batch id is a UUID, such as 0199f3a0-7c1e-7d2a-9f5b-3e8c1a2b4c6d')
    const version = id[14]
    if (version === '7') return questionOf(id.toLowerCase(), null, { madeAtMs: timeOf(id), sinceMs, nowMs })
    if (version === '5') return questionOf(id.toLowerCase(), null, { madeAtMs: null, sinceMs, nowMs })
    return mistaken(
      'no batch has an id of this kind (they are UUIDs of version 5 or 7); if it is an Idempotency-Key, give app and key',
    )
  }
  if (app === undefined || key === undefined) return mistaken('give a batch id, or both app and key')
  if (!/^[A-Za-z0-9_-]{1,64}$/.test(app)) return mistaken('app must be an app_id: 1 to 64 letters, digits, _ or -')
  if (!isUuid(key)) return mistaken('key must be an Idempotency-Key, which is a UUID')
  return questionOf(batchIdOf(app, key.toLowerCase()), app, { madeAtMs: null, sinceMs, nowMs })
}

function mistaken(mistake: string): QuestionReading {
  return { kind: 'mistake', mistake }
}

type Times = { readonly madeAtMs: number | null; readonly sinceMs: number | null; readonly nowMs: number }

function questionOf(batchId: string, appId: string | null, { madeAtMs, sinceMs, nowMs }: Times): QuestionReading {
  const spans: Span[] = []
  if (madeAtMs !== null) {
    for (const { beforeMs, afterMs } of [AT_ONCE, SOON]) {
      spans.push({ fromMs: madeAtMs - beforeMs, toMs: madeAtMs + afterMs })
    }
  }
  if (sinceMs !== null) spans.push({ fromMs: sinceMs, toMs: Number.POSITIVE_INFINITY })
  else if (madeAtMs !== null) spans.push({ fromMs: madeAtMs - MARGIN_MS, toMs: madeAtMs + MARGIN_MS })
  else spans.push({ fromMs: nowMs - KEYED_BACK_MS, toMs: Number.POSITIVE_INFINITY })
  return { kind: 'question', question: { batchId, appId, madeAtMs, sinceMs, spans, askedAtMs: nowMs } }
}

/** The first 48 bits of a UUIDv7 are Unix ms. */
function timeOf(uuid: string): number {
  return Number.parseInt(uuid.slice(0, 8) + uuid.slice(9, 13), 16)
}

/** NaN: neither a time nor an age. */
function parseSince(text: string, nowMs: number): number {
  const age = /^(\d{1,6})([mhd])$/.exec(text)
  if (age !== null) return nowMs - Number(age[1]) * UNIT_MS[age[2] as keyof typeof UNIT_MS]
  return parseTimestamp(text, { needsZone: true }) ?? Number.NaN
}
