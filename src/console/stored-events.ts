// Takes single events out of a queue record's line, without parsing the others.

import { afterString, viewOf } from '../queue/record/record-head.ts'

const EVENTS = Buffer.from('"events":[')
const QUOTE = 34
const BRACE_OPEN = 123
const BRACE_CLOSE = 125
const BRACKET_OPEN = 91
const BRACKET_CLOSE = 93

/** The members of a record other than the events. */
export interface RecordMembers {
  readonly batch_id: string
  readonly app_id: string
  readonly received_at: string
  readonly sdk_version?: string
  readonly trace?: string
}

/** Where the events begin, after the bracket; -1: this is no record. */
export function eventsAt(line: Buffer): number {
  const at = line.indexOf(EVENTS)
  return at < 0 ? -1 : at + EVENTS.length
}

export function recordMembers(line: Buffer, start: number): RecordMembers {
  return JSON.parse(`${line.toString('utf8', 0, start)}]}`) as RecordMembers
}

/** The end of the event that begins at or after `from`, and where it begins; null: there is no further one. */
export function nextEvent(line: Buffer, from: number): { readonly start: number; readonly end: number } | null {
  const view = viewOf(line)
  let start = -1
  let depth = 0
  for (let at = from; at < line.length; at++) {
    const byte = line[at]
    if (byte === QUOTE) {
      at = afterString(line, view, at + 1, line.length) - 1
    } else if (byte === BRACE_OPEN || byte === BRACKET_OPEN) {
      if (depth === 0) start = at
      depth += 1
    } else if (byte === BRACE_CLOSE || byte === BRACKET_CLOSE) {
      // The bracket after the last event.
      if (depth === 0) return null
      depth -= 1
      if (depth === 0) return { start, end: at + 1 }
    }
  }
  return null
}
