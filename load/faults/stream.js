// @ts-check
// Reads the whole stream with the NATS client itself, so that what is found there does not pass through sluice.

import { jetstream, jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'

const STREAM = 'SLUICE_EVENTS'
const READ_TIMEOUT_MS = 120_000

/** @typedef {{ batch_id: string, app_id: string, received_at: string, events: unknown[] }} StoredRecord */

/** @param {string} url @param {(record: StoredRecord) => void} onRecord @returns {Promise<{ messages: number, records: number }>} */
export async function readStream(url, onRecord) {
  const connection = await connect({ servers: url.split(',').map((each) => each.replace('nats://', '')) })
  try {
    const manager = await jetstreamManager(connection)
    const { state } = await manager.streams.info(STREAM)
    let records = 0
    let lastSequence = 0
    if (state.messages > 0) {
      const consumer = await jetstream(connection).consumers.get(STREAM)
      const messages = await consumer.consume({ max_messages: 500 })
      const late = setTimeout(() => messages.stop(new Error('the stream was not read to its end')), READ_TIMEOUT_MS)
      for await (const message of messages) {
        for (const line of message.string().split('\n')) {
          if (line === '') continue
          onRecord(JSON.parse(line))
          records += 1
        }
        lastSequence = message.seq
        if (lastSequence >= state.last_seq) break
      }
      clearTimeout(late)
      if (lastSequence < state.last_seq) throw new Error('the stream was not read to its end')
    }
    return { messages: state.messages, records }
  } finally {
    await connection.close()
  }
}
