// Stored records with real batch ids: made at a time, or derived from app and key.

import { randomFillSync } from 'node:crypto'
import { batchIdOf, createFreshIds } from '../../src/contract/ids.ts'

const freshId = createFreshIds(randomFillSync)

export interface BatchWish {
  readonly appId?: string
  /** Idempotency-Key; without one the id is made at `receivedAtMs`. */
  readonly key?: string
  readonly receivedAtMs: number
  /** JSON text of `events`. */
  readonly events?: string
  /** JSON text of further members, each with a comma before it. */
  readonly members?: string
}

export interface Batch {
  readonly id: string
  /** With its newline. */
  readonly line: string
}

export function makeBatch({ appId = 'demo', key, receivedAtMs, events = '[{"n":1}]', members = '' }: BatchWish): Batch {
  // A new source for each old time, since the ids of one source never go back.
  const id = key === undefined ? idAt(receivedAtMs) : batchIdOf(appId, key)
  const receivedAt = new Date(receivedAtMs).toISOString()
  const head = `"v":1,"batch_id":"${id}","app_id":"${appId}","received_at":"${receivedAt}"`
  return { id, line: `{${head}${members},"events":${events}}\n` }
}

let lastMs = 0

function idAt(timeMs: number): string {
  if (timeMs < lastMs) return createFreshIds(randomFillSync)(timeMs)
  lastMs = timeMs
  return freshId(timeMs)
}
