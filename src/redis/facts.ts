// What Redis says of itself, for operators.

import { Cluster, type Redis } from 'ioredis'
import { isReply } from './fault.ts'
import type { Away, RedisClient, RedisLink } from './link.ts'

export interface RedisNode {
  readonly version: string
  /** What it throws away when its memory is full. */
  readonly evictionPolicy: string
}

export interface RedisFacts {
  readonly isCluster: boolean
  /** The masters of a cluster, or the one server; null: this user may not ask. */
  readonly nodes: readonly RedisNode[] | null
}

/** Only reads. */
export function describeRedis(link: RedisLink): Promise<RedisFacts | Away> {
  return link.call(describe)
}

async function describe(client: RedisClient): Promise<RedisFacts> {
  const isCluster = client instanceof Cluster
  const nodes = await Promise.all((isCluster ? client.nodes('master') : [client]).map(describeNode))
  return { isCluster, nodes: nodes.every((node) => node !== null) ? nodes : null }
}

async function describeNode(node: Redis): Promise<RedisNode | null> {
  const info = await unlessRefused(node.info())
  if (info === null) return null
  return {
    version: fieldOf(info, 'redis_version'),
    evictionPolicy: fieldOf(info, 'maxmemory_policy'),
  }
}

/** A refusal here is no fault of the link: nothing but this report needs the answer. */
async function unlessRefused<T>(answer: Promise<T>): Promise<T | null> {
  try {
    return await answer
  } catch (error) {
    if (isReply(error)) return null
    throw error
  }
}

function fieldOf(info: string, name: string): string {
  return new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(info)?.[1] ?? 'unknown'
}
