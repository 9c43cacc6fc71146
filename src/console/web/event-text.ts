// What of an event is shown in a line, and what of it is copied. An event is what a client sent: anything.

import type { SampledEvent } from './api-types.ts'

/** An event of the list. */
export interface Line extends SampledEvent {
  readonly id: number
}

/** A string member, or ''. */
export function memberText(value: unknown, name: string): string {
  if (typeof value !== 'object' || value === null) return ''
  const member: unknown = Reflect.get(value, name)
  return typeof member === 'string' ? member : ''
}

/** For a POSIX shell. The key stays out: whoever tries it has one. */
export function curlOf(event: unknown): string {
  const body = JSON.stringify({ app_key: 'YOUR_APP_KEY', events: [event] }).replaceAll("'", `'\\''`)
  return `curl -i http://localhost:8080/api/v1/events -H 'Content-Type: application/json' -d '${body}'`
}
