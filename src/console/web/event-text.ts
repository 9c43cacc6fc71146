// What of an event is shown in a line, and what of it is copied. An event is what a client sent: anything.

import type { Found, StoredEvent } from './api-types.ts'

/** An event of a list. */
export interface Line extends StoredEvent {
  readonly id: string
  /** When it came into a list that was there already. */
  readonly cameAtMs?: number
}

/** The id is the same for an event that is read again. */
export function lineOf(event: StoredEvent): Line {
  return { ...event, id: `${event.batch_id}:${event.index}` }
}

/** Of a batch that was found with its record. */
export function linesIn({ batch_id, app_id, received_at, sdk_version, record }: Found): Line[] {
  const events = Array.isArray(record?.events) ? (record.events as unknown[]) : []
  return events.map((event, index) => lineOf({ batch_id, app_id, received_at, sdk_version, node: null, index, event }))
}

/** Newest batch first, its events as they were sent. */
export function byTime(one: Line, other: Line): number {
  if (one.received_at !== other.received_at) return one.received_at < other.received_at ? 1 : -1
  if (one.batch_id !== other.batch_id) return one.batch_id < other.batch_id ? 1 : -1
  return one.index - other.index
}

/** What a list shows: a line of each batch, and its events below it. */
export type Shown =
  | { readonly kind: 'batch'; readonly id: string; readonly of: Line; readonly events: number }
  | { readonly kind: 'event'; readonly id: string; readonly of: Line }

export function underBatches(lines: readonly Line[]): readonly Shown[] {
  const counts = new Map<string, number>()
  for (const { batch_id: id } of lines) counts.set(id, (counts.get(id) ?? 0) + 1)
  return lines.flatMap((line, place): Shown[] => {
    const event = { kind: 'event', id: line.id, of: line } as const
    if (lines[place - 1]?.batch_id === line.batch_id) return [event]
    return [{ kind: 'batch', id: line.batch_id, of: line, events: counts.get(line.batch_id) ?? 1 }, event]
  })
}

function member(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined
}

/** A string member, or ''. */
export function memberText(value: unknown, name: string): string {
  const found = member(value, name)
  return typeof found === 'string' ? found : ''
}

const MAX_PREVIEWED = 6

/** The first members of `revenue` and `properties`, as far as they are one value each. */
export function previewOf(event: unknown): readonly (readonly [string, string])[] {
  return ['revenue', 'properties']
    .flatMap((name) => {
      const members = member(event, name)
      return typeof members === 'object' && members !== null ? Object.entries(members) : []
    })
    .filter(([, value]) => value !== null && (typeof value !== 'object' || isRaw(value)))
    .slice(0, MAX_PREVIEWED)
    .map(([name, value]) => [name, isRaw(value) ? value.rawJSON : String(value)] as const)
}

/** A number that is kept as it was written. */
function isRaw(value: unknown): value is { readonly rawJSON: string } {
  return typeof member(value, 'rawJSON') === 'string'
}

/** Where it ran: iOS 26.1. */
export function systemOf(event: unknown): string {
  const context = member(event, 'context')
  return [memberText(context, 'os'), memberText(context, 'os_version')].filter(Boolean).join(' ')
}

/** For a POSIX shell. */
export function curlOf(url: string, key: string | null, event: unknown): string {
  const body = JSON.stringify({ app_key: key ?? 'YOUR_APP_KEY', events: [event] }).replaceAll("'", `'\\''`)
  return `curl -i ${url}/api/v1/events -H 'Content-Type: application/json' -d '${body}'`
}
