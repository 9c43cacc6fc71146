// Real NATS servers with JetStream for tests. `restart()` finds what was stored. SLUICE_TEST_NATS_SERVER names the program
// that all tests run, in place of the one in PATH.

import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'vitest'
import { freePort, type Program, startProgram } from './programs.ts'

export interface NatsServer extends Program {
  readonly url: string
}

export interface ClusteredNatsServer extends NatsServer {
  readonly serverName: string
}

const NAMED_PROGRAM = process.env['SLUICE_TEST_NATS_SERVER']
/** What tests run that want no special one. */
export const NATS_SERVER = NAMED_PROGRAM ?? 'nats-server'

/** For the start of a test that needs a server of today: the one that is named, or where `go install` puts it. */
export function needCurrentNats(context: TestContext): string {
  if (NAMED_PROGRAM !== undefined) return NAMED_PROGRAM
  const go = spawnSync('go', ['env', 'GOPATH'], { encoding: 'utf8' })
  const program = join(go.status === 0 ? go.stdout.trim() : join(homedir(), 'go'), 'bin', 'nats-server')
  if (!existsSync(program))
    context.skip('no current NATS: `go install github.com/nats-io/nats-server/v2@latest` builds one')
  return program
}

export async function startNats(extra: readonly string[] = [], natsProgram = NATS_SERVER): Promise<NatsServer> {
  const program = await startProgram({
    name: 'nats',
    command: ({ port, folder }) => {
      const listening = ['--addr', '127.0.0.1', '--port', String(port)]
      return [natsProgram, ...listening, '--jetstream', '--store_dir', join(folder, 'data'), ...extra]
    },
  })
  return Object.assign(Object.create(program) as Program, { url: `nats://127.0.0.1:${program.port}` })
}

/** Servers that know each other, each with JetStream: a stream may have so many replicas. */
export async function startNatsCluster(size: number, natsProgram?: string): Promise<readonly ClusteredNatsServer[]> {
  const ports = await Promise.all(Array.from({ length: size }, () => freePort()))
  const routes = ports.map((port) => `nats://127.0.0.1:${port}`).join(',')
  return await Promise.all(
    ports.map(async (port, index) => {
      const serverName = `server-${index}`
      const names = ['--server_name', serverName, '--cluster_name', 'sluice']
      const cluster = ['--cluster', `nats://127.0.0.1:${port}`, '--routes', routes]
      const server = await startNats([...names, ...cluster], natsProgram)
      return Object.assign(Object.create(server) as NatsServer, { serverName })
    }),
  )
}
