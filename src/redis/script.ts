// A Lua script and how it is run: by its digest, which a new session tells Redis of, and by its text where Redis has
// forgotten it.

import { createHash } from 'node:crypto'
import type { Redis } from 'ioredis'
import { isReply } from './fault.ts'
import type { RedisClient, RedisLink } from './link.ts'

export interface RedisScript {
  readonly text: string
  readonly digest: string
}

/** Every script of this program, one for each call of `redisScript` in its modules. */
const SCRIPTS: RedisScript[] = []

/** For constants of a module. */
export function redisScript(text: string): RedisScript {
  const script = { text, digest: createHash('sha1').update(text).digest('hex') }
  SCRIPTS.push(script)
  return script
}

/** Spares the first request of each kind a second round trip. A server that refuses is told the text when it comes to it. */
export async function loadScripts(server: Redis): Promise<void> {
  await Promise.all(
    SCRIPTS.map(async ({ text }) => {
      try {
        await server.script('LOAD', text)
      } catch (error) {
        if (!isReply(error)) throw error
      }
    }),
  )
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
