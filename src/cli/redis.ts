// The link to Redis for the length of one command: it is there at once or the command says why not, and nobody waits
// for its return.

import { errorMessage, StartError } from '../lib/errors.ts'
import { openRedis, type RedisConnection, untilUp } from '../redis/connection.ts'
import type { Away, RedisLink } from '../redis/link.ts'

/** For all steps of the first attempt together, each of which has a timeout of its own. */
const CONNECT_TIMEOUT_MS = 4000
/** For each call: a person waits for it rather than a request. */
const BUDGET_MS = 2000

export interface CommandRedis {
  /** `host:port`, as REDIS_URL names it. */
  readonly place: string
  /** Throws a StartError where the answer is that Redis is away; `remark` is what that leaves open. */
  ask<T>(question: (link: RedisLink) => Promise<T | Away>, remark?: string): Promise<T>
}

/** Throws a StartError of one line where Redis cannot be reached. */
export async function withRedis<T>(url: string, use: (redis: CommandRedis) => Promise<T>): Promise<T> {
  const { host: place } = new URL(url)
  const connection = await connect(url, place)
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

async function connect(url: string, place: string): Promise<RedisConnection> {
  let failed: () => void = () => {}
  const failure = new Promise<false>((resolve) => {
    failed = () => resolve(false)
  })
  let connection: RedisConnection
  try {
    connection = openRedis({ url, budgetMs: BUDGET_MS, onNotice: () => failed() })
  } catch (error) {
    throw new StartError(errorMessage(error))
  }
  // The first notice before it is up says that the attempt has failed.
  const isUp = await Promise.race([untilUp(connection, CONNECT_TIMEOUT_MS), failure])
  if (isUp || connection.isUp) return connection
  const error = awayError(place, connection)
  await connection.stop()
  throw error
}

function awayError(place: string, { state }: RedisConnection, remark = ''): StartError {
  return new StartError(`Redis at ${place} is ${state}${remark}`)
}
