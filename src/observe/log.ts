// The log: JSON lines, or readable lines on a terminal. It never holds app keys, ids of clients or the content of
// events.

import { hostname } from 'node:os'
import { type LevelWithSilent, type Logger, pino, stdSerializers, stdTimeFunctions } from 'pino'
import { build as pretty } from 'pino-pretty'
import { type Alert, alertText } from '../contract/alert.ts'
import type { OnNotice } from '../lib/notice.ts'
import { printableJson } from '../lib/printable.ts'
import { packageVersion } from '../lib/version.ts'

export type Log = Logger

/** Names of containers differ, and so do the numbers of the processes of one machine. */
export const NODE_NAME = `${hostname()}-${process.pid}`

export interface LogOptions {
  readonly level: LevelWithSilent
  /** stdout is a terminal. */
  readonly terminal: boolean
  readonly colour: boolean
  readonly fd?: number
}

/** Writes are synchronous, so that the last line before a crash is written; the path of a request logs nothing. */
export function openLog({ level, terminal, colour, fd = 1 }: LogOptions): Log {
  const destination = terminal
    ? pretty({
        destination: fd,
        sync: true,
        colorize: colour,
        singleLine: true,
        translateTime: 'HH:MM:ss.l',
        ignore: 'node,version',
      })
    : pino.destination({ fd, sync: true })
  return pino(
    {
      // What a client sent may stand in a line, and pino-pretty prints it as it is.
      ...(terminal ? { hooks: { streamWrite: printableJson } } : {}),
      level,
      // Lines of several nodes end up in one place.
      base: { node: NODE_NAME, version: packageVersion() },
      timestamp: stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: describeError },
      redact: ['app_key', 'appKey', '*.app_key', '*.appKey'],
    },
    destination,
  )
}

/** Logs the notices of one part. */
export function noticeTo(log: Log, part: string): OnNotice {
  return (message, level) => log[level ?? 'warn']({ part }, message)
}

/** An alert is a line of its own. */
export function alertsTo(log: Log): (alert: Alert) => void {
  return (alert) => log.info({ part: 'alerts', alert }, alertText(alert))
}

/** Only these members are safe to log: an error's other members may hold secrets. */
function describeError(error: unknown): unknown {
  if (!(error instanceof Error)) return { message: String(error) }
  const { type, message, stack } = stdSerializers.err(error)
  return 'code' in error ? { type, code: error.code, message, stack } : { type, message, stack }
}
