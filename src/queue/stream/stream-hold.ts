// Keeps nodes from making the stream again while a backup of it is restored: an entry in SLUICE_COUNTS, which people put there
// (docs/recovery.md). Without one a lost stream is made again at once: an outage is not prolonged for whoever has no backup.

import type { NatsConnection } from '@nats-io/transport-node'
import { Bucket } from '../../nats/bucket.ts'
import { COUNTS_BUCKET } from '../../nats/store-names.ts'

export const HOLD_KEY = 'hold'
/** From its last put. One that was forgotten must not prolong the next outage. */
const HOLD_MS = 6 * 3_600_000

/** null: nobody holds it, or the bucket does not say. Never rejects. */
export async function heldText(connection: NatsConnection, nowMs: number): Promise<string | null> {
  try {
    const entries = await new Bucket(connection, COUNTS_BUCKET).open()
    const entry = await entries.get(HOLD_KEY)
    if (entry === null || entry.operation !== 'PUT') return null
    const untilMs = entry.created.getTime() + HOLD_MS
    if (untilMs <= nowMs) return null
    const until = new Date(untilMs).toISOString()
    return `it is gone, and is not made again before ${until}, since ${COUNTS_BUCKET} has the entry ${HOLD_KEY} (docs/recovery.md)`
  } catch {
    return null
  }
}
