// One stored message by its sequence, without a consumer: from any replica, where the stream allows that, or from its
// leader, who alone knows for sure that there is none.

import { JetStreamApiCodes } from '@nats-io/jetstream'
import type { NatsConnection } from '@nats-io/transport-node'
import { STREAM_NAME } from '../stream.ts'

const DIRECT_GET = `$JS.API.DIRECT.GET.${STREAM_NAME}`
const LEADER_GET = `$JS.API.STREAM.MSG.GET.${STREAM_NAME}`
const NOT_FOUND = 404
/** Headers that a direct answer carries in addition to the message's own. */
const SEQUENCE_HEADER = 'Nats-Sequence'
const TIME_HEADER = 'Nats-Time-Stamp'
const SUBJECT_HEADER = 'Nats-Subject'

export interface StoredMessage {
  readonly sequence: number
  readonly subject: string
  readonly storedAtMs: number
  readonly data: Buffer
}

/** The message `sequence` itself; with a `subject`, the first of that subject from there on. */
export interface MessageQuery {
  readonly sequence: number
  readonly subject?: string
}

/**
 * null: this replica has none, which the leader may. A stream that does not allow this lets the request run out of time:
 * the server takes it as one for JetStream, and no one there answers.
 */
export async function getFromReplica(
  connection: NatsConnection,
  query: MessageQuery,
  timeoutMs: number,
): Promise<StoredMessage | null> {
  const answer = await connection.request(DIRECT_GET, requestText(query), { timeout: timeoutMs })
  const head = answer.headers
  if (head === undefined) throw new Error('a stored message came without its headers')
  if (head.code === NOT_FOUND) return null
  if (head.code !== 0) throw new Error(`JetStream refused a message: ${head.description}`)
  return {
    sequence: Number(head.get(SEQUENCE_HEADER)),
    subject: head.get(SUBJECT_HEADER),
    storedAtMs: Date.parse(head.get(TIME_HEADER)),
    data: Buffer.from(answer.data.buffer, answer.data.byteOffset, answer.data.length),
  }
}

/** null: there is none. */
export async function getFromLeader(
  connection: NatsConnection,
  query: MessageQuery,
  timeoutMs: number,
): Promise<StoredMessage | null> {
  const answer = await connection.request(LEADER_GET, requestText(query), { timeout: timeoutMs })
  const { message, error } = answer.json<LeaderAnswer>()
  if (error !== undefined) {
    if (error.err_code === JetStreamApiCodes.NoMessageFound || error.err_code === JetStreamApiCodes.StreamNotFound) {
      return null
    }
    throw new Error(`JetStream refused a message: ${error.description}`)
  }
  if (message === undefined) throw new Error('JetStream answered without a message')
  return {
    sequence: message.seq,
    subject: message.subject,
    storedAtMs: Date.parse(message.time),
    data: Buffer.from(message.data ?? '', 'base64'),
  }
}

interface LeaderAnswer {
  readonly message?: {
    readonly subject: string
    readonly seq: number
    readonly time: string
    readonly hdrs?: string
    readonly data?: string
  }
  readonly error?: { readonly code: number; readonly err_code?: number; readonly description: string }
}

function requestText({ sequence, subject }: MessageQuery): string {
  return JSON.stringify(subject === undefined ? { seq: sequence } : { seq: sequence, next_by_subj: subject })
}
