// Two installations on one Redis, distinguished by the time at which each one's stream was made. The first has it while its
// nodes say so; nodes of another one are put on a list, and do not audit: they would close its minutes by their stream.

import type { RedisLink } from '../redis/link.ts'
import { listOf, text, textOrNull } from '../redis/reply.ts'
import { readRedisTime } from '../redis/time.ts'

const OWNER_KEY = 'sluice:owner'
/** Nodes of other installations. */
export const FOREIGN_KEY = 'sluice:foreign'
/** Said again at each check, every ten seconds. */
const SAID_FOR_SECONDS = 120
/** So many checks, each of which finds a stream that was made again: Redis says none of those before for so long. */
export const MAX_FORMER_STREAMS = 12

/** own: this one's stream is the owner's. shared: it is, and nodes of another installation are there too. */
export type Ownership = 'own' | 'shared' | 'foreign' | 'unknown'

/**
 * `createdAt`: of this installation's stream, if it has one; `before`: of those that it had, so that a stream that was made again is no
 * other installation, also to a Redis that went back to an older state. unknown: Redis is away.
 */
export async function claimRedis(
  redis: RedisLink,
  nodeId: string,
  createdAt: string | undefined,
  before: readonly string[],
): Promise<Ownership> {
  const nowMs = await readRedisTime(redis).catch(() => 'away' as const)
  const said = await redis.call((client) => client.get(OWNER_KEY), textOrNull).catch(() => 'away' as const)
  if (nowMs === 'away' || said === 'away') return 'unknown'
  const [owner, saidAt] = (said ?? '').split(' ')
  const isOver = Math.abs(nowMs - Number(saidAt)) > SAID_FOR_SECONDS * 1000
  const isOwn = said === null || isOver || !(Number(saidAt) > 0) || owner === createdAt || before.includes(owner)
  const others = await redis
    .call(async (client) => {
      if (isOwn) {
        if (createdAt !== undefined) await client.set(OWNER_KEY, `${createdAt} ${nowMs}`)
        await client.zrem(FOREIGN_KEY, nodeId)
        return await client.zrange(FOREIGN_KEY, '0', '-1')
      }
      await Promise.all([client.zadd(FOREIGN_KEY, 0, nodeId), client.expire(FOREIGN_KEY, SAID_FOR_SECONDS)])
      return []
    }, listOf(text))
    .catch(() => 'away' as const)
  if (others === 'away') return 'unknown'
  if (!isOwn) return 'foreign'
  return others.length === 0 ? 'own' : 'shared'
}

const ADVICE = 'give each installation a Redis of its own, or another database of it (redis://HOST:6379/1)'

export function ownershipText(ownership: 'shared' | 'foreign'): string {
  return ownership === 'foreign'
    ? `REDIS_URL is the Redis of another installation, whose stream is another one: this node does not audit, its limits of day and month are not exact, and counts and keys of equal app ids are shared; ${ADVICE}`
    : `nodes of another installation, with another stream, use this Redis: they do not audit, and counts and keys of equal app ids are shared; ${ADVICE}`
}
