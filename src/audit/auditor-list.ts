// Which node audits which partition: rendezvous hashing over the nodes in Redis's list, without those that say that their
// clock is wrong, and those of another installation on this Redis. Redis's answers also say its time.

import { createHash } from 'node:crypto'
import { FOREIGN_KEY } from '../installation/owner.ts'
import { NODES_KEY } from '../limits/shared/nodes.ts'
import type { RedisLink } from '../redis/link.ts'
import { integer, listOf, text } from '../redis/reply.ts'
import { readRedisTime } from '../redis/time.ts'
import type { Clocks } from './clocks.ts'

/** Nodes that are far from the median of the clocks. */
const SKEWED_KEY = 'sluice:skewed'
const SKEWED_SECONDS = 60

export interface AuditorListOptions {
  readonly redis: RedisLink
  readonly nodeId: string
  readonly partitions: number
  readonly clocks: Clocks
}

export class AuditorList {
  readonly #options: AuditorListOptions
  /** Those that may audit, by Redis's last reply. */
  #nodes: readonly string[] = []
  #isListedAsSkewed = false
  /** The nodes for which `#auditors` was worked out. */
  #assignedTo = ''
  /** The auditor of each partition. */
  #auditors: (string | undefined)[] = []

  constructor(options: AuditorListOptions) {
    this.#options = options
  }

  /** While Redis is away, the list stays as it is, and its clock goes on by the monotonic one. */
  async read(): Promise<void> {
    const { redis, nodeId, clocks } = this.#options
    const lists = redis.call(
      (client) => {
        return Promise.all([
          client.zrange(NODES_KEY, '0', '-1'),
          client.zrange(SKEWED_KEY, '0', '-1'),
          client.zrange(FOREIGN_KEY, '0', '-1'),
        ])
      },
      listOf(listOf(text), 3),
    )
    const [redisMs, reply] = await Promise.all([readRedisTime(redis), lists]).catch(() => ['away', 'away'] as const)
    if (redisMs === 'away' || reply === 'away') return
    clocks.heard('redis', redisMs)
    const [nodes, skewed, foreign] = reply
    this.#isListedAsSkewed = skewed.includes(nodeId)
    this.#nodes = nodes.filter((node) => !skewed.includes(node) && !foreign.includes(node))
  }

  /** Announces to the others whether this node may audit, so that one of them takes its partitions. */
  async announce(isSkewed: boolean): Promise<void> {
    const { redis, nodeId } = this.#options
    if (!isSkewed && !this.#isListedAsSkewed) return
    await redis
      .call(async (client) => {
        if (!isSkewed) return [await client.zrem(SKEWED_KEY, nodeId)]
        return await Promise.all([client.zadd(SKEWED_KEY, 0, nodeId), client.expire(SKEWED_KEY, SKEWED_SECONDS)])
      }, listOf(integer))
      .catch(() => 'away' as const)
  }

  /** Few partitions move when a node joins or leaves. */
  auditorOf(partition: number): string | undefined {
    const nodes = this.#nodes
    if (nodes.join(' ') !== this.#assignedTo) {
      this.#assignedTo = nodes.join(' ')
      const hash = (at: number, node: string): string => createHash('sha1').update(`${at} ${node}`).digest('hex')
      this.#auditors = Array.from({ length: this.#options.partitions }, (_, at) => {
        return nodes.toSorted((one, other) => (hash(at, one) < hash(at, other) ? 1 : -1))[0]
      })
    }
    return this.#auditors[partition]
  }
}
