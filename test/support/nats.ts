// Real NATS servers with JetStream for tests. `restart()` finds what was stored.

import { join } from 'node:path'
import { freePort, type Program, startProgram } from './programs.ts'

export interface NatsServer extends Program {
  readonly url: string
}

export interface ClusteredNatsServer extends NatsServer {
  readonly serverName: string
}

export async function startNats(extra: readonly string[] = []): Promise<NatsServer> {
  const program = await startProgram({
    name: 'nats',
    command: ({ port, folder }) => {
      const listening = ['--addr', '127.0.0.1', '--port', String(port)]
      return ['nats-server', ...listening, '--jetstream', '--store_dir', join(folder, 'data'), ...extra]
    },
  })
  return Object.assign(Object.create(program) as Program, { url: `nats://127.0.0.1:${program.port}` })
}

/** Servers that know each other, each with JetStream: a stream may have so many replicas. */
export async function startNatsCluster(size: number): Promise<readonly ClusteredNatsServer[]> {
  const ports = await Promise.all(Array.from({ length: size }, () => freePort()))
  const routes = ports.map((port) => `nats://127.0.0.1:${port}`).join(',')
  return await Promise.all(
    ports.map(async (port, index) => {
      const serverName = `server-${index}`
      const names = ['--server_name', serverName, '--cluster_name', 'sluice']
      const server = await startNats([...names, '--cluster', `nats://127.0.0.1:${port}`, '--routes', routes])
      return Object.assign(Object.create(server) as NatsServer, { serverName })
    }),
  )
}
