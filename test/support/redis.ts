// Real Redis servers for tests, and clusters of them.

import { Redis } from 'ioredis'
import type { Away, CallOptions, RedisClient, RedisLink } from '../../src/redis/link.ts'
import { freePort } from './processes.js'
import { type Store as RedisServer, startRedis } from './stores.js'

export { type RedisServer, startRedis }

export interface RedisCluster {
  /** Of one master; it names the others. */
  readonly url: string
  /** The masters. */
  readonly nodes: readonly RedisServer[]
  /** One of each master, where these are wanted. */
  readonly replicas: readonly RedisServer[]
  stop(): Promise<void>
}

const HASH_SLOTS = 16_384
const MASTERS = 3
/** A master that is silent for so long is replaced, where it has a replica. */
const NODE_TIMEOUT_MS = 2000
const CLUSTER_TIMEOUT_MS = 30_000
const MEET_AGAIN_MS = 4000
const POLL_MS = 50

/** A call whose reply is taken as it comes. */
export function callOn<T>(
  link: RedisLink,
  command: (client: RedisClient) => Promise<T>,
  options?: CallOptions<T>,
): Promise<T | Away> {
  return link.call(command, (reply) => reply as T, options)
}

/** Three masters that share the hash slots, each with a replica where these are wanted. */
export async function startRedisCluster({ replicas = false } = {}): Promise<RedisCluster> {
  const settings = ['--cluster-enabled', 'yes', '--cluster-node-timeout', String(NODE_TIMEOUT_MS)]
  const count = replicas ? 2 * MASTERS : MASTERS
  // Their own choice, 10,000 above, is one of the ports that the system gives to outgoing connections.
  const buses = await Promise.all(Array.from({ length: count }, freePort))
  const servers = await Promise.all(buses.map((bus) => startRedis([...settings, '--cluster-port', String(bus)])))
  const clients = servers.map(({ port }) => new Redis(port, '127.0.0.1'))
  const masters = clients.slice(0, MASTERS)
  const share = Math.ceil(HASH_SLOTS / MASTERS)
  await Promise.all(
    masters.map((client, at) => {
      const last = Math.min(HASH_SLOTS, (at + 1) * share) - 1
      return client.call('CLUSTER', 'ADDSLOTSRANGE', String(at * share), String(last))
    }),
  )
  const meet = async (): Promise<void> => {
    for (const [at, { port }] of servers.entries())
      if (at > 0) await clients[0].call('CLUSTER', 'MEET', '127.0.0.1', String(port), String(buses[at]))
  }
  await meet()
  const known = `cluster_known_nodes:${count}`
  // A server forgets one that it was to meet where that one is slow, and says nothing.
  const again = setInterval(() => void meet().catch(() => {}), MEET_AGAIN_MS)
  try {
    for (const client of clients) await untilSaid(client, ['CLUSTER', 'INFO'], ['cluster_state:ok', known])
  } finally {
    clearInterval(again)
  }
  for (const [at, client] of clients.slice(MASTERS).entries()) {
    await client.call('CLUSTER', 'REPLICATE', String(await masters[at].call('CLUSTER', 'MYID')))
    await untilSaid(client, ['INFO', 'replication'], ['role:slave', 'master_link_status:up'])
  }
  for (const client of clients) client.disconnect()
  return {
    url: servers[0].url,
    nodes: servers.slice(0, MASTERS),
    replicas: servers.slice(MASTERS),
    stop: async () => {
      for (const server of servers) await server.stop()
    },
  }
}

async function untilSaid(
  client: Redis,
  [command, ...args]: readonly string[],
  wanted: readonly string[],
): Promise<void> {
  for (const deadlineMs = Date.now() + CLUSTER_TIMEOUT_MS; ; ) {
    const said = String(await client.call(command, ...args))
    if (wanted.every((line) => said.includes(line))) return
    if (Date.now() > deadlineMs) throw new Error(`the Redis cluster did not form:\n${said}`)
    await new Promise((resolve) => setTimeout(resolve, POLL_MS))
  }
}
