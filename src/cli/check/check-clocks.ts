// The part of `sluice check` that compares the clocks of this machine, Redis and NATS.

import { skewText } from '../../audit/clock-watch.ts'
import { Clocks } from '../../audit/clocks.ts'
import { readNatsTime } from '../../audit/nats-time.ts'
import { systemTimers } from '../../lib/timers.ts'
import { connectNats } from '../../nats/connection.ts'
import { withRedis } from '../../records/redis.ts'
import { readRedisTime } from '../../redis/time.ts'
import type { Config } from '../../settings/config.ts'
import { type Finding, finding, findingWith } from './finding.ts'

const WARN_FROM_MS = 2000

/** None where Redis or NATS does not answer: another line says why. */
export async function clockFindings({ redis: redisAccess, nats }: Config): Promise<Finding[]> {
  if (redisAccess === null || nats === null) return []
  const clocks = new Clocks(systemTimers)
  try {
    await withRedis(redisAccess, async (redis) => clocks.heard('redis', await redis.ask(readRedisTime)))
    const connection = await connectNats(nats)
    const natsMs = await readNatsTime(connection, false).finally(() => connection.close())
    if (natsMs !== null) clocks.heard('nats', natsMs)
  } catch {
    return []
  }
  return [clockFinding(clocks)]
}

export function clockFinding(clocks: Clocks): Finding {
  const skews = clocks.skews()
  const { kind } = clocks.state()
  const apart = (['redis', 'nats'] as const).flatMap((of) => {
    const skewMs = skews[of]
    return skewMs !== null && Math.abs(skewMs) >= WARN_FROM_MS ? [skewText(of, skewMs)] : []
  })
  if (kind === 'skewed')
    return finding('clocks', 'FAIL', [...apart, 'a node here would not audit: set NTP up'].join('; '))
  if (kind === 'apart') return finding('clocks', 'FAIL', [...apart, 'no node would audit: set NTP up'].join('; '))
  const detail =
    skews.nats === null ? 'this machine and Redis; NATS does not say its time' : 'this machine, Redis and NATS'
  return findingWith('clocks', detail, apart.length === 0 ? [] : [...apart, 'set NTP up'])
}
