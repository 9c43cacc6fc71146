// `sluice serve`: reads the settings, starts the service, and stops it on a signal. The service is started by
// start/service.ts, or by supervisor/service.ts for several processes.

import { existsSync, readFileSync, statSync } from 'node:fs'
import { parseEnv } from 'node:util'
import { chooseEngine } from '../../http/engines.ts'
import { ConfigError } from '../../lib/errors.ts'
import type { LibraryFaults } from '../../lib/library-fault.ts'
import { printableLines } from '../../lib/printable.ts'
import { systemTimers } from '../../lib/timers.ts'
import { LineWriter } from '../../observe/line-writer.ts'
import { type Log, type OpenedLog, openLog } from '../../observe/log.ts'
import { type Config, openFilesProblem, readConfig } from '../../settings/config.ts'
import { SETTING_NAMES, SETTINGS } from '../../settings/settings.ts'
import { atExit, handleBugs, processExit, signalHandler, WATCHDOG_GRACE_MS } from '../../start/ending.ts'
import type { Sluice } from '../../start/service.ts'
import { readFlags, type Shell } from '../shell.ts'
import { demoBanner } from './banner.ts'
import { watchParent } from './parent.ts'

/** Logged in the place of a signal's name. */
const PARENT_ENDED = 'the shell that npm started this in has ended'

/** One process, or a supervisor of several. */
interface Service {
  start(): Promise<Pick<Sluice, 'publicPort' | 'adminPort' | 'portalPort' | 'demoApp' | 'hasConsole'>>
  /** Drains. Before `start` has finished there may be nothing to drain. */
  stop(): Promise<void>
  /** Reads certificates, tokens and the app file again. Does nothing before it serves. */
  reread(): void
  /** Kills processes that would outlive this one. */
  kill(): void
}

export const help = `Usage: sluice serve

Takes batches of events at POST /api/v1/events until SIGTERM or SIGINT, then drains and exits.
With no settings at all it keeps everything under ./data and makes a demo app on its first start.

The log goes to stdout: JSON lines, or plain ones where stdout is a terminal. While the demo app exists, its
key and a curl line to try are printed to stderr.

SIGHUP reads TLS files, the console's token and the app file again, as a change of them does by itself, and
ends nothing.

Started by npm or npx, it also drains when the shell that they put between ends, since a signal to npm may end
that shell alone.

Environment variables (an empty one counts as unset):
${settingsHelp()}
Exit code: 0 after a clean stop, 1 on failure, 2 for a wrong command line.

Example:
  PORT=8081 SLUICE_DATA_DIR=/var/lib/sluice sluice serve
`

function settingsHelp(): string {
  return SETTING_NAMES.map((name) => {
    const { about, defaultText } = SETTINGS[name]
    return `  ${name}\n      ${about} (default: ${defaultText})\n`
  }).join('')
}

/** Never returns once the service runs: the signal handler ends the process, whatever still holds the event loop. */
export async function run(args: readonly string[], shell: Shell): Promise<number> {
  readFlags(args, {})
  const config = readConfig(shell.env)
  const problem = openFilesProblem(config)
  if (problem !== null) throw new ConfigError([problem])
  const lines = openLog({ level: config.logLevel, terminal: shell.terminal, colour: shell.colour })
  atExit(lines.end)
  const { log } = lines
  // A first start on a terminal shows what its user needs to go on, and no more.
  const isFirst =
    shell.terminal && config.logLevel === 'info' && config.appsFile !== null && !existsSync(config.appsFile)
  if (isFirst) log.level = 'warn'
  warnOfEnvFile(shell.env, log)
  const exit = (code: number): never => process.exit(code)
  const libraryFaults = handleBugs(log, exit)
  // Before the service has started there is nothing to drain.
  let service: Service | null = null
  onSignals(config, lines, shell, () => service)

  // Before any other module loads the engine, and here so that several processes warn only once.
  const engine = await chooseEngine(config)
  if (engine.warning !== null) log.warn(engine.warning)

  service =
    config.processes > 1
      ? await severalProcesses(config, lines, shell)
      : await oneProcess(config, lines, shell, libraryFaults)
  const { publicPort, adminPort, portalPort, demoApp, hasConsole } = await service.start()
  if (demoApp !== null) {
    const publicAddress = { host: config.publicHost, port: publicPort, tls: config.tls !== null }
    const adminAddress = { host: config.adminHost, port: adminPort ?? config.adminPort, tls: false, hasConsole }
    // stderr may stall or fail as well.
    const banner = new LineWriter(2, () => {})
    banner.write(printableLines(demoBanner(publicAddress, adminAddress, demoApp.appKey)), true)
    await banner.written()
  }
  log.level = config.logLevel
  if (isFirst) return new Promise(() => {})
  // After the banner, so that a terminal shows this line last.
  const console = hasConsole ? 'on' : 'off: SLUICE_CONSOLE_TOKEN opens it'
  const portal = portalPort === null ? {} : { portal_port: portalPort }
  log.info({ port: publicPort, admin_port: adminPort, ...portal, ...parts(config, engine.name), console }, 'listening')
  return new Promise(() => {})
}

/** Many programs read this file, and nothing else would show that this one does not. */
function warnOfEnvFile(env: Shell['env'], log: Log): void {
  let named = {}
  try {
    // A pipe would wait for its writer.
    if (statSync('.env').isFile()) named = parseEnv(readFileSync('.env', 'utf8'))
  } catch {
    return
  }
  const settings = SETTING_NAMES.filter((name) => name in named && (env[name] ?? '') === '')
  if (settings.length === 0) return
  const advice = 'their defaults are used; to use the file, start sluice from a shell after `set -a; . ./.env; set +a`'
  log.warn({ settings }, `these settings are only in .env, which sluice does not read: ${advice}`)
}

async function oneProcess(
  config: Config,
  { log, dropped: linesDropped }: OpenedLog,
  { clock }: Shell,
  libraryFaults: LibraryFaults,
): Promise<Service> {
  const { startSluice } = await import('../../start/service.ts')
  let sluice: Sluice | null = null
  return {
    start: async () => {
      sluice = await startSluice(config, { log, linesDropped, clock, libraryFaults })
      return sluice
    },
    stop: async () => sluice?.stop(),
    reread: () => sluice?.reread(),
    kill: () => {},
  }
}

async function severalProcesses(
  config: Config,
  { log, dropped: linesDropped }: OpenedLog,
  { env }: Shell,
): Promise<Service> {
  const { superviseService } = await import('../../supervisor/service.ts')
  return superviseService(config, { log, linesDropped, env })
}

function onSignals(
  config: Config,
  { log, written }: OpenedLog,
  { clock, env }: Shell,
  service: () => Service | null,
): void {
  // A supervisor has to outlast the watchdogs of its worker processes.
  const graceMs = config.processes > 1 ? 2 * WATCHDOG_GRACE_MS : WATCHDOG_GRACE_MS
  const exit = processExit(log)
  const onSignal = signalHandler({
    log,
    clock,
    watchdogMs: config.shutdownMs + graceMs,
    stop: async () => service()?.stop(),
    written,
    exit: (code) => {
      service()?.kill()
      exit(code)
    },
  })
  process.on('SIGHUP', () => {
    log.info('SIGHUP: certificate, tokens and app file are read again')
    service()?.reread()
  })
  const isUnderNpm = (env.npm_command ?? '') !== ''
  const stopWatch = isUnderNpm
    ? watchParent({ timers: systemTimers, parentId: () => process.ppid, onEnd: () => onSignal(PARENT_ENDED) })
    : () => {}
  for (const name of ['SIGTERM', 'SIGINT'] as const) {
    process.on(name, () => {
      // A terminal's Ctrl-C ends the shell too, which must not count as a second signal.
      stopWatch()
      onSignal(name)
    })
  }
}

function parts(config: Config, engine: string): object {
  return {
    host: config.publicHost,
    admin_host: config.adminHost,
    // With Redis and NATS nothing is kept there.
    ...(config.embedded && { data_directory: config.dataDirectory }),
    tls: config.tls !== null,
    processes: config.processes,
    engine,
  }
}
