// The events of a queue record, cut out of its line: each byte is as it was sent.

import { afterString, BEFORE_EVENTS, BRACE_BIT, BRACE_CLOSE, BRACE_OPEN, QUOTE, viewOf } from './record-head.ts'

export interface RecordEvent {
  /** Its place in the batch. */
  readonly index: number
  readonly bytes: Buffer
}

/** Where the events begin, behind the bracket; -1: this is no record. The text may occur in no member before them. */
export function eventsAt(line: Buffer): number {
  const at = line.indexOf(BEFORE_EVENTS)
  return at < 0 ? -1 : at + BEFORE_EVENTS.length
}

/** One after another: who has enough does not read on. */
export function* eventsOf(line: Buffer): Generator<RecordEvent> {
  const view = viewOf(line)
  const first = eventsAt(line)
  let index = 0
  let start = -1
  let depth = 0
  for (let at = first < 0 ? line.length : first; at < line.length; at++) {
    const byte = line[at]
    if (byte === QUOTE) {
      at = afterString(line, view, at + 1, line.length) - 1
    } else if ((byte | BRACE_BIT) === BRACE_OPEN) {
      if (depth === 0) start = at
      depth += 1
    } else if ((byte | BRACE_BIT) === BRACE_CLOSE) {
      // The bracket after the last event.
      if (depth === 0) return
      depth -= 1
      if (depth === 0) yield { index: index++, bytes: line.subarray(start, at + 1) }
    }
  }
}
