// Reads the stream from one sequence or time on, by an ordered consumer that is deleted when the reading ends.

import { DeliverPolicy, type JsMsg, jetstream } from '@nats-io/jetstream'
import { type NatsConnection, nanos } from '@nats-io/transport-node'
import { UnavailableError } from '../../../lib/errors.ts'
import { API_TIMEOUT_MS, codeOf } from '../../../nats/api.ts'
import { EVENTS_STREAM } from '../../../nats/store-names.ts'

/** What the server sends ahead of the reader. A message has at most 1 MiB. */
const MAX_BYTES_AHEAD = 4 * 1024 * 1024
/** The server deletes the consumer of a reader that died after this time without a request. */
const CONSUMER_KEPT_MS = 10_000
const IDLE_CHECK_MS = 500

export interface StreamRange {
  /** The first sequence to read, or the time from which on messages were stored. */
  readonly from: number | { readonly timeMs: number }
  /** The last one, which the stream has already; null: read on as the stream grows. */
  readonly until: number | null
  /** Only messages of this subject. */
  readonly subject?: string
  /** Leaves the records away: `data` is empty. */
  readonly headersOnly?: boolean
  /** How many messages are sent ahead; else 100, of 4 MiB at most. With many, small ones are read twice as fast. */
  readonly messagesAhead?: number
  /** Ends the reading. */
  readonly signal?: AbortSignal
}

/** Yields the messages in order. Throws where the connection breaks, or the stream goes. */
export async function* readRange(connection: NatsConnection, range: StreamRange): AsyncGenerator<JsMsg> {
  const { from, until, subject, headersOnly = false, messagesAhead, signal } = range
  const client = jetstream(connection, { checkAPI: false, timeout: API_TIMEOUT_MS })
  const consumer = await client.consumers.get(EVENTS_STREAM, {
    ...(typeof from === 'number'
      ? { deliver_policy: DeliverPolicy.StartSequence, opt_start_seq: from }
      : { deliver_policy: DeliverPolicy.StartTime, opt_start_time: new Date(from.timeMs).toISOString() }),
    headers_only: headersOnly,
    inactive_threshold: nanos(CONSUMER_KEPT_MS),
    ...(subject === undefined ? {} : { filter_subjects: subject }),
  })
  const ahead = messagesAhead === undefined ? { max_bytes: MAX_BYTES_AHEAD } : { max_messages: messagesAhead }
  const messages = await consumer.consume({ ...ahead, abort_on_missing_resource: true })
  const stop = (): void => messages.stop()
  signal?.addEventListener('abort', stop)
  void connection.closed().then(stop)
  let received = 0
  let isWaiting = true
  let isEnd = false
  let receivedAtCheck = -1
  const endIfNothingIsLeft = async (): Promise<void> => {
    // A server that is busy with sending is not asked.
    const receivedBefore = received
    const isIdle = receivedAtCheck === receivedBefore
    receivedAtCheck = receivedBefore
    if (!isIdle) return
    const { num_pending } = await consumer.info()
    // What the server sent before this reply has arrived before it.
    if (num_pending > 0 || !isWaiting || received !== receivedBefore) return
    isEnd = true
    messages.stop()
  }
  // The rest of the range may be removed while it is read: no message then says that it was the last.
  const check = (): void =>
    void endIfNothingIsLeft().catch((error: unknown) => {
      // The consumer is gone. A server that does not answer in time may only be busy, and the connection's pings tell.
      if (codeOf(error) !== null) stop()
    })
  const idleCheck = until === null ? undefined : setInterval(check, IDLE_CHECK_MS)
  try {
    if (until !== null && (await consumer.info(true)).num_pending === 0) return
    for await (const message of messages) {
      if (until !== null && message.seq > until) return
      received++
      isWaiting = false
      yield message
      isWaiting = true
      if (until !== null && (message.seq === until || message.info.pending === 0)) return
    }
    if (!isEnd && signal?.aborted !== true) throw new UnavailableError('the connection to NATS broke')
  } finally {
    clearInterval(idleCheck)
    signal?.removeEventListener('abort', stop)
    messages.stop()
    if (!connection.isClosed()) await consumer.delete().catch(() => {})
  }
}
