// Recovery for a single node whose queue is a stream: the records it holds, and how far they have been counted. A
// position's offset is a sequence here, and its segment tells the stream from others by the time of its making.

import type { NatsConnection } from '@nats-io/transport-node'
import type { JetStreamQueue } from './jetstream.ts'
import { connectNats } from './nats-connection.ts'
import { parseRecordHead } from './record-head.ts'
import { type ReadResult, type Recovery, type RecoveryOptions, recoverFrom, type VisitRecord } from './recovery.ts'
import type { JournalPosition } from './segments.ts'
import { describeStream, STREAM_NAME } from './stream.ts'
import { readRange } from './stream-range.ts'
import { recordsOf } from './stream-records.ts'
import { TimeMarks } from './time-marks.ts'

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
  const { createdAt, firstSequence, lastSequence } = report.facts
  const segment = segmentOf(createdAt)
  let records = 0
  let corruptLines = 0
  let bytes = 0
  // Of a stream that was made anew everything is read: a position in the one before says nothing of it.
  const wanted = from?.segment === segment ? from.offset : 0
  const range = { from: Math.max(1, firstSequence, wanted), until: lastSequence }
  for await (const { data, sequence } of readRange(connection, range)) {
    bytes += data.length
    for (const record of recordsOf(data)) {
      const head = parseRecordHead(record, 0, record.length)
      if (head === null) {
        corruptLines += 1
        onCorrupt(STREAM_NAME, sequence)
      } else {
        records += 1
        visit(head, segment, sequence)
      }
    }
  }
  return { records, corruptLines, bytes, end: { segment, offset: lastSequence + 1 } }
}

/** In hundredths of a second: a later stream has a higher number, and a snapshot holds it. */
function segmentOf(createdAt: string): number {
  return Math.floor(Date.parse(createdAt) / 10)
}

/** Where a stream stands that this node alone writes to. */
export class StreamPositions {
  readonly #queue: JetStreamQueue
  readonly #start: JournalPosition
  readonly #marks: TimeMarks
  readonly #timer: NodeJS.Timeout

  constructor(queue: JetStreamQueue, recovery: Recovery, clock: () => number) {
    this.#queue = queue
    this.#start = recovery.end ?? { segment: 0, offset: 1 }
    this.#marks = new TimeMarks(recovery.keysFrom ?? this.#start)
    this.#timer = setInterval(() => this.#marks.note(clock(), this.position()), MARK_INTERVAL_MS)
    this.#timer.unref()
  }

  position(): JournalPosition {
    const { settled, createdAt } = this.#queue.place
    if (createdAt === null) return this.#start
    const segment = segmentOf(createdAt)
    if (settled === 0 && segment === this.#start.segment) return this.#start
    return { segment, offset: settled + 1 }
  }

  keysFrom(nowMs: number): JournalPosition {
    return this.#marks.keysFrom(nowMs)
  }

  stop(): void {
    clearInterval(this.#timer)
  }
}
