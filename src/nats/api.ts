// Calls of JetStream's API, and what their errors say.

import { JetStreamApiError } from '@nats-io/jetstream'
import { describeFault } from './connection.ts'

export const API_TIMEOUT_MS = 1000

export function reasonOf(error: unknown): string {
  // Also where its servers have no leader yet.
  return error instanceof Error && error.name === 'JetStreamNotEnabled'
    ? 'JetStream is not enabled'
    : describeFault(error)
}

export function codeOf(error: unknown): number | null {
  return error instanceof JetStreamApiError ? error.code : null
}
