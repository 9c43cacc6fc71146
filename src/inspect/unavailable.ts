// Why a question cannot be answered now though nothing is wrong with sluice: a closed set. Whatever else is thrown is a bug.

import { StartError, UnavailableError } from '../lib/errors.ts'

/** The names that the client of NATS gives to errors of connections, servers and JetStream; not those of wrong arguments. */
const NATS_FAULTS: ReadonlySet<string> = new Set([
  'AuthorizationError',
  'ClosedConnectionError',
  'ConnectionError',
  'ConsumerNotFoundError',
  'DrainingConnectionError',
  'JetStreamApiError',
  'JetStreamError',
  'JetStreamNotEnabled',
  'JetStreamStatusError',
  'NoResponders',
  'PermissionViolationError',
  'ProtocolError',
  'RequestError',
  'StreamNotFoundError',
  'TimeoutError',
  'UserAuthenticationExpiredError',
])

/** null: it is a bug. */
export function unavailableReason(error: unknown): string | null {
  if (!(error instanceof Error)) return null
  // A store that cannot be read; or the system says it, of a file or a socket.
  if (error instanceof UnavailableError || error instanceof StartError || 'errno' in error) return error.message
  if (NATS_FAULTS.has(error.name)) return `NATS does not answer this: ${error.message}`
  return unavailableReason(error.cause)
}
