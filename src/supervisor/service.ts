// The service as several processes: the supervisor has the admin port, and its worker processes share the public port.

import { fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { type AdminServer, startAdmin } from '../http/admin.ts'
import { findPort } from '../http/port.ts'
import { errorMessage, StartError } from '../lib/errors.ts'
import { type Log, noticeTo } from '../observe/log.ts'
import type { Config } from '../settings/config.ts'
import { withOwnAddresses } from '../start/addresses.ts'
import { WATCHDOG_GRACE_MS } from '../start/ending.ts'
import { openSupervisorConsole, type SupervisorConsole } from '../start/open-console.ts'
import { startPortal } from '../start/open-portal.ts'
import { Supervisor } from './supervisor.ts'

const WORKER = new URL('./worker.js', import.meta.url)

type Environment = Readonly<Record<string, string | undefined>>

interface SupervisorContext {
  readonly log: Log
  readonly linesDropped: () => number
  readonly env: Environment
}

export function superviseService(given: Config, { log, linesDropped, env }: SupervisorContext) {
  // The watchdog of a worker process ends it before that, unless its event loop hangs.
  const killAfterMs = given.shutdownMs + WATCHDOG_GRACE_MS
  const supervisor = new Supervisor({ log, linesDropped, processes: given.processes, killAfterMs })
  let admin: AdminServer | null = null
  let portal: AdminServer | null = null
  let console: SupervisorConsole | null = null

  async function stop(): Promise<void> {
    console?.routes.stop()
    console?.portal?.stop()
    try {
      await supervisor.stop()
    } finally {
      // Last, since it reports the drain.
      admin?.stop()
      portal?.stop()
      await console?.stop()
    }
  }

  return {
    /** Throws a StartError for what an operator must fix. */
    start: async () => {
      try {
        const { health } = supervisor
        const config = await withOwnAddresses(given, noticeTo(log, 'node'))
        console = await openSupervisorConsole(config, log)
        admin = await startAdmin({
          host: config.adminHost,
          port: config.adminPort,
          metrics: supervisor,
          health,
          routes: console.routes,
          log,
        })
        if (config.portal !== null && console.portal !== null)
          portal = await startPortal(config.portal, console.portal, log)
        // Worker processes would silently share the port with any other service of this user, so it is tested first. The
        // admin port is bound already, so that port 0 finds another one.
        const publicPort = await findPort({
          host: config.publicHost,
          port: config.publicPort,
          settings: 'HOST and PORT',
        })
        await supervisor.start((slot) => forkWorker(slot, { ...env, PORT: String(publicPort) }))
        return {
          publicPort,
          adminPort: admin.port,
          portalPort: portal?.port ?? null,
          demoApp: null,
          hasConsole: console.routes.isOn,
        }
      } catch (error) {
        await stop().catch((fault: unknown) =>
          log.error({ err: fault }, 'the worker processes did not stop after a failed start'),
        )
        throw error instanceof StartError ? error : new StartError(errorMessage(error))
      }
    },
    /** Drains all worker processes, including those that are still starting. Rejects where one failed to drain. */
    stop,
    /** Reads the console's token again, and has each worker process read what it has read. */
    reread: () => {
      console?.routes.reread()
      supervisor.reread()
    },
    /** Ends all worker processes at once. */
    kill: () => supervisor.kill(),
  }
}

/** `fork` passes on the Node options of this process. */
function forkWorker(slot: number, env: Environment): ReturnType<typeof fork> {
  return fork(fileURLToPath(WORKER), [String(slot)], { env, stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
}
