// The log: JSON lines, or readable lines on a terminal. It never holds app keys, ids of clients or the content of
// events.

import { createRequire } from 'node:module'
import { hostname } from 'node:os'
import { type LevelWithSilent, type Logger, pino, stdSerializers, stdTimeFunctions } from 'pino'
import { type Alert, alertText } from '../contract/alert.ts'
import { errorCode } from '../lib/errors.ts'
import type { OnNotice } from '../lib/notice.ts'
import { printableJson } from '../lib/printable.ts'
import { systemTimers, type Timers } from '../lib/timers.ts'
import { packageVersion } from '../lib/version.ts'
import { LineWriter } from './line-writer.ts'
import { Repeats } from './repeats.ts'

export type Log = Logger

/** Names of containers differ, and so do the numbers of the processes of one machine. */
export const NODE_NAME = `${hostname()}-${process.pid}`

export interface LogOptions {
  readonly level: LevelWithSilent
  /** stdout is a terminal. */
  readonly terminal: boolean
  readonly colour: boolean
  readonly fd?: number
  readonly timers?: Pick<Timers, 'setTimeout'>
}

export interface OpenedLog {
  readonly log: Log
  /** How many lines were dropped. */
  readonly dropped: () => number
  /** The process ends soon. Resolves when its last lines are written, or after a second. */
  readonly written: () => Promise<void>
  /** The process ends now: tries them until that second is over. */
  readonly end: () => void
}

/** Marks the fields of a line that is never merged with others, and dropped last. */
const KEPT = Symbol('kept')
/** Of one text in a line: it may quote what came from outside. */
const MAX_CHARACTERS = 4096
/** Of one field, with all that is in it. */
const MAX_MEMBERS = 200
const MAX_MEMBER_CHARACTERS = 500
/** How long something took, or how large it is: as lib/format.ts writes it. */
const AMOUNT = /[\d.]+ (?:ms|s|min|h|days|[KMGTP]?i?B)\b/g

export function openLog({ level, terminal, colour, fd = 1, timers = systemTimers }: LogOptions): OpenedLog {
  const repeats = new Repeats(timers)
  const lines = new LineWriter(fd, (dropped) =>
    log.warn({ [KEPT]: true, dropped }, `${dropped} lines of the log were dropped: they could not be written`),
  )
  let isKept = false
  const pretty = terminal ? readableLines(colour) : undefined
  const log: Log = pino(
    {
      hooks: {
        // What a client sent may stand in a line, and pino-pretty prints it as it is.
        ...(pretty === undefined ? {} : { streamWrite: (line) => pretty(printableJson(line)) }),
        logMethod(args, write, number) {
          try {
            const [given, text] = partsOf(args)
            // An error is described when its line is written: lines are compared by where it was thrown.
            const fields = Object.fromEntries(
              Object.entries(given).map(([name, value]) => [name, name === 'err' ? value : shortened(value)]),
            )
            const message = String(shortened(text))
            if (KEPT in given) {
              isKept = true
              write.call(this, fields, message)
              isKept = false
              return
            }
            repeats.line(causeOf(this, number, fields, message), (more) => {
              if (more === 0) write.call(this, fields, message)
              else write.call(this, { ...fields, repeated: more }, `${message} (${formatTimes(more)} in the last 10 s)`)
            })
          } catch {
            // Whoever writes a line has other work to do.
            isKept = false
            write.call(this, {}, 'a line of the log was lost: what it should show cannot be read')
          }
        },
      },
      level,
      // Lines of several nodes end up in one place.
      base: { node: NODE_NAME, version: packageVersion() },
      timestamp: stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: describeError },
      redact: ['app_key', 'appKey', '*.app_key', '*.appKey'],
    },
    { write: (line) => lines.write(line, isKept) },
  )
  return {
    log,
    dropped: () => lines.dropped,
    written: () => {
      repeats.end()
      return lines.written()
    },
    end: () => {
      repeats.end()
      lines.end()
    },
  }
}

/** Its thirty files are loaded only where a terminal asks for it. */
function readableLines(colour: boolean): (line: string) => string {
  const { prettyFactory } = createRequire(import.meta.url)('pino-pretty') as typeof import('pino-pretty')
  return prettyFactory({ colorize: colour, singleLine: true, translateTime: 'HH:MM:ss.l', ignore: 'node,version' })
}

/** The same for all lines that say the same, but for which request it was, and for amounts; of an error its code and place count. */
function causeOf(log: Log, level: number, fields: object, message: string): string {
  const { err, request_id: _, ...others } = fields as { err?: unknown; request_id?: unknown }
  return JSON.stringify([level, log.bindings(), message.replaceAll(AMOUNT, ''), placeOf(err), others])
}

function placeOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const { message, stack = '' } = error
  const frames = stack.slice(stack.indexOf(message) + message.length)
  return `${errorCode(error)}${frames.slice(0, MAX_CHARACTERS)}`
}

function formatTimes(count: number): string {
  return count === 1 ? 'once more' : `${count} times more`
}

/** The fields of a line, and its text. pino takes an error alone, too. */
function partsOf([first, text]: readonly unknown[]): [fields: object, text: unknown] {
  if (first instanceof Error) return [{ err: first }, text ?? first.message]
  return typeof first === 'object' ? [first ?? {}, text ?? ''] : [{}, first]
}

/** What JSON can hold of a value: a part of it where it is large, or in itself. */
function shortened(value: unknown, mostCharacters = MAX_CHARACTERS, room = { members: MAX_MEMBERS }): unknown {
  const member = (one: unknown): unknown =>
    room.members-- > 0 ? shortened(one, MAX_MEMBER_CHARACTERS, room) : undefined
  if (typeof value === 'bigint') return shortened(String(value), mostCharacters)
  if (typeof value === 'string' && value.length > mostCharacters)
    return `${value.slice(0, mostCharacters)}… (${value.length} characters)`
  if (typeof value !== 'object' || value === null) return value
  if (value instanceof Error) return describeError(value)
  if (value instanceof Date) return value.toJSON()
  if (ArrayBuffer.isView(value)) return `${value.byteLength} bytes`
  if (Array.isArray(value)) return value.slice(0, room.members).map(member)
  return Object.fromEntries(
    Object.entries(value)
      .slice(0, room.members)
      .map(([name, one]) => [name, member(one)]),
  )
}

/** Logs the notices of one part. */
export function noticeTo(log: Log, part: string): OnNotice {
  return (message, level) => log[level ?? 'warn']({ part }, message)
}

/** An alert is a line of its own. */
export function alertsTo(log: Log): (alert: Alert) => void {
  return (alert) => log.info({ [KEPT]: true, part: 'alerts', alert }, alertText(alert))
}

/** Who changed an app. */
export function logChange(log: Log, { app, what, by }: { app: string; what: string; by: string }): void {
  log.info({ [KEPT]: true, app, by }, `app ${app} was ${what} over HTTP`)
}

/** Only these members are safe to log: an error's other members may hold secrets. */
function describeError(error: unknown): unknown {
  if (!(error instanceof Error)) return { message: shortened(String(error)) }
  const { type, ...texts } = stdSerializers.err(error)
  const message = shortened(texts.message)
  const stack = shortened(texts.stack)
  return 'code' in error ? { type, code: shortened(error.code), message, stack } : { type, message, stack }
}
