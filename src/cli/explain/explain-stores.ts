// What a body is held against, as `sluice explain` reads it beside a service that may be running: apps, and what they
// have used. Nothing is written, in a folder, in Redis or in NATS.

import type { App } from '../../apps/app.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Usage } from '../../limits/limiter.ts'
import { readUsage } from '../../limits/shared/usage.ts'
import type { Config } from '../../settings/config.ts'
import { recoverLimiter } from '../../start/recovered.ts'
import { type AppRecords, appsOf, findApp, readRecordsFile, withAppRecords } from '../apps/app-records.ts'
import { type CommandRedis, withRedis } from '../redis.ts'

export interface Stores {
  /** The time that the windows of the limits go by. */
  now(): Promise<number>
  findApp(appKey: string): Promise<App | null>
  standingOf(app: App, nowMs: number): Promise<Usage>
}

/** What cannot be read throws a StartError. */
export async function withStores<T>(config: Config, clock: Clock, use: (stores: Stores) => Promise<T>): Promise<T> {
  const { appsFile, redisUrl } = config
  // A file that is missing is told of before anything else is asked for.
  const apps = appsFile === null ? [] : appsOf(readRecordsFile(appsFile, config.appsFileNamed))
  if (redisUrl === null) return await use(ownStores(config, clock, apps))
  return await withAppRecords(config, clock, (records) =>
    withRedis(redisUrl, (redis) => use(sharedStores(redis, records, config))),
  )
}

function sharedStores(redis: CommandRedis, records: AppRecords, { partitions }: Config): Stores {
  return {
    // Redis opens and closes the windows by its own clock, and this machine's may be off.
    now: async () => {
      // Strings, whatever the client's types say.
      const [seconds, microseconds]: readonly unknown[] = await redis.ask((link) =>
        link.call((client) => client.time()),
      )
      return Number(seconds) * 1000 + Math.floor(Number(microseconds) / 1000)
    },
    findApp: (appKey) => records.find(appKey),
    standingOf: (app, nowMs) => redis.ask((link) => readUsage(link, app, { partitions, nowMs })),
  }
}

/** The counters of a single node are in its journal, and in the snapshot beside it. */
function ownStores({ dataDirectory }: Config, clock: Clock, apps: readonly App[]): Stores {
  return {
    now: async () => clock(),
    findApp: async (appKey) => findApp(apps, appKey, clock()),
    standingOf: async (app, nowMs) => {
      const { limiter } = await recoverLimiter({ dataDirectory, nowMs, apps, onCorrupt: () => {} })
      return limiter.usage(app, nowMs)
    },
  }
}
