// Opens the stores: on this machine alone, or shared with other nodes through Redis and NATS.

import type { Config } from '../settings/config.ts'
import { openEmbeddedStores } from './embedded.ts'
import type { Started } from './started.ts'
import type { Stores, StoresContext } from './stores.ts'

/**
 * Puts each part on `started` as it opens, which the caller stops, after a failure too. Throws a StartError that says
 * what to mend. Redis and NATS may be away: the service starts and waits for them.
 */
export async function openStores(config: Config, context: StoresContext, started: Started): Promise<Stores> {
  const { redis, nats } = config
  if (redis === null || nats === null) return await openEmbeddedStores(config, context, started)
  // A node on one machine loads neither client.
  const { openSharedStores } = await import('./shared.ts')
  return await openSharedStores(config, { ...context, redisAccess: redis, nats }, started)
}
