// The apps and their usage, as `sluice explain` and `sluice usage` read them while the service may be running. It never writes, neither
// to a folder nor to Redis or NATS.

import type { App } from '../../apps/app.ts'
import type { ExplainStores } from '../../inspect/explain.ts'
import type { ReadDays, ReadUsages } from '../../inspect/usage-report.ts'
import type { Clock } from '../../lib/clock.ts'
import type { MemoryLimiter } from '../../limits/own/memory-limiter.ts'
import { recoverLimiter } from '../../limits/own/recovered.ts'
import { measureJournal } from '../../queue/journal/journal-filling.ts'
import { appsOf, findApp, readRecordsFile } from '../../records/app-records.ts'
import type { Config } from '../../settings/config.ts'

export interface Stores extends Omit<ExplainStores, 'bytesOf'> {
  /** The clock of the limits' windows. */
  now(): Promise<number>
  /** Every app, and a complaint about each record that cannot be used. */
  all(): Promise<{ readonly apps: readonly App[]; readonly complaints: readonly string[] }>
  /** Reads the counters as they are at `nowMs`. */
  usagesAt(nowMs: number): Promise<ReadUsages>
  daysAt(nowMs: number): Promise<ReadDays>
}

/** Throws a StartError for what cannot be read. */
export async function withStores<T>(config: Config, clock: Clock, use: (stores: Stores) => Promise<T>): Promise<T> {
  const { appsFile, redis: redisAccess } = config
  // First, so that a missing file is reported before Redis or NATS are asked.
  const apps = appsFile === null ? [] : appsOf(readRecordsFile(appsFile, config.appsFileNamed))
  if (redisAccess === null) return await use(ownStores(config, clock, apps))
  // Loads the clients of NATS and Redis, which a command on one machine does not need.
  const { withSharedStores } = await import('./shared-stores.ts')
  return await withSharedStores(config, { redis: redisAccess, clock }, use)
}

/** The counters of a single node are in its journal, and in the snapshot beside it. */
function ownStores({ dataDirectory, journalMaxBytes }: Config, clock: Clock, apps: readonly App[]): Stores {
  const limiterAt = async (nowMs: number): Promise<MemoryLimiter> =>
    (await recoverLimiter({ dataDirectory, nowMs, apps, onDamage: () => {} })).limiter
  return {
    now: async () => clock(),
    findApp: async (appKey) => findApp(apps, appKey, clock()),
    usageOf: async (app, nowMs) => (await limiterAt(nowMs)).usage(app, nowMs),
    queueRefusal: async (bodyBytes) => {
      const { bytes, freeBytes } = await measureJournal(dataDirectory)
      return Math.min(journalMaxBytes - bytes, freeBytes) < bodyBytes ? 'journal_full' : null
    },
    all: async () => ({ apps, complaints: [] }),
    usagesAt: async (nowMs) => {
      const limiter = await limiterAt(nowMs)
      return (asked) => asked.map((app) => limiter.usage(app, nowMs))
    },
    daysAt: async (nowMs) => {
      const limiter = await limiterAt(nowMs)
      return (asked) => asked.map(({ appId }) => limiter.days(appId, nowMs))
    },
  }
}
