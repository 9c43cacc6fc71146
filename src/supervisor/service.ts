// The service as several processes: the supervisor has the admin port, and its front ends share the public port.

import { fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { type AdminServer, startAdmin } from '../http/admin.ts'
import { findPort } from '../http/port.ts'
import { errorMessage, StartError } from '../lib/errors.ts'
import type { Log } from '../observe/log.ts'
import type { Config } from '../settings/config.ts'
import { WATCHDOG_GRACE_MS } from '../start/ending.ts'
import { openSupervisorConsole, type SupervisorConsole } from '../start/open-console.ts'
import { Supervisor } from './supervisor.ts'

const FRONT_END = new URL('./front-end.js', import.meta.url)

type Environment = Readonly<Record<string, string | undefined>>

export function superviseService(config: Config, { log, env }: { log: Log; env: Environment }) {
  // The watchdog of a front end ends it before that, unless its event loop hangs.
  const killAfterMs = config.shutdownMs + WATCHDOG_GRACE_MS
  const supervisor = new Supervisor({ log, processes: config.processes, killAfterMs })
  let admin: AdminServer | null = null
  let console: SupervisorConsole | null = null

  async function stop(): Promise<void> {
    console?.routes.stop()
    try {
      await supervisor.stop()
    } finally {
      // Last, since it reports the drain.
      admin?.stop()
      await console?.stop()
    }
  }

  return {
    /** Throws a StartError for what an operator must fix. */
    start: async () => {
      try {
        const { health } = supervisor
        console = await openSupervisorConsole(config, log)
        admin = await startAdmin({
          host: config.adminHost,
          port: config.adminPort,
          metrics: supervisor,
          health,
          routes: console.routes,
          log,
        })
        // Front ends would silently share the port with any other service of this user, so it is tested first. The
        // admin port is bound already, so that port 0 finds another one.
        const publicPort = await findPort({
          host: config.publicHost,
          port: config.publicPort,
          settings: 'HOST and PORT',
        })
        await supervisor.start((place) => forkFrontEnd(place, { ...env, PORT: String(publicPort) }))
        return { publicPort, adminPort: admin.port, demoApp: null }
      } catch (error) {
        await stop().catch((fault: unknown) =>
          log.error({ err: fault }, 'the front ends did not stop after a failed start'),
        )
        throw error instanceof StartError ? error : new StartError(errorMessage(error))
      }
    },
    /** Drains all front ends, including those that are still starting. Rejects where one failed to drain. */
    stop,
    /** Ends all front ends at once. */
    kill: () => supervisor.kill(),
  }
}

/** `fork` passes on the Node options of this process. */
function forkFrontEnd(place: number, env: Environment): ReturnType<typeof fork> {
  return fork(fileURLToPath(FRONT_END), [String(place)], { env, stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
}
