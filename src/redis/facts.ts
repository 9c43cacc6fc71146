// Redis's version and eviction policy, for the commands.

import type { Cluster, Redis } from 'ioredis'
import { isErrorReply } from './fault.ts'
import type { Away, RedisClient, RedisLink } from './link.ts'
import { listOf, textOrNull } from './reply.ts'

export interface RedisNode {
  readonly version: string
  readonly evictionPolicy: string
}

export interface RedisFacts {
  readonly isCluster: boolean
  /** The masters of a cluster, or the one server; null: this user may not run INFO. */
  readonly nodes: readonly RedisNode[] | null
}

export async function describeRedis(link: RedisLink): Promise<RedisFacts | Away> {
  const mastersOf = (client: RedisClient): Redis[] =>
    client.isCluster ? (client as Cluster).nodes('master') : [client as Redis]
  const infos = await link.call(
    (client) => Promise.all(mastersOf(client).map((node) => unlessRefused(node.info()))),
    listOf(textOrNull),
  )
  if (infos === 'away') return 'away'
  const nodes = infos.map((info): RedisNode | null => {
    if (info === null) return null
    return { version: fieldOf(info, 'redis_version'), evictionPolicy: fieldOf(info, 'maxmemory_policy') }
  })
  return { isCluster: link.isCluster, nodes: nodes.every((node) => node !== null) ? nodes : null }
}

/** Redis may refuse INFO to this user, which takes nothing from the service. */
async function unlessRefused<T>(answer: Promise<T>): Promise<T | null> {
  try {
    return await answer
  } catch (error) {
    if (isErrorReply(error)) return null
    throw error
  }
}

function fieldOf(info: string, name: string): string {
  return new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(info)?.[1] ?? 'unknown'
}
