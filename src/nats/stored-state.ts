// What JetStream holds in a stream or bucket, which distinguishes one that was deleted, emptied or cut short from the one
// that was there before.

import type { StreamInfo } from '@nats-io/jetstream'
import type { NatsConnection } from '@nats-io/transport-node'
import { askStream, managerOf } from './api.ts'

export interface StoredState {
  /** ISO 8601. A stream that was deleted and created again has another. */
  readonly createdAt: string
  readonly messages: number
  readonly firstSequence: number
  readonly lastSequence: number
  /** When the first and the last message were stored; null: there is none. */
  readonly firstAtMs: number | null
  readonly lastAtMs: number | null
  /** The age at which messages are removed; null: never. */
  readonly keepMs: number | null
}

/** null: there is none. Rejects where JetStream does not answer. A bucket's stream is named `KV_` and its name. */
export async function describeStored(connection: NatsConnection, stream: string): Promise<StoredState | null> {
  const answer = await askStream(connection, stream, storedStateOf)
  if (answer.kind === 'unreadable') throw new Error(answer.reason)
  return answer.kind === 'absent' ? null : answer.facts
}

function storedStateOf({ created, state, config }: StreamInfo): StoredState {
  const isEmpty = state.messages === 0
  return {
    createdAt: created,
    messages: state.messages,
    firstSequence: state.first_seq,
    lastSequence: state.last_seq,
    firstAtMs: isEmpty ? null : Date.parse(state.first_ts),
    lastAtMs: isEmpty ? null : Date.parse(state.last_ts),
    keepMs: config.max_age > 0 ? config.max_age / 1_000_000 : null,
  }
}

/** When a message was stored; null: it is not there. */
export async function storedAtMs(connection: NatsConnection, stream: string, sequence: number): Promise<number | null> {
  const manager = await managerOf(connection)
  const message = await manager.streams.getMessage(stream, { seq: sequence })
  return message?.time.getTime() ?? null
}
