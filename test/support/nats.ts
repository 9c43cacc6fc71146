// Real NATS servers with JetStream for tests. `restart()` finds what was stored.

import { join } from 'node:path'
import { type Program, startProgram } from './programs.ts'

export interface NatsServer extends Program {
  readonly url: string
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
