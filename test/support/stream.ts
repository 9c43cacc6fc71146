// What lies in the stream, as any outsider would read it: message by message, each record a line.

import { type JetStreamManager, jetstreamManager, type StoredMsg } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import type { StoredRecord } from './journal-files.ts'

export const STREAM = 'SLUICE_EVENTS'
/** Messages asked for at once. */
const AT_ONCE = 200

export interface StoredMessage {
  readonly sequence: number
  readonly subject: string
  /** `Nats-Msg-Id`. */
  readonly id: string
  readonly bytes: number
  readonly records: readonly StoredRecord[]
}

/** Does something over a connection of its own. */
export async function withStreams<T>(url: string, work: (streams: JetStreamManager) => Promise<T>): Promise<T> {
  const connection = await connect({ servers: url.replace('nats://', ''), timeout: 10_000 })
  try {
    return await work(await jetstreamManager(connection, { timeout: 10_000 }))
  } finally {
    await connection.close()
  }
}

/** Every message that is stored, oldest first; throws where a line is not a record. */
export function readStream(url: string, name = STREAM): Promise<StoredMessage[]> {
  return withStreams(url, async (streams) => {
    const { state } = await streams.streams.info(name)
    const messages: StoredMessage[] = []
    for (let from = Math.max(1, state.first_seq); from <= state.last_seq; from += AT_ONCE) {
      const count = Math.min(AT_ONCE, state.last_seq - from + 1)
      const asked = Array.from({ length: count }, (_, at) => streams.streams.getMessage(name, { seq: from + at }))
      // An empty message decides what is in doubt: it holds no record.
      const found = (await Promise.all(asked)).filter((message) => message !== null && message.data.length > 0)
      for (const message of found) messages.push(toStored(message as StoredMsg))
    }
    return messages
  })
}

function toStored(message: StoredMsg): StoredMessage {
  const text = message.string()
  if (!text.endsWith('\n')) throw new Error(`message ${message.seq} does not end with a newline`)
  const records = text
    .slice(0, -1)
    .split('\n')
    .map((line) => Object.assign(JSON.parse(line) as Omit<StoredRecord, 'line'>, { line }))
  return {
    sequence: message.seq,
    subject: message.subject,
    id: message.header.get('Nats-Msg-Id'),
    bytes: message.data.length,
    records,
  }
}

export async function readRecords(url: string, name = STREAM): Promise<StoredRecord[]> {
  return (await readStream(url, name)).flatMap(({ records }) => records)
}
