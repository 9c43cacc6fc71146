// What calls of JetStream's API share: the timeout, and what their errors mean.

import { JetStreamApiError } from '@nats-io/jetstream'
import { describeFault } from './connection.ts'

export const API_TIMEOUT_MS = 1000

export function reasonOf(error: unknown): string {
  // The client also throws this while the cluster has no leader yet.
  return error instanceof Error && error.name === 'JetStreamNotEnabled'
    ? 'JetStream is not enabled'
    : describeFault(error)
}

export function codeOf(error: unknown): number | null {
  return error instanceof JetStreamApiError ? error.code : null
}
