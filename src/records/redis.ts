// A connection to Redis for one command, which fails with a reason where Redis is away, rather than wait for it.

import { hostAndPort } from '../lib/admin-address.ts'
import { orStartError, StartError } from '../lib/errors.ts'
import { type RedisAccess, toRedisAddress } from '../redis/address.ts'
import { openRedis, type RedisConnection, untilUp } from '../redis/connection.ts'
import type { Away, RedisLink } from '../redis/link.ts'

/** For the whole first attempt, whose steps have timeouts of their own. */
const CONNECT_TIMEOUT_MS = 4000
/** For each call. Longer than in the service, since a person waits for it, not a request. */
const BUDGET_MS = 2000

export interface CommandRedis {
  /** `host:port`, as REDIS_URL names it. */
  readonly place: string
  /** Throws a StartError, which ends with `remark`, where Redis is away. */
  ask<T>(question: (link: RedisLink) => Promise<T | Away>, remark?: string): Promise<T>
}

/** Throws a StartError where Redis cannot be reached. */
export async function withRedis<T>(access: RedisAccess, use: (redis: CommandRedis) => Promise<T>): Promise<T> {
  const { host, port } = orStartError(() => toRedisAddress(access))
  const place = hostAndPort(host, port)
  const connection = await connect(access, place)
  try {
    return await use({
      place,
      async ask(question, remark = '') {
        const answer = await question(connection)
        if (answer === 'away') throw awayError(place, connection, remark)
        return answer
      },
    })
  } finally {
    await connection.stop()
  }
}

async function connect(redis: RedisAccess, place: string): Promise<RedisConnection> {
  let failed: () => void = () => {}
  const failure = new Promise<false>((resolve) => {
    failed = () => resolve(false)
  })
  const connection = orStartError(() => openRedis({ redis, budgetMs: BUDGET_MS, onNotice: () => failed() }))
  // A notice before the connection is up means that the first attempt failed.
  const isUp = await Promise.race([untilUp(connection, CONNECT_TIMEOUT_MS), failure])
  if (isUp || connection.isUp) return connection
  const error = awayError(place, connection)
  await connection.stop()
  throw error
}

function awayError(place: string, { status: { state, reason } }: RedisConnection, remark = ''): StartError {
  const fault = reason === null ? 'gives no answer' : `is ${state}: ${reason}`
  return new StartError(`Redis at ${place} ${fault}${remark}`)
}
