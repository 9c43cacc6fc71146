// Events of a queue record as the console shows them.

import { eventsOf } from '../../contract/record/record-events.ts'
import { membersJson, readMembers } from '../../contract/record/record-members.ts'
import { mayHold } from './event-filter.ts'

const LINE_FEED = 10
const CARRIAGE_RETURN = 13
/** A larger event is shown without its large members. */
const MAX_EVENT_BYTES = 65_536
const HEAD_MEMBERS = ['type', 'name', 'timestamp', 'session_id', 'hashed_daily_id', 'hashed_monthly_id'] as const

/** The members of a record that are shown with each of its events: JSON without its last brace. `node` undefined: without it. */
export function recordJson(line: Buffer, node: string | null | undefined): string {
  const members = readMembers(line)
  // As for an event that is not JSON.
  if (members === null) throw new SyntaxError('not a record')
  return membersJson(members, { node }).slice(0, -1)
}

/** As it was sent; a very large one as its head members, with a note. */
export function shownEvent(event: Readonly<Record<string, unknown>>, bytes: Buffer): string {
  // A line break inside the event would end the line of the stream.
  if (bytes.length <= MAX_EVENT_BYTES)
    return bytes.includes(LINE_FEED) || bytes.includes(CARRIAGE_RETURN) ? JSON.stringify(event) : bytes.toString()
  const members = HEAD_MEMBERS.filter((name) => name in event).map((name) => [name, event[name]])
  const kept = JSON.stringify({
    ...Object.fromEntries(members),
    note: `this event has ${bytes.length} bytes: only its head is shown`,
  })
  return Buffer.byteLength(kept) <= MAX_EVENT_BYTES ? kept : '{"note":"this event is too large to be shown"}'
}

export interface ShownEvent {
  readonly event: Readonly<Record<string, unknown>>
  /** The event with its batch. */
  readonly json: string
}

/** The events of a line that fit, the last one first. An event that does not hold all `needles` is not parsed. */
export function eventsThatFit(
  line: Buffer,
  { needles, withNode }: { needles: readonly Buffer[]; withNode: boolean },
  fits: (event: ShownEvent['event']) => boolean,
): ShownEvent[] {
  const mayFit = (bytes: Buffer): boolean => needles.every((needle) => mayHold(bytes, needle))
  if (!mayFit(line)) return []
  const head = recordJson(line, withNode ? null : undefined)
  const shown: ShownEvent[] = []
  for (const { index, bytes } of eventsOf(line)) {
    if (!mayFit(bytes)) continue
    const event = JSON.parse(bytes.toString()) as ShownEvent['event']
    if (fits(event)) shown.push({ event, json: `${head},"index":${index},"event":${shownEvent(event, bytes)}}` })
  }
  return shown.toReversed()
}
