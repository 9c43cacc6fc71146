// What of an event is shown in a line, and what of it is copied. An event is what a client sent: anything.

import type { SampledEvent } from './api-types.ts'

/** An event of a list. */
export interface Line extends SampledEvent {
  readonly id: string
}

/** The id is the same for an event that is read again. */
export function lineOf(event: SampledEvent): Line {
  return { ...event, id: `${event.batch_id}/${event.index}` }
}

/** Newest first; the last one of a batch first. */
export function byTime(one: Line, other: Line): number {
  if (one.received_at !== other.received_at) return one.received_at < other.received_at ? 1 : -1
  return other.index - one.index
}

/** A string member, or ''. */
export function memberText(value: unknown, name: string): string {
  if (typeof value !== 'object' || value === null) return ''
  const member: unknown = Reflect.get(value, name)
  return typeof member === 'string' ? member : ''
}

/** For a POSIX shell. */
export function curlOf(url: string, key: string | null, event: unknown): string {
  const body = JSON.stringify({ app_key: key ?? 'YOUR_APP_KEY', events: [event] }).replaceAll("'", `'\\''`)
  return `curl -i ${url}/api/v1/events -H 'Content-Type: application/json' -d '${body}'`
}
