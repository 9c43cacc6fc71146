// A Lua script and how it is run: by its digest, and by its text where this Redis has not seen it yet.

import { createHash } from 'node:crypto'
import type { RedisClient, RedisLink } from './redis.ts'

export interface RedisScript {
  readonly text: string
  readonly digest: string
}

export function redisScript(text: string): RedisScript {
  return { text, digest: createHash('sha1').update(text).digest('hex') }
}

/** Gives the script's reply, or 'away'. Rejects only with an error reply of Redis. On a cluster all keys must share one hash slot. */
export function runScript(
  link: RedisLink,
  script: RedisScript,
  keys: readonly string[],
  args: readonly string[],
): Promise<unknown> {
  return link.call((client) => evaluate(client, script, keys, args))
}

export async function evaluate(
  client: RedisClient,
  script: RedisScript,
  keys: readonly string[],
  args: readonly string[],
): Promise<unknown> {
  try {
    return await client.evalsha(script.digest, keys.length, ...keys, ...args)
  } catch (error) {
    if (!(error instanceof Error) || !error.message.startsWith('NOSCRIPT')) throw error
    return client.eval(script.text, keys.length, ...keys, ...args)
  }
}
