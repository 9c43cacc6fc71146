// What the service's answer means for a batch: it is tried again, or others take its place.

import type { Clock } from './clock.ts'
import { attempt, parseTime } from './platform.ts'
import type { DropReason, SluiceEvent } from './types.ts'

/** A day. A month's Retry-After is longer than a timer can be, and the plan may change before. */
export const MAX_RETRY_AFTER_MS = 86_400_000
const SECOND_MS = 1000
const REASONS: Record<number, DropReason> = { 401: 'unauthorized', 402: 'subscription', 403: 'blocked' }

export type Answer = {
  readonly status: number
  readonly header: (name: string) => string | null
  readonly text: string
}

type Refusal = { message?: unknown; reason?: unknown; errors?: ({ path: unknown } | null)[]; invalid_events?: unknown }

/**
 * Each of `parts` becomes a new batch in the place of this one. Its other events are dropped and reported as `reason`; null:
 * they are stored, and nothing is reported.
 */
export type Replacement = { readonly parts: readonly (readonly SluiceEvent[])[]; readonly reason: DropReason | null }

/** `isHeld`: the page may not send with this key, until its app's `origins` name it. */
export type Verdict = Replacement | { readonly retryAfterMs: number; readonly isHeld?: boolean }

export function judge(answer: Answer, events: readonly SluiceEvent[], clock: Clock, nowMs: number): Verdict {
  const { status, header, text } = answer
  // A replay of other events: the key was another batch's, and nothing of this one is stored. An older service does not say.
  if (status === 202) return { parts: [], reason: header('Sluice-Replay') === 'other' ? 'key_reused' : null }
  if (status === 400) return { parts: [withoutOffenders(text, events, clock)], reason: 'invalid' }
  // A batch of more events than the app may send in a minute would never fit.
  const minuteLimit = Number(header('X-RateLimit-Limit')) || Infinity
  if (status === 413 || (status === 429 && events.length > minuteLimit)) {
    const half = Math.ceil(events.length / 2)
    return { parts: events.length > 1 ? [events.slice(0, half), events.slice(half)] : [], reason: 'too_large' }
  }
  // Of other statuses too: a 200 comes from something else, such as a hotel's login page.
  if (status < 400 || status >= 500 || status === 408 || status === 429)
    return { retryAfterMs: retryAfterMs(header('Retry-After') ?? '', nowMs) }
  // The key is right: what waits gets in once the operator has named the page. A service before 0.4 has only the words.
  if (status === 401 && (refusalIn(text).reason === 'origin' || text.includes('the page may not send')))
    return { retryAfterMs: 0, isHeld: true }
  return { parts: [], reason: REASONS[status] ?? 'refused' }
}

function refusalIn(text: string): Refusal {
  return attempt(() => JSON.parse(text) as Refusal | null) ?? {}
}

function retryAfterMs(text: string, nowMs: number): number {
  const waitMs = Number(text) * SECOND_MS || parseTime(text) - nowMs
  return Math.min(Math.max(waitMs || 0, 0), MAX_RETRY_AFTER_MS)
}

/** No event where none is named. One whose time alone is wrong stays, once, where the clock was found to be off. */
function withoutOffenders(text: string, events: readonly SluiceEvent[], clock: Clock): SluiceEvent[] {
  const { message, errors, invalid_events: invalid } = refusalIn(text)
  const hasErrors = Array.isArray(errors)
  // The first twenty. A service before 0.4 names only one, at the start of its message.
  const paths = hasErrors ? errors.map((error) => String(error?.path)) : [String(message)]
  const named = paths.map((path) => /^events\[(\d+)\](?:\.(\w+))?/.exec(path) ?? [])
  const places = hasErrors ? [invalid].flat() : named.map(([, index]) => Number(index))
  const isOffender = (event: SluiceEvent, place: number): boolean =>
    places.includes(place) &&
    (!clock.mayCure(event) || named.some(([, index, member]) => Number(index) === place && member !== 'timestamp'))
  return events.some((_, place) => places.includes(place))
    ? events.filter((event, place) => !isOffender(event, place))
    : []
}
