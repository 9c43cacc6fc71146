// The apps and their usage in NATS and Redis, which all nodes share.

import type { Clock } from '../../lib/clock.ts'
import { readDays, readUsage, readUsages } from '../../limits/shared/usage.ts'
import type { NatsAccess } from '../../nats/address.ts'
import { connectNats } from '../../nats/connection.ts'
import { describeStream } from '../../queue/stream/stream.ts'
import { type AppRecords, appsOf, withAppRecords } from '../../records/app-records.ts'
import { type CommandRedis, withRedis } from '../../records/redis.ts'
import { readRedisTime } from '../../redis/time.ts'
import type { Config } from '../../settings/config.ts'
import type { Stores } from './usage-stores.ts'

export function withSharedStores<T>(
  config: Config,
  { redis: access, clock }: { readonly redis: NonNullable<Config['redis']>; readonly clock: Clock },
  use: (stores: Stores) => Promise<T>,
): Promise<T> {
  const { partitions, nats, spool } = config
  const storesOf = (redis: CommandRedis, records: AppRecords): Stores => ({
    // The windows follow the clock of Redis, from which this machine's may differ.
    now: () => redis.ask(readRedisTime),
    findApp: (appKey) => records.find(appKey),
    usageOf: (app, nowMs) => redis.ask((link) => readUsage(link, app, { partitions, nowMs })),
    // What the stream does not take, a spool does, as far as can be seen from here.
    queueRefusal: async (bodyBytes) => (nats === null || spool !== null ? null : streamRefusal(nats, bodyBytes)),
    all: async () => {
      const { records: valid, complaints } = await records.list()
      return { apps: appsOf(valid), complaints }
    },
    usagesAt: async (nowMs) => (apps) => redis.ask((link) => readUsages(link, apps, { partitions, nowMs })),
    daysAt: async () => (apps) => redis.ask((link) => readDays(link, apps, partitions)),
  })
  return withAppRecords(config, clock, (records) => withRedis(access, (redis) => use(storesOf(redis, records))))
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
