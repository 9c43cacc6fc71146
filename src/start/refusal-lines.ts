// Logs once a minute what was refused, so that the log shows it whatever the rate is.

import type { RefusalLine } from '../console/refusal.ts'
import type { Timers } from '../lib/timers.ts'
import type { Log } from '../observe/log.ts'

const INTERVAL_MS = 60_000
const MAX_LINES = 100

export interface RefusalLinesOptions {
  /** The most frequent first; each is told once. */
  readonly takeLines: () => readonly RefusalLine[]
  readonly log: Pick<Log, 'info'>
  readonly timers: Timers
}

/** Returns what logs the rest and stops. */
export function logRefusals({ takeLines, log, timers }: RefusalLinesOptions): () => void {
  const write = (): void => {
    const lines = takeLines()
    for (const { app_id, code, count, message, request_id } of lines.slice(0, MAX_LINES)) {
      const what = { app: app_id, code, count, message, request_id }
      const verb = code === 'replayed_other_body' ? 'did not store' : 'refused'
      log.info(what, `${verb} ${requests(count)}${app_id === null ? '' : ` of app ${app_id}`}: ${code}`)
    }
    const others = lines.slice(MAX_LINES)
    if (others.length === 0) return
    const count = others.reduce((sum, line) => sum + line.count, 0)
    log.info({ count }, `refused ${requests(count)} more, of ${others.length} other pairs of app and code`)
  }
  const timer = timers.setInterval(write, INTERVAL_MS)
  timer.unref()
  return () => {
    timers.clear(timer)
    write()
  }
}

function requests(count: number): string {
  return count === 1 ? '1 request' : `${count} requests`
}
