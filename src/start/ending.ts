// How the service ends: after a drain on a signal, by the watchdog where the drain takes too long, or at once on a bug.

import type { Clock } from '../lib/clock.ts'
import { EXIT } from '../lib/exit.ts'
import type { Log } from '../observe/log.ts'

/**
 * A second signal within this time counts as the first one. Under `npm start` one Ctrl-C arrives twice: from the
 * terminal and from npm.
 */
const SAME_SIGNAL_MS = 500

/** How much longer than its deadline a drain may take before the process ends itself. */
export const WATCHDOG_GRACE_MS = 1000

export interface EndingOptions {
  readonly log: Log
  readonly clock: Clock
  /** How long `stop` may take before the process ends anyway. */
  readonly watchdogMs: number
  readonly stop: () => Promise<void>
  readonly exit: (code: number) => void
  /** What a second signal does: `end`, the default, ends the process at once. */
  readonly again?: 'end' | 'ignore'
}

/** What to do on SIGTERM and SIGINT. */
export function signalHandler(options: EndingOptions): (signal: string) => void {
  const { log, clock, watchdogMs, stop, exit, again = 'end' } = options
  let firstAtMs: number | null = null
  return (signal) => {
    if (firstAtMs !== null) {
      if (again === 'ignore' || clock() - firstAtMs < SAME_SIGNAL_MS) return
      log.warn({ signal }, 'second signal: ending at once, without finishing the drain')
      exit(EXIT.failed)
      return
    }
    firstAtMs = clock()
    log.info({ signal }, 'draining')
    setTimeout(() => {
      log.fatal('the drain did not end in time: ending now; requests in progress get no answer')
      exit(EXIT.failed)
    }, watchdogMs)
    void drain()
  }

  async function drain(): Promise<void> {
    try {
      await stop()
    } catch (error) {
      log.fatal({ err: error }, 'bug: the drain failed; ending now, requests in progress get no answer')
      exit(EXIT.failed)
      return
    }
    log.info('stopped')
    exit(EXIT.ok)
  }
}

/**
 * After a broken invariant no state can be trusted: log it and exit, so that a new process recovers from the journal.
 */
export function bugHandler(log: Log, what: string, exit: (code: number) => void): (error: unknown) => void {
  return (error) => {
    log.fatal({ err: error }, what)
    exit(EXIT.failed)
  }
}
