// The lines that `sluice tail` and `sluice find --events` print of a queue record: one for each of its events.

import { eventsOf } from '../contract/record/record-events.ts'
import { membersJson, readRecord } from '../contract/record/record-members.ts'
import type { Shell } from './shell.ts'
import { jsonFor } from './table.ts'

export interface RecordParts {
  readonly appId: string
  /** JSON of what each of its events is printed with. */
  readonly head: string
  /** As they were sent. */
  readonly events: readonly Buffer[]
}

/** null: not a queue record. */
export function readParts(line: Buffer): RecordParts | null {
  const record = readRecord(line)
  if (record === null) return null
  const events = Array.from(eventsOf(line), ({ bytes }) => bytes)
  return { appId: record.appId, head: membersJson(record), events }
}

/** One line for each event of a record. On a terminal compact, and with no character that it obeys. */
export function eventLines({ head, events }: RecordParts, shell: Pick<Shell, 'terminal'>): Buffer {
  const before = Buffer.from(`${head.slice(0, -1)},"event":`)
  const after = Buffer.from('}\n')
  const parts = events.flatMap((event) => [before, shell.terminal ? compact(event) : event, after])
  const lines = Buffer.concat(parts)
  return shell.terminal ? Buffer.from(jsonFor(shell, lines.toString())) : lines
}

/** Valid JSON without the white space around its tokens. */
function compact(json: Buffer): Buffer {
  // One character for each byte, so that the text of strings passes through.
  const text = json.toString('latin1').replace(/("[^"\\]*(?:\\.[^"\\]*)*")|[ \t\r\n]+/g, '$1')
  return Buffer.from(text, 'latin1')
}
