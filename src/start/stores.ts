// Opens the four stores that a request needs: apps, limits, keys and queue. They live on this machine alone, or they
// are shared with other nodes through Redis and NATS.

import type { App, AppStore } from '../apps/app.ts'
import type { Clock } from '../lib/clock.ts'
import type { Admission } from '../limits/admission.ts'
import type { Log } from '../observe/log.ts'
import type { Metrics } from '../observe/metrics.ts'
import type { Sampler } from '../observe/sampler.ts'
import type { EventQueue } from '../queue/queue.ts'
import type { Config } from '../settings/config.ts'
import { openEmbeddedStores } from './embedded.ts'
import { openSharedStores } from './shared.ts'
import type { Started } from './started.ts'

export interface Stores {
  readonly apps: AppStore
  readonly admission: Admission
  readonly queue: EventQueue
  /** The app that a first start made for trying things out; null: there is none. */
  readonly demoApp: App | null
  readonly gauges: Sampler
  /** True once everything shared has been reached at least once. */
  readonly isReady: () => boolean
  /** The state of each part, for /readyz?verbose. */
  readonly parts: () => Record<string, string>
}

export interface StoresContext {
  readonly log: Log
  readonly clock: Clock
  readonly metrics: Metrics
  readonly snapshotIntervalMs?: number
}

/**
 * Puts each part on `started` as it opens, which the caller stops, after a failure too. Throws a StartError that says
 * what to mend. Redis and NATS may be away: the service starts and waits for them.
 */
export function openStores(config: Config, context: StoresContext, started: Started): Promise<Stores> {
  const { redisUrl, natsUrl } = config
  return redisUrl === null || natsUrl === null
    ? openEmbeddedStores(config, context, started)
    : openSharedStores(config, { ...context, redisUrl, natsUrl }, started)
}
