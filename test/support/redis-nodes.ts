// Links to a real Redis as several nodes hold them, each with what a test wants on top.

import { Redis } from 'ioredis'
import { openRedis, type RedisConnection, untilUp } from '../../src/admit/redis-connection.ts'

const UP_TIMEOUT_MS = 10_000
/** Leaves room for a busy machine, where a test is not about the budget. */
const BUDGET_MS = 500

export async function connectedLink(url: string, budgetMs = BUDGET_MS): Promise<RedisConnection> {
  const link = openRedis({ url, budgetMs, onNotice: () => {} })
  if (await untilUp(link, UP_TIMEOUT_MS)) return link
  await link.stop()
  throw new Error(`Redis is ${link.state}`)
}

/** How often each command has been called, scripts' own calls included. */
export async function commandCalls(client: Redis): Promise<Record<string, number>> {
  const lines = (await client.info('commandstats')).matchAll(/^cmdstat_([^:]+):calls=(\d+)/gm)
  return Object.fromEntries([...lines].map(([, name, calls]) => [name, Number(calls)]))
}
