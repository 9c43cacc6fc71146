// The queue record of an accepted request, and how it is written: one line of NDJSON, in the ring around the events. The
// events are not moved; the record's head overwrites the bytes before them.
//
// {"v":1,"batch_id":"…","app_id":"…","received_at":"…","sdk_version":"…","trace":"…","events":[…],"extra":{…}}
//
// Members come in this order, without white space before `events`. Whoever reads may rely on that for version 1:
//   v            number    1
//   batch_id     string    UUID in lower case: version 5, derived from app and Idempotency-Key, or version 7
//   app_id       string    1 to 64 letters, digits, `_` or `-`
//   received_at  string    UTC with milliseconds, 24 characters: the time of the windows that the events count in
//   sdk_version  string    optional; as sent
//   trace        string    optional; the request's `traceparent`
//   events       array     objects, each byte as sent, white space included; may be empty
//   extra        object    optional; members of the request that the schema does not name, as sent
// All before sdk_version is ASCII, and has no escapes. A client can put no newline into a line, so that a line that begins
// as a record is one. A line of the journal may have spaces before its last brace (record-lines.ts). Further members may
// come behind `extra`.
//
// record-head.ts reads what comes before the events, and counts them; record-members.ts reads all of it as JSON;
// record-events.ts cuts the events out; record-lines.ts takes lines apart and fills them.

import { BEFORE_APP_ID, BEFORE_BATCH_ID, BEFORE_RECEIVED_AT } from './record-head.ts'

/** The members of a record other than the events. */
export interface NewRecord {
  readonly batchId: string
  readonly appId: string
  /** ISO 8601, ms, UTC. */
  readonly receivedAt: string
  /** JSON text as sent, one character for each byte; empty: the request has none. */
  readonly sdkVersion: string
  /** The request's `traceparent`, which is well-formed and so needs no escapes; null: none. */
  readonly trace: string | null
  /** Members of the request that the schema does not name, as sent, without braces; null: none. */
  readonly extras: string | null
}

const ID_AND_TIME_BYTES = 36 + 24
const HEAD_BYTES = BEFORE_BATCH_ID.length + BEFORE_APP_ID.length + BEFORE_RECEIVED_AT.length + ID_AND_TIME_BYTES
const AROUND_EVENTS_BYTES = '","events":'.length + '}\n'.length

/** The length of the line with its newline, before its id and time are known. */
export function recordLineBytes(
  eventsBytes: number,
  sdkVersionBytes: number,
  { appId }: Pick<NewRecord, 'appId'>,
  trace: string | null,
  extras: string | null,
): number {
  const version = sdkVersionBytes === 0 ? 0 : ',"sdk_version":'.length + sdkVersionBytes
  const traced = trace === null ? 0 : ',"trace":""'.length + trace.length
  const extra = extras === null ? 0 : ',"extra":{}'.length + Buffer.byteLength(extras)
  return HEAD_BYTES + appId.length + version + traced + AROUND_EVENTS_BYTES + eventsBytes + extra
}

/** Byte positions in the ring. */
export interface RecordPlace {
  /** First byte that may be written: the start of the body's headroom. */
  readonly from: number
  readonly eventsStart: number
  /** Exclusive. At least two bytes may be written after it: the body's closing brace and the sentinel. */
  readonly eventsEnd: number
}

/**
 * The line with its newline, as bytes of the ring. It is a copy where head or tail do not fit around the events: with a
 * very long `sdk_version`, or with extra members.
 */
export function recordLine(ring: Buffer, place: RecordPlace, head: NewRecord): Uint8Array {
  const sdkVersion = head.sdkVersion === '' ? '' : `,"sdk_version":${head.sdkVersion}`
  const trace = head.trace === null ? '' : `,"trace":"${head.trace}"`
  const before = `${BEFORE_BATCH_ID}${head.batchId}${BEFORE_APP_ID}${head.appId}${BEFORE_RECEIVED_AT}${head.receivedAt}"${sdkVersion}${trace},"events":`
  const after = head.extras === null ? '}\n' : `,"extra":{${head.extras}}}\n`
  // All else is ASCII, so that each character of the head is one byte.
  const start = place.eventsStart - before.length
  if (start < place.from || head.extras !== null) {
    return Buffer.concat([
      Buffer.from(before, 'latin1'),
      ring.subarray(place.eventsStart, place.eventsEnd),
      Buffer.from(after),
    ])
  }
  ring.write(before, start, 'latin1')
  ring[place.eventsEnd] = 0x7d
  ring[place.eventsEnd + 1] = 0x0a
  return ring.subarray(start, place.eventsEnd + 2)
}
