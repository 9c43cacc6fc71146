// Which nodes are alive: each sends a heartbeat once a second, timed by Redis's clock.

import { readFileSync } from 'node:fs'
import type { RedisLink } from '../../redis/link.ts'
import { redisScript, runScript } from '../../redis/script.ts'

export const NODES_KEY = 'sluice:nodes'

const BEAT = redisScript(readFileSync(new URL('./beat.lua', import.meta.url), 'utf8'))

/** A node without a heartbeat for so long is taken for dead. */
const SILENT_MS = 5000

export interface Beat {
  /** Redis's clock. */
  readonly nowMs: number
  readonly nodes: readonly string[]
}

/** Rejects with an error reply of Redis. */
export async function beat(link: RedisLink, nodeId: string): Promise<Beat | 'away'> {
  const reply = await runScript(link, BEAT, [NODES_KEY], [nodeId, String(SILENT_MS)])
  if (reply === 'away') return 'away'
  const [nowMs, ...nodes] = reply as [number, ...string[]]
  return { nowMs, nodes }
}

export async function leave(link: RedisLink, nodeId: string): Promise<void> {
  await link.call((client) => client.zrem(NODES_KEY, nodeId))
}
