// The apps and their usage, as `sluice explain` and `sluice usage` read them while the service may be running. It never writes, neither
// to a folder nor to Redis or NATS.

import type { App } from '../../apps/app.ts'
import type { ExplainStores } from '../../inspect/explain.ts'
import type { ReadDays } from '../../inspect/usage-days.ts'
import type { ReadUsages } from '../../inspect/usage-report.ts'
import type { Clock } from '../../lib/clock.ts'
import type { MemoryLimiter } from '../../limits/own/memory-limiter.ts'
import { recoverLimiter } from '../../limits/own/recovered.ts'
import { readDays, readUsage, readUsages } from '../../limits/shared/usage.ts'
import type { NatsAccess } from '../../nats/address.ts'
import { connectNats } from '../../nats/connection.ts'
import { measureJournal } from '../../queue/journal/journal-filling.ts'
import { describeStream } from '../../queue/stream/stream.ts'
import { type AppRecords, appsOf, findApp, readRecordsFile, withAppRecords } from '../../records/app-records.ts'
import { type CommandRedis, withRedis } from '../../records/redis.ts'
import type { Config } from '../../settings/config.ts'

export interface Stores extends ExplainStores {
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
  return await withAppRecords(config, clock, (records) =>
    withRedis(redisAccess, (redis) => use(sharedStores(redis, records, config))),
  )
}

function sharedStores(redis: CommandRedis, records: AppRecords, { partitions, nats }: Config): Stores {
  return {
    // The windows follow the clock of Redis, from which this machine's may differ.
    now: async () => {
      // The client's types are wrong: these are strings.
      const [seconds, microseconds]: readonly unknown[] = await redis.ask((link) =>
        link.call((client) => client.time()),
      )
      return Number(seconds) * 1000 + Math.floor(Number(microseconds) / 1000)
    },
    findApp: (appKey) => records.find(appKey),
    usageOf: (app, nowMs) => redis.ask((link) => readUsage(link, app, { partitions, nowMs })),
    queueRefusal: (bodyBytes) => (nats === null ? Promise.resolve(null) : streamRefusal(nats, bodyBytes)),
    all: async () => {
      const { records: valid, complaints } = await records.list()
      return { apps: appsOf(valid), complaints }
    },
    usagesAt: async (nowMs) => (apps) => redis.ask((link) => readUsages(link, apps, { partitions, nowMs })),
    daysAt: async () => (apps) => redis.ask((link) => readDays(link, apps, partitions)),
  }
}

/** What cannot be seen from here, such as whether the nodes reach NATS, is not guessed. */
async function streamRefusal(nats: NatsAccess, bodyBytes: number): Promise<'stream_full' | null> {
  const connection = await connectNats(nats).catch(() => null)
  if (connection === null) return null
  try {
    const report = await describeStream(connection)
    if (report.kind !== 'present' || report.facts.discardsOld) return null
    const { bytes, maxBytes, messages, maxMessages } = report.facts
    const isFull =
      (maxBytes !== null && bytes + bodyBytes > maxBytes) || (maxMessages !== null && messages >= maxMessages)
    return isFull ? 'stream_full' : null
  } finally {
    await connection.close()
  }
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
