// The program of a worker process: the whole service without the admin port, which the supervisor has. It ends on a signal,
// and when its supervisor is gone.

import { systemClock } from '../lib/clock.ts'
import { StartError } from '../lib/errors.ts'
import { EXIT } from '../lib/exit.ts'
import { type Log, openLog } from '../observe/log.ts'
import { readConfig } from '../settings/config.ts'
import { atExit, handleBugs, processExit, signalHandler, WATCHDOG_GRACE_MS } from '../start/ending.ts'
import { type Sluice, startSluice } from '../start/service.ts'
import type { Asking, Question, Report } from './messages.ts'

async function main(slot: number): Promise<void> {
  const config = readConfig(process.env)
  const terminal = process.stdout.isTTY
  const colour = terminal && (process.env['NO_COLOR'] ?? '') === ''
  const lines = openLog({ level: config.logLevel, terminal, colour })
  atExit(lines.end)
  const log = lines.log.child({ worker: slot })
  const libraryFaults = handleBugs(log, (code) => process.exit(code))
  // Before the service has started there is nothing to drain.
  let stop = async (): Promise<void> => {}
  const watchdogMs = config.shutdownMs + WATCHDOG_GRACE_MS
  // A terminal or a service manager may signal all processes, and the supervisor then signals the worker processes again.
  const onSignal = signalHandler({
    log,
    clock: systemClock,
    watchdogMs,
    stop: () => stop(),
    written: lines.written,
    exit: processExit(log),
    again: 'ignore',
  })
  process.on('SIGTERM', onSignal)
  process.on('SIGINT', onSignal)
  // From the supervisor, or for all processes of a terminal.
  let reread = (): void => {}
  process.on('SIGHUP', () => reread())
  process.once('disconnect', () => onSignal('supervisor gone'))

  const sluice = await startSluice(config, {
    log,
    linesDropped: lines.dropped,
    clock: systemClock,
    supervised: true,
    libraryFaults,
  })
  stop = async () => {
    await sluice.stop()
    await report(await answer('page', sluice, log))
  }
  reread = () => sluice.reread()
  process.on('message', ({ ask }: Asking) => void answer(ask, sluice, log).then(report))
  await report({ kind: 'serving' })
}

async function answer(question: Question, { metrics, health }: Sluice, log: Log): Promise<Report> {
  if (question === 'health') return { kind: 'health', ready: health.ready(), parts: health.parts() }
  try {
    return { kind: 'page', text: await metrics.scrape() }
  } catch (error) {
    log.error({ err: error }, 'bug: the metrics page could not be made')
    return { kind: 'page', text: null }
  }
}

/** Resolves without sending where the supervisor is gone. The lost channel ends this process. */
function report(message: Report): Promise<void> {
  return new Promise((done) => {
    if (process.connected) process.send?.(message, undefined, undefined, () => done())
    else done()
  })
}

try {
  await main(Number(process.argv[2]))
} catch (error) {
  if (!(error instanceof StartError)) throw error
  await report({ kind: 'refused', why: error.message })
  process.exit(EXIT.failed)
}
