// Real NATS servers with JetStream for tests, and clusters of them.

import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'vitest'
import { NATS_SERVER, type Store as NatsServer, startNats as start, startNatsServers } from './stores.js'

export { NATS_SERVER, type NatsServer }

export interface ClusteredNatsServer extends NatsServer {
  readonly serverName: string
}

/** For the start of a test that needs a server of today: the one that is named, or where `go install` puts it. */
export function needCurrentNats(context: TestContext): string {
  if (process.env['SLUICE_TEST_NATS_SERVER'] !== undefined) return NATS_SERVER
  const go = spawnSync('go', ['env', 'GOPATH'], { encoding: 'utf8' })
  const program = join(go.status === 0 ? go.stdout.trim() : join(homedir(), 'go'), 'bin', 'nats-server')
  if (!existsSync(program))
    context.skip('no current NATS: `go install github.com/nats-io/nats-server/v2@latest` builds one')
  return program
}

export function startNats(extra: readonly string[] = [], program = NATS_SERVER): Promise<NatsServer> {
  return start(extra, { program })
}

/** Servers that know each other, each with JetStream: a stream may have so many replicas. */
export async function startNatsCluster(size: number, natsProgram?: string): Promise<readonly ClusteredNatsServer[]> {
  return (await startNatsServers(size, natsProgram === undefined ? {} : { program: natsProgram })).servers
}
