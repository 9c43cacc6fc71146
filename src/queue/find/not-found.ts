// The answer where a batch was not found: how far the search looked, and what may have become of the batch.

import { type NotFound, timeText } from './finding.ts'
import type { Question } from './question.ts'

export interface Looked {
  readonly reachesBackToMs: number | null
  /** Where the search stopped; null: it has read everything that it was to read. */
  readonly stoppedAtMs: number | null
}

export function notFound(question: Question, { reachesBackToMs, stoppedAtMs }: Looked): NotFound {
  const { fromMs, toMs } = question.spans[question.spans.length - 1]
  return {
    kind: 'not found',
    searched: { fromMs: Math.min(fromMs, question.askedAtMs), toMs: Math.min(toMs, question.askedAtMs) },
    reachesBackToMs,
    isComplete: stoppedAtMs === null,
    advice: adviceFor(question, { reachesBackToMs, stoppedAtMs }),
  }
}

function adviceFor(question: Question, { reachesBackToMs, stoppedAtMs }: Looked): string {
  const { madeAtMs, sinceMs, askedAtMs } = question
  if (stoppedAtMs !== null) {
    return `The search was ended when it had read up to ${timeText(stoppedAtMs)}. To go on from there, ask since that time.`
  }
  if (reachesBackToMs === null) return 'The queue is empty.'
  if (madeAtMs !== null && madeAtMs > askedAtMs + MAX_LEAD_MS) {
    return `The id says that it was made at ${timeText(madeAtMs)}, which is in the future: it is not an id of this service, or a clock was wrong.`
  }
  if (madeAtMs !== null && sinceMs === null) {
    const made = `The id was made at ${timeText(madeAtMs)}`
    if (madeAtMs < reachesBackToMs) {
      return `${made}, which is older than anything the queue still has: the batch was removed when it expired, or it was never stored.`
    }
    return `${made}, and the queue reaches back further than that: no batch with this id was stored here. Every batch that was answered 202 is stored; an X-Request-Id belongs to a request that was refused.`
  }
  if (sinceMs === null) {
    if (question.spans[0].fromMs <= reachesBackToMs) {
      return 'All that the queue has was searched: the batch was refused, it never arrived, it has another app or key, or it was removed when it expired.'
    }
    return 'An id that comes from an Idempotency-Key does not tell its time, so only the last ten minutes were searched. To look further back, give since, such as 3d.'
  }
  return 'The queue holds no batch with this id from that time on: it was refused, it never arrived, it has another app or key, or it was removed when it expired.'
}

/** The clock of another machine may be ahead by this much. */
const MAX_LEAD_MS = 600_000
