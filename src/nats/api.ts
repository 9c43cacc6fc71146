// What calls of JetStream's API share: the timeout, what their errors mean, and the question that shows what NATS holds of a
// stream or bucket. Whoever asks it says what it takes from the answer.

import {
  JetStreamApiCodes,
  JetStreamApiError,
  type JetStreamManager,
  jetstreamManager,
  type StreamInfo,
} from '@nats-io/jetstream'
import type { NatsConnection } from '@nats-io/transport-node'
import { describeFault } from './connection.ts'

export const API_TIMEOUT_MS = 1000

/** Asks the server nothing yet. */
export function managerOf(connection: NatsConnection, timeoutMs = API_TIMEOUT_MS): Promise<JetStreamManager> {
  return jetstreamManager(connection, { checkAPI: false, timeout: timeoutMs })
}

/** `reason` is safe to log. */
export type StreamAnswer<Facts> =
  | { readonly kind: 'present'; readonly facts: Facts }
  | { readonly kind: 'absent' }
  | { readonly kind: 'unreadable'; readonly reason: string }

/** `factsOf` may throw on an answer of another shape. `subjects`: counts the messages of each of these. Never rejects. */
export async function askStream<Facts>(
  connection: NatsConnection,
  stream: string,
  factsOf: (info: StreamInfo) => Facts,
  subjects?: string,
): Promise<StreamAnswer<Facts>> {
  try {
    const { streams } = await managerOf(connection)
    const info = await streams.info(stream, subjects === undefined ? undefined : { subjects_filter: subjects })
    return { kind: 'present', facts: factsOf(info) }
  } catch (error) {
    if (codeOf(error) === JetStreamApiCodes.StreamNotFound) return { kind: 'absent' }
    return { kind: 'unreadable', reason: reasonOf(error) }
  }
}

export function reasonOf(error: unknown): string {
  return isUntaken(error) ? 'JetStream is not enabled' : describeFault(error)
}

/** Nobody took the request: JetStream is off, or, which the client cannot tell apart, there is no leader yet. */
export function isUntaken(error: unknown): boolean {
  return error instanceof Error && error.name === 'JetStreamNotEnabled'
}

export function codeOf(error: unknown): number | null {
  return error instanceof JetStreamApiError ? error.code : null
}
