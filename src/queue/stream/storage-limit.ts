// Limits of storage beside the stream's own: of its account, and of the servers that hold its copies. Any of them refuses messages.

import type { JetStreamAccountStats } from '@nats-io/jetstream'
import type { NatsConnection } from '@nats-io/transport-node'
import { managerOf } from '../../nats/api.ts'
import type { ServerStorage } from '../../nats/server-facts.ts'
import { MAX_RECORD_BYTES } from './stream.ts'

export interface StorageLimit {
  readonly of: 'account' | 'server'
  /** The subject of a sentence. */
  readonly store: string
  readonly usedBytes: number
  readonly maxBytes: number
  /** How often it counts a message: an account counts each copy. */
  readonly copies: number
  readonly advice: string
}

/** null: it has none, or does not say. Never rejects. */
export async function readAccountLimit(connection: NatsConnection, replicas: number): Promise<StorageLimit | null> {
  try {
    const manager = await managerOf(connection)
    return accountLimitOf(await manager.getAccountInfo(), replicas)
  } catch {
    return null
  }
}

/** Of a tier, as of three copies, the limit holds for each copy, and what is used for all of them. */
function accountLimitOf(stats: JetStreamAccountStats, replicas: number): StorageLimit | null {
  const { tiers } = stats as { tiers?: Record<string, Pick<JetStreamAccountStats, 'storage' | 'limits'>> }
  const name = `R${replicas}`
  const { storage: usedBytes, limits } = tiers === undefined ? stats : (tiers[name] ?? stats)
  if (!(limits?.max_storage > 0)) return null
  const maxBytes = tiers === undefined ? limits.max_storage : limits.max_storage * replicas
  const store = tiers === undefined ? 'the NATS account' : `tier ${name} of the NATS account`
  return { of: 'account', store, usedBytes, maxBytes, copies: replicas, advice: 'raise its storage limit (max_file)' }
}

export function serverLimitOf({ server, usedBytes, maxBytes }: ServerStorage): StorageLimit {
  const store = `the storage of NATS server ${server}`
  return { of: 'server', store, usedBytes, maxBytes, copies: 1, advice: 'raise its max_file_store' }
}

/** How much more each copy of the stream may take. */
export function roomBytesOf({ usedBytes, maxBytes, copies }: StorageLimit): number {
  return Math.max(0, maxBytes - usedBytes) / copies
}

/** It would refuse a batch of the largest size. */
export function isSpent(limit: StorageLimit): boolean {
  return roomBytesOf(limit) < MAX_RECORD_BYTES
}

/** The size at which a stream of this size is full, by the tightest of all limits; null: by none. */
export function fullAtBytes(
  { bytes, maxBytes }: { readonly bytes: number; readonly maxBytes: number | null },
  limits: readonly StorageLimit[],
): number | null {
  const tightest = Math.min(maxBytes ?? Number.POSITIVE_INFINITY, ...limits.map((one) => bytes + roomBytesOf(one)))
  return tightest === Number.POSITIVE_INFINITY ? null : tightest
}
