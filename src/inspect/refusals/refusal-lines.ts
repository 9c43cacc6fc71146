// Logs what was refused: once a minute, so that the log shows it whatever the rate is, and at once where a reason of a 503
// is new.

import { adviceText } from '../../contract/overload-advice.ts'
import { formatSpan } from '../../lib/format.ts'
import type { Timers } from '../../lib/timers.ts'
import type { Log } from '../../observe/log.ts'
import { overloadOf, type RefusalLine } from './refusal.ts'
import type { Refusals } from './refusals.ts'

const INTERVAL_MS = 60_000
const MAX_LINES = 100

export interface RefusalLinesOptions {
  readonly refusals: Pick<Refusals, 'takeLines' | 'onOverload'>
  readonly log: Pick<Log, 'info' | 'warn'>
  readonly timers: Pick<Timers, 'setInterval' | 'clear' | 'nowMs' | 'monotonicMs'>
}

/** Returns what logs the rest and stops. */
export function logRefusals({ refusals, log, timers }: RefusalLinesOptions): () => void {
  refusals.onOverload = (refusal) => {
    const { app_id: app, code, request_id } = refusal
    const reason = overloadOf(refusal)
    if (reason !== null) log.warn({ app, code, reason, request_id }, `503 (${reason}): ${adviceText(reason)}`)
  }
  let sinceMs = timers.monotonicMs()
  const write = (): void => {
    const lines = refusals.takeLines(timers.nowMs())
    const atMs = timers.monotonicMs()
    const span = formatSpan(atMs - sinceMs).replace(/^1 min$/, 'minute')
    sinceMs = atMs
    for (const line of lines.slice(0, MAX_LINES)) writeLine(log, line, span)
    const others = lines.slice(MAX_LINES)
    if (others.length === 0) return
    const count = others.reduce((sum, line) => sum + line.count, 0)
    log.info({ count }, `refused ${requests(count)} more, of ${others.length} other pairs of app and code`)
  }
  const timer = timers.setInterval(write, INTERVAL_MS)
  timer.unref()
  return () => {
    refusals.onOverload = null
    timers.clear(timer)
    write()
  }
}

function writeLine(log: RefusalLinesOptions['log'], line: RefusalLine, span: string): void {
  const { app_id: app, code, reason, origin, count, message, request_id } = line
  const overload = overloadOf(line)
  if (overload !== null) {
    const text = `refused ${requests(count)} with 503 in the last ${span} (${overload}): ${adviceText(overload)}`
    log.warn({ code, reason, count, request_id }, text)
    return
  }
  const verb = code === 'replayed_other_body' ? 'did not store' : 'refused'
  const whose = app === null ? '' : ` of app ${app}`
  const why =
    origin === null ? code + (reason === null ? '' : ` (${reason})`) : `${code}: ${message}; add it if they may`
  const named = { ...(reason === null ? {} : { reason }), ...(origin === null ? {} : { origin }) }
  log.info({ app, code, ...named, count, message, request_id }, `${verb} ${requests(count)}${whose}: ${why}`)
}

function requests(count: number): string {
  return count === 1 ? '1 request' : `${count} requests`
}
