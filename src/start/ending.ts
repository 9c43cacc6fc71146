// How the service ends: after a drain on a signal, by the watchdog where the drain takes too long, or at once on a bug.

import { closeSync } from 'node:fs'
import { isatty } from 'node:tty'
import type { Clock } from '../lib/clock.ts'
import { errorMessage } from '../lib/errors.ts'
import { EXIT } from '../lib/exit.ts'
import { type LibraryFaults, libraryAtFault, STACK_FRAMES } from '../lib/library-fault.ts'
import type { Log } from '../observe/log.ts'

/**
 * A second signal within this time counts as the first one. Under `npm start` one Ctrl-C arrives twice: from the
 * terminal and from npm.
 */
const SAME_SIGNAL_MS = 500

/** No call that reads or writes a file of a disk that works takes so long. */
const STUCK_MS = 500
const LOOK_MS = 10
/** The names of Node's requests that hold a thread of its pool: for files, and for the addresses of names. */
const HOLDS_THREAD = /^(?:FSReq|GetAddrInfo|GetNameInfo)/

/** How much longer than its deadline a drain may take before the process ends itself. */
export const WATCHDOG_GRACE_MS = 1000

export interface EndingOptions {
  readonly log: Log
  readonly clock: Clock
  /** How long `stop` may take before the process ends anyway. */
  readonly watchdogMs: number
  readonly stop: () => Promise<void>
  /** Resolves when the lines of the log are written, or cannot be. */
  readonly written: () => Promise<void>
  readonly exit: (code: number) => void
  /** What a second signal does: `end`, the default, ends the process at once. */
  readonly again?: 'end' | 'ignore'
}

/** What to do on SIGTERM and SIGINT. */
export function signalHandler(options: EndingOptions): (signal: string) => void {
  const { log, clock, watchdogMs, stop, written, exit, again = 'end' } = options
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
    await written()
    log.info('stopped')
    exit(EXIT.ok)
  }
}

/**
 * What ends the process, once. Node itself waits at its end for the threads of its pool, and for ever for one whose call does not
 * return, as on a mount that hangs: then the process kills itself, after the last lines of the log.
 */
export function processExit(log: Log): (code: number) => void {
  let isEnding = false
  return (code) => {
    if (isEnding) return
    isEnding = true
    const calls = callsUnderWay()
    const endsAtMs = performance.now() + STUCK_MS
    const look = (): void => {
      const underWay = callsUnderWay()
      const isStuck = calls.some((call) => underWay.includes(call))
      if (isStuck && performance.now() < endsAtMs) {
        setTimeout(look, LOOK_MS)
        return
      }
      if (isStuck) {
        log.fatal(
          'a call to the operating system does not return (a disk or mount that hangs, or a name server that does not answer): the process kills itself',
        )
        process.once('exit', () => process.kill(process.pid, 'SIGKILL'))
      }
      process.exit(code)
    }
    look()
  }
}

function callsUnderWay(): object[] {
  // Only what it returns tells a call that is stuck from one that follows another.
  const { _getActiveRequests: requests } = process as { _getActiveRequests?: () => object[] }
  return (requests?.() ?? []).filter((request) => HOLDS_THREAD.test(request.constructor.name))
}

/** Calls `end` when the process ends in any way but by a signal. */
export function atExit(end: () => void): void {
  const terminals = [0, 1, 2].filter((fd) => isatty(fd))
  process.on('exit', () => {
    end()
    // Node resets each terminal, and aborts where one has been closed.
    for (const fd of terminals) if (!isatty(fd)) closeSync(fd)
  })
}

/** Handles what nobody caught, from now on. Counts in what it returns the faults of client libraries, which end nothing. */
export function handleBugs(log: Log, exit: (code: number) => void): LibraryFaults {
  Error.stackTraceLimit = STACK_FRAMES
  const faults = { ioredis: 0, nats: 0 }
  process.on('uncaughtException', bugHandler({ log, exit, faults }, 'an error was not caught'))
  process.on('unhandledRejection', bugHandler({ log, exit, faults }, 'a rejection was not handled'))
  return faults
}

export interface BugHandling {
  readonly log: Log
  readonly exit: (code: number) => void
  /** Incremented here. */
  readonly faults: LibraryFaults
}

/**
 * After a broken invariant no state can be trusted: log it and exit, so that a new process recovers from the journal. What a client library
 * left undone is no invariant of ours: its calls have failed, or its connection is dropped.
 */
export function bugHandler({ log, exit, faults }: BugHandling, what: string): (error: unknown) => void {
  return (error) => {
    const library = libraryAtFault(error)
    if (library === null) {
      log.fatal({ err: error }, `bug: ${what}; this process ends`)
      exit(EXIT.failed)
      return
    }
    faults[library] += 1
    const advice = 'this process goes on, and clients notice nothing of it'
    log.error(
      { library, err: error },
      `a fault of the client library ${library}: ${what} (${errorMessage(error)}); ${advice}`,
    )
  }
}
