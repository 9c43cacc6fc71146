// What calls of JetStream's API share: the timeout, and what their errors mean.

import { JetStreamApiError } from '@nats-io/jetstream'
import { describeFault } from './connection.ts'

export const API_TIMEOUT_MS = 1000

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
