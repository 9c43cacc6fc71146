// Builds the queue record of an accepted request: one NDJSON line, written in the ring around the events. The events
// are not moved; the record's head overwrites the bytes before them.

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
  const before = `{"v":1,"batch_id":"${head.batchId}","app_id":"${head.appId}","received_at":"${head.receivedAt}"${sdkVersion}${trace},"events":`
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
