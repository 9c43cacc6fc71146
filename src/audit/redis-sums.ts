// The sums of one partition as Redis has them, for an auditor that finds none in SLUICE_COUNTS while the stream no longer
// reaches back to its first message.

import { countsKey, fenceIn, fenceKey } from '../limits/shared/take.ts'
import { parseDays } from '../limits/shared/usage.ts'
import type { Away, RedisClient, RedisLink } from '../redis/link.ts'
import { inOrder, listOf, text, textOrNull } from '../redis/reply.ts'
import type { SavedApp } from './app-totals.ts'
import type { SavedTotals } from './totals.ts'

const SCAN_COUNT = '1000'
const BASE = /^(\d+) (\d+) (\d+) (\d+) (\d+) \d+ \d+$/

/** What an auditor had read and closed when it wrote these sums, and the sums. null: Redis has none. */
export type RedisSums = Pick<SavedTotals, 'timeUs' | 'minute' | 'apps'> | null

/** Rejects with an error reply of Redis. */
export async function readRedisSums(redis: RedisLink, partition: number): Promise<RedisSums | Away> {
  const prefix = countsKey(partition, '')
  const keys = await scanKeys(redis, prefix)
  if (keys === 'away') return 'away'
  const fence = await redis.call((client) => client.get(fenceKey(partition)), textOrNull)
  if (fence === 'away') return 'away'
  const known = fenceIn(fence)
  let { timeUs, minute } = known ?? { timeUs: 0, minute: 0 }
  const apps: [string, SavedApp][] = []
  for (const key of keys) {
    const fields = await redis.call((client) => client.hmget(key, 'base', 'days'), listOf(textOrNull, 2))
    if (fields === 'away') return 'away'
    const found = BASE.exec(fields[0] ?? '')
    if (found === null) continue
    const [baseUs, baseMinute, cycle, used, newest] = found.slice(1).map(Number)
    apps.push([key.slice(prefix.length), [newest, cycle, [[cycle, used]], ...daysOf(fields[1] ?? '')]])
    if (known === null && baseMinute >= minute) [timeUs, minute] = [Math.max(timeUs, baseUs), baseMinute]
  }
  // Object.fromEntries also accepts an app with the id `__proto__`.
  return apps.length === 0 ? null : { timeUs, minute, apps: Object.fromEntries(apps) }
}

/** The first day, and the events of each day from then on. */
function daysOf(text: string): [number, number[]] {
  const days = parseDays(text)
  if (days.size === 0) return [0, []]
  const first = Math.min(...days.keys())
  const count = Math.max(...days.keys()) - first + 1
  return [first, Array.from({ length: count }, (_, at) => days.get(first + at) ?? 0)]
}

async function scanKeys(redis: RedisLink, prefix: string): Promise<string[] | Away> {
  const keys = new Set<string>()
  const serversOf = (client: RedisClient) => ('nodes' in client ? client.nodes('master') : [client])
  for (let server = 0; ; server++) {
    for (let cursor = '0'; ; ) {
      const reply = await redis.call(
        async (client) => {
          const scan = serversOf(client).at(server)?.scan(cursor, 'MATCH', `${prefix}*`, 'COUNT', SCAN_COUNT)
          return (await scan) ?? null
        },
        (given) => (given === null ? null : inOrder(text, listOf(text))(given)),
      )
      if (reply === 'away') return 'away'
      if (reply === null) return [...keys]
      cursor = reply[0]
      for (const key of reply[1]) keys.add(key)
      if (cursor === '0') break
    }
  }
}
