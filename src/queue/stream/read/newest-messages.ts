// The stream's records from the newest back, for people who look at what is stored. NATS reads forward only, so that the
// stream is read in chunks, each from its oldest message on.

import type { JsMsg } from '@nats-io/jetstream'
import type { NatsConnection } from '@nats-io/transport-node'
import { recordsOf } from '../../../contract/record/record-lines.ts'
import { UnavailableError } from '../../../lib/errors.ts'
import { describeStream } from '../stream.ts'
import { readRange } from './stream-range.ts'

/** Sequences of a chunk. Each is a multiple of the one before, until one takes long. */
const MIN_CHUNK = 64
const MAX_CHUNK = 8192
const GROWTH = 4
const LONG_MS = 200
/** Of a chunk with more, the newest messages are taken, and the others are read again with the next one. */
const MAX_KEPT_BYTES = 32 * 1024 * 1024
/** One that is not read by then never will be. */
const CHUNK_TIMEOUT_MS = 10_000

/** Yields lines, newest first. Throws where the stream cannot be read. */
export async function* newestInStream(connection: NatsConnection): AsyncGenerator<readonly Buffer[]> {
  const report = await describeStream(connection)
  if (report.kind === 'unreadable') throw new UnavailableError(`the stream cannot be read: ${report.reason}`)
  if (report.kind === 'absent' || report.facts.messages === 0) return
  const { firstSequence, lastSequence } = report.facts
  let size = MIN_CHUNK
  let start: number
  for (let end = lastSequence + 1; end > firstSequence; end = start) {
    const startedAtMs = performance.now()
    start = Math.max(firstSequence, end - size)
    const kept: JsMsg[] = []
    let keptBytes = 0
    const signal = AbortSignal.timeout(CHUNK_TIMEOUT_MS)
    for await (const message of readRange(connection, { from: start, until: end - 1, signal })) {
      kept.push(message)
      keptBytes += message.data.length
      while (keptBytes > MAX_KEPT_BYTES) {
        keptBytes -= kept.shift()?.data.length ?? 0
        start = kept[0].seq
      }
    }
    if (signal.aborted) throw new UnavailableError(`NATS did not send ${end - start} messages within 10 s`)
    yield kept.toReversed().flatMap(({ data }) => [...recordsOf(data)].toReversed())
    const isLong = performance.now() - startedAtMs > LONG_MS
    size = isLong ? Math.max(MIN_CHUNK, size / GROWTH) : Math.min(MAX_CHUNK, size * GROWTH)
  }
}
