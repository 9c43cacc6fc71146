// Lua scripts and how they are run: by digest, which each new session loads, and by text where Redis has lost it.

import { createHash } from 'node:crypto'
import type { Redis } from 'ioredis'
import { isErrorReply } from './fault.ts'
import type { Away, CallOptions, RedisClient, RedisLink } from './link.ts'
import { must, type Read } from './reply.ts'

export interface RedisScript {
  readonly text: string
  readonly digest: string
}

/** Every script of the program: filled by `redisScript` as the modules are loaded. */
const SCRIPTS: RedisScript[] = []

/** Only for constants of a module: each call adds a script to those that sessions load. */
export function redisScript(text: string): RedisScript {
  const script = { text, digest: createHash('sha1').update(text).digest('hex') }
  SCRIPTS.push(script)
  return script
}

/** Saves the first call of each script a second round trip. Where Redis refuses SCRIPT LOAD, that call sends the text. */
export async function loadScripts(server: Redis): Promise<void> {
  await Promise.all(
    SCRIPTS.map(async ({ text, digest }) => {
      try {
        must((await server.script('LOAD', text)) === digest)
      } catch (error) {
        if (!isErrorReply(error)) throw error
      }
    }),
  )
}

/** Resolves with what `read` reads in the script's reply. Rejects only with an error reply. On a cluster all keys must share one hash slot. */
export function runScript<T>(
  link: RedisLink,
  script: RedisScript,
  keys: readonly string[],
  args: readonly string[],
  read: Read<T>,
  options?: CallOptions<T>,
): Promise<T | Away> {
  return link.call((client) => evaluate(client, script, keys, args), read, options)
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
