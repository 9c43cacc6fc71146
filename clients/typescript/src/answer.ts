// What the service's answer says about a batch.

import { attempt } from './platform.ts'
import type { DropReason } from './types.ts'

/** A day. A month's Retry-After is longer than a timer can be, and the plan may change before. */
export const MAX_RETRY_AFTER_MS = 86_400_000
const SECOND_MS = 1000

export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  readonly answeredMs: number
}

type Refusal = { message?: unknown; errors?: ({ path: unknown } | null)[] }

export type Verdict =
  | { readonly kind: 'accepted' }
  | { readonly kind: 'split' }
  | { readonly kind: 'retry'; readonly retryAfterMs: number }
  | { readonly kind: 'drop'; readonly reason: DropReason }
  /** By the event's place: whether the clock may be the fault. */
  | { readonly kind: 'amend'; readonly offenders: ReadonlyMap<number, 'timestamp' | 'other'> }

/** `count`: events of the batch. */
export function judge(answer: Answer, count: number): Verdict {
  const { status, headers } = answer
  if (status === 202) return { kind: 'accepted' }
  if (status === 400) return judgeInvalid(answer.text, count)
  if (status === 401) return { kind: 'drop', reason: 'unauthorized' }
  if (status === 402) return { kind: 'drop', reason: 'subscription' }
  if (status === 403) return { kind: 'drop', reason: 'blocked' }
  if (status === 413) return { kind: 'split' }
  // A batch of more events than the app may send in a minute would never fit.
  const minuteLimit = Number(headers.get('X-RateLimit-Limit') ?? Infinity)
  if (status === 429 && count > Math.max(minuteLimit, 1)) return { kind: 'split' }
  if (status > 403 && status < 500 && status !== 408 && status !== 429) return { kind: 'drop', reason: 'refused' }
  // Also a 200: something else answered, such as a hotel's login page.
  return { kind: 'retry', retryAfterMs: retryAfterMs(headers.get('Retry-After'), answer.answeredMs) }
}

function retryAfterMs(text: string | null, nowMs: number): number {
  if (text === null) return 0
  const waitMs = /^\d+$/.test(text) ? Number(text) * SECOND_MS : Date.parse(text) - nowMs
  return Math.min(Math.max(waitMs || 0, 0), MAX_RETRY_AFTER_MS)
}

function judgeInvalid(text: string, count: number): Verdict {
  const offenders = new Map<number, 'timestamp' | 'other'>()
  for (const path of offendingPaths(text)) {
    const [, index, member] = /^events\[(\d+)\](?:\.(\w+))?/.exec(path) ?? []
    if (index === undefined || Number(index) >= count) continue
    const isClock = member === 'timestamp' && offenders.get(Number(index)) !== 'other'
    offenders.set(Number(index), isClock ? 'timestamp' : 'other')
  }
  return offenders.size > 0 ? { kind: 'amend', offenders } : { kind: 'drop', reason: 'invalid' }
}

/** The first twenty; a service that names only one offender does so at the start of its message. */
function offendingPaths(text: string): string[] {
  const { message, errors } = attempt(() => JSON.parse(text) as Refusal, null) ?? {}
  return Array.isArray(errors) ? errors.map((error) => String(error?.path)) : [String(message)]
}
