// Recovery for a single node whose queue is a stream: the records it holds, and how far they have been counted. A
// position's offset is a sequence here, and its segment is 0.

import type { NatsConnection } from '@nats-io/transport-node'
import type { JetStreamQueue } from './jetstream.ts'
import { connectNats } from './nats-connection.ts'
import { parseRecordHead, viewOf } from './record-head.ts'
import { type ReadResult, type Recovery, type RecoveryOptions, recoverFrom, type VisitRecord } from './recovery.ts'
import type { JournalPosition } from './segments.ts'
import { describeStream, STREAM_NAME } from './stream.ts'
import { readRange } from './stream-range.ts'
import { TimeMarks } from './time-marks.ts'

const NEWLINE = 10
/** How often the end of the stream is marked with the time, to find the last 300 s again. */
const MARK_INTERVAL_MS = 1000

/** Reads snapshot and stream. Rejects where NATS cannot be reached, or stops answering. */
export async function recoverFromStream(url: string, options: RecoveryOptions): Promise<Recovery> {
  const connection = await connectNats(url)
  try {
    return await recoverFrom('stream', options, (from, visit) => readStored(connection, from, visit, options))
  } finally {
    await connection.close()
  }
}

async function readStored(
  connection: NatsConnection,
  from: JournalPosition | null,
  visit: VisitRecord,
  { onCorrupt }: RecoveryOptions,
): Promise<ReadResult> {
  const report = await describeStream(connection)
  if (report.kind === 'unreadable') throw new Error(`NATS: ${report.reason}`)
  if (report.kind === 'absent') return { records: 0, corruptLines: 0, bytes: 0, end: null }
  const { firstSequence, lastSequence } = report.facts
  let records = 0
  let corruptLines = 0
  let bytes = 0
  const range = { from: Math.max(1, firstSequence, from?.offset ?? 0), until: lastSequence }
  for await (const { data, sequence } of readRange(connection, range)) {
    bytes += data.length
    const view = viewOf(data)
    for (let start = 0; start < data.length; ) {
      const newlineAt = data.indexOf(NEWLINE, start)
      const end = newlineAt < 0 ? data.length : newlineAt
      const head = parseRecordHead(data, start, end, view)
      start = end + 1
      if (head === null) {
        corruptLines += 1
        onCorrupt(STREAM_NAME, sequence)
      } else {
        records += 1
        visit(head, 0, sequence)
      }
    }
  }
  return { records, corruptLines, bytes, end: { segment: 0, offset: lastSequence + 1 } }
}

/** Where a stream stands that this node alone writes to. */
export class StreamPositions {
  readonly #queue: JetStreamQueue
  readonly #startOffset: number
  readonly #marks: TimeMarks
  readonly #timer: NodeJS.Timeout

  constructor(queue: JetStreamQueue, recovery: Recovery, clock: () => number) {
    this.#queue = queue
    this.#startOffset = recovery.end?.offset ?? 1
    this.#marks = new TimeMarks(recovery.keysFrom ?? { segment: 0, offset: this.#startOffset })
    this.#timer = setInterval(() => this.#marks.note(clock(), this.position()), MARK_INTERVAL_MS)
    this.#timer.unref()
  }

  position(): JournalPosition {
    return { segment: 0, offset: Math.max(this.#startOffset, this.#queue.lastAckedSequence + 1) }
  }

  keysFrom(nowMs: number): JournalPosition {
    return this.#marks.keysFrom(nowMs)
  }

  stop(): void {
    clearInterval(this.#timer)
  }
}
