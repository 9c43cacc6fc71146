// Real Redis servers for tests. `restart()` finds what was stored, since every write goes to an append-only file.

import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { type Program, startProgram } from './programs.ts'

export interface RedisServer extends Program {
  readonly url: string
}

export async function startRedis(extra: readonly string[] = []): Promise<RedisServer> {
  const program = await startProgram({
    name: 'redis',
    command: ({ port, folder }) => {
      const data = join(folder, 'data')
      mkdirSync(data, { recursive: true })
      const listening = ['--port', String(port), '--bind', '127.0.0.1', '--dir', data, '--logfile', '']
      return ['redis-server', ...listening, '--save', '', '--appendonly', 'yes', '--appendfsync', 'always', ...extra]
    },
  })
  return withUrl(program)
}

function withUrl(program: Program): RedisServer {
  return Object.assign(Object.create(program) as Program, { url: `redis://127.0.0.1:${program.port}` })
}

export interface RedisCluster {
  /** Of one node; it names the others. */
  readonly url: string
  readonly nodes: readonly RedisServer[]
  stop(): Promise<void>
}

const HASH_SLOTS = 16_384
const CLUSTER_TIMEOUT_MS = 10_000

/** Three masters that share the hash slots. */
export async function startRedisCluster(): Promise<RedisCluster> {
  const nodes = await Promise.all([0, 1, 2].map(() => startRedis(['--cluster-enabled', 'yes'])))
  const clients = nodes.map(({ port }) => new Redis(port, '127.0.0.1'))
  const share = Math.ceil(HASH_SLOTS / nodes.length)
  await Promise.all(
    clients.map((client, at) => {
      const last = Math.min(HASH_SLOTS, (at + 1) * share) - 1
      return client.call('CLUSTER', 'ADDSLOTSRANGE', String(at * share), String(last))
    }),
  )
  for (const { port } of nodes.slice(1)) await clients[0].call('CLUSTER', 'MEET', '127.0.0.1', String(port))
  const deadlineMs = Date.now() + CLUSTER_TIMEOUT_MS
  for (const client of clients) {
    for (;;) {
      const info = String(await client.call('CLUSTER', 'INFO'))
      if (info.includes('cluster_state:ok') && info.includes(`cluster_known_nodes:${nodes.length}`)) break
      if (Date.now() > deadlineMs) throw new Error(`the Redis cluster did not form:\n${info}`)
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
    client.disconnect()
  }
  return {
    url: nodes[0].url,
    nodes,
    stop: async () => {
      for (const node of nodes) await node.stop()
    },
  }
}
