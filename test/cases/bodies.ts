// Bodies for the rows of the schema, of a service whose clock says `nowMs`.

import { bodyOf, eventMembers, event as eventWith } from '../unit/decode/bodies.ts'

/**
 * What is said: `accepted`, by the scanner alone; `accepted slowly`, since the scanner leaves it to the validator; or the message,
 * of bodies that are not JSON without its place.
 */
export type Case = readonly [claim: string, body: string | Uint8Array, says: string]

export interface Bodies {
  readonly nowMs: number
  readonly iso: (aheadMs: number) => string
  readonly members: (changes?: Record<string, string | null>) => Record<string, string>
  readonly event: (changes?: Record<string, string | null>) => string
  /** A body of one event with these changes. */
  readonly one: (changes: Record<string, string | null>) => string
}

export function bodiesAt(nowMs: number): Bodies {
  const iso = (aheadMs: number): string => new Date(nowMs + aheadMs).toISOString()
  const timestamp = `"${iso(-30_000)}"`
  const event = (changes: Record<string, string | null> = {}): string => eventWith({ timestamp, ...changes })
  return {
    nowMs,
    iso,
    members: (changes = {}) => eventMembers({ timestamp, ...changes }),
    event,
    one: (changes) => bodyOf(event(changes)),
  }
}

/** What is said of the first event. */
export const says = (path: string, message: string): string => `events[0].${path}: ${message}`
