// Reads a whole stored record as JSON, checks it, and says what each of its events is shown with.

import { isAppId } from '../ids.ts'
import { eventsAt } from './record-events.ts'
import { parseRecordStart } from './record-head.ts'

/** The members of a record that are shown with each of its events. */
export interface RecordMembers {
  readonly batchId: string
  readonly appId: string
  readonly receivedAt: string
  readonly sdkVersion: string | null
  /** The request's `traceparent`. */
  readonly trace: string | null
}

export interface StoredRecord extends RecordMembers {
  /** As stored, without its newline. */
  readonly line: Buffer
  readonly events: number
}

const BATCH_ID = /^[-0-9a-f]{36}$/
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/
/** Of the events; or of what the request had beside the members of the schema. */
const END_OF_RECORD = /[\]}]\}$/

/** null: the line is not a whole record of the service. */
export function readRecord(line: Buffer): StoredRecord | null {
  const value = parsed(line.toString('utf8'))
  const members = membersOf(value)
  return members === null || !Array.isArray(value?.['events'])
    ? null
    : { line, ...members, events: value['events'].length }
}

/** Does not read the events. null: the line does not begin as a record. */
export function readMembers(line: Buffer): RecordMembers | null {
  const at = eventsAt(line)
  return at < 0 ? null : membersOf(parsed(`${line.toString('utf8', 0, at)}]}`))
}

/** The same without JSON, of a line that begins and ends as a record. */
export function readIds(line: Buffer): Pick<RecordMembers, 'batchId' | 'appId' | 'receivedAt'> | null {
  const start = parseRecordStart(line, 0, line.length)
  if (start === null || !BATCH_ID.test(start.batchId) || !areValid(start)) return null
  return END_OF_RECORD.test(line.toString('latin1', line.length - 2)) ? start : null
}

/** JSON of the members and `more`. */
export function membersJson(
  { batchId, appId, receivedAt, sdkVersion, trace }: RecordMembers,
  more: object = {},
): string {
  const shown = { batch_id: batchId, app_id: appId, received_at: receivedAt, sdk_version: sdkVersion }
  return JSON.stringify(trace === null ? { ...shown, ...more } : { ...shown, trace, ...more })
}

function parsed(text: string): Readonly<Record<string, unknown>> | null {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' ? (value as Readonly<Record<string, unknown>> | null) : null
  } catch {
    return null
  }
}

function membersOf(value: Readonly<Record<string, unknown>> | null): RecordMembers | null {
  const { batch_id: batchId, app_id: appId, received_at: receivedAt, sdk_version: sdkVersion, trace } = value ?? {}
  if (typeof batchId !== 'string' || typeof appId !== 'string' || typeof receivedAt !== 'string') return null
  const members = { batchId, appId, receivedAt, sdkVersion: textOrNull(sdkVersion), trace: textOrNull(trace) }
  return areValid(members) ? members : null
}

/** Anybody may have written the line, and these are shown on a terminal as they are. */
function areValid({ appId, receivedAt }: Pick<RecordMembers, 'appId' | 'receivedAt'>): boolean {
  return isAppId(appId) && TIME.test(receivedAt)
}

function textOrNull(value: unknown): string | null {
  return typeof value === 'string' ? value : null
}
