// What a body is held against, as `sluice explain` reads it beside a service that may be running: apps, and what they
// have used. Nothing is written, in a folder or in Redis.

import type { App } from '../admit/app.ts'
import type { Standing } from '../admit/limiter.ts'
import type { Config } from '../config.ts'
import type { Clock } from '../lib/clock.ts'
import { readStanding } from '../limits/shared/standing.ts'
import { recoverLimiter } from '../recovered.ts'
import { type AppRecords, appsOf, recordsInFile, recordsInRedis } from './app-records.ts'
import { type CommandRedis, withRedis } from './redis.ts'

export interface Stores {
  /** The time that the windows of the limits go by. */
  now(): Promise<number>
  findApp(appKey: string): Promise<App | null>
  standingOf(app: App, nowMs: number): Promise<Standing>
}

/** What cannot be read throws a StartError. */
export async function withStores<T>(config: Config, clock: Clock, use: (stores: Stores) => Promise<T>): Promise<T> {
  const { appsFile, redisUrl } = config
  const file = appsFile === null ? null : recordsInFile(appsFile, config)
  // A file that is missing is told of before anything else is asked for.
  const apps = file === null ? [] : appsOf(await file.all())
  if (redisUrl !== null) {
    return await withRedis(redisUrl, (redis) => use(sharedStores(redis, file ?? recordsInRedis(redis), config)))
  }
  return await use(ownStores(config, clock, apps))
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
    standingOf: (app, nowMs) => redis.ask((link) => readStanding(link, app, { partitions, nowMs })),
  }
}

/** The counters of a single node are in its journal, and in the snapshot beside it. */
function ownStores({ dataDirectory }: Config, clock: Clock, apps: readonly App[]): Stores {
  return {
    now: async () => clock(),
    findApp: async (appKey) => apps.find((app) => app.appKey === appKey) ?? null,
    standingOf: async (app, nowMs) => {
      const { limiter } = await recoverLimiter({ dataDirectory, nowMs, apps, onCorrupt: () => {} })
      return limiter.standing(app, nowMs)
    },
  }
}
