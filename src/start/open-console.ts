// The console of one process: what it reads, and from which parts.

import { hostname } from 'node:os'
import { EventFeed } from '../console/event-feed.ts'
import { EventTaps } from '../console/event-tap.ts'
import { LocalNode } from '../console/local-node.ts'
import { mergeNow } from '../console/now.ts'
import { BUILT_PAGES } from '../console/pages.ts'
import { Console } from '../console/routes.ts'
import type { Health } from '../http/admin.ts'
import { systemTimers } from '../lib/timers.ts'
import { packageVersion } from '../lib/version.ts'
import type { Log } from '../observe/log.ts'
import type { Metrics } from '../observe/metrics.ts'
import type { Sampler } from '../observe/sampler.ts'
import type { Config } from '../settings/config.ts'

export interface ConsoleContext {
  readonly log: Log
  readonly metrics: Metrics
  readonly health: Health
  /** The gauges of the metrics page. */
  readonly gauges: () => Sampler
}

export interface OpenConsole {
  readonly taps: EventTaps
  readonly routes: Console
  stop(): void
}

/** One process of one machine: names of containers differ, and processes of one machine have other numbers. */
export function nodeName(): string {
  return `${hostname()}-${process.pid}`
}

export function openConsole(config: Config, { log, metrics, health, gauges }: ConsoleContext): OpenConsole {
  const timers = systemTimers
  const node = nodeName()
  const onFault = (error: unknown): void => log.error({ err: error }, 'the console could not answer')
  const taps = new EventTaps({ node, timers, onFault })
  const local = new LocalNode({
    node,
    version: packageVersion(),
    metrics,
    gauges,
    health,
    queueKind: config.embedded ? 'journal' : 'stream',
    journalKeepSeconds: config.journalKeepMs === null ? null : config.journalKeepMs / 1000,
    refusedLastHour: () => [],
    timers,
  })
  local.start()
  const routes = new Console({
    access: { token: config.consoleToken, adminHost: config.adminHost, nowMs: () => timers.nowMs() },
    pages: BUILT_PAGES,
    now: async ({ withHistory }) => {
      const report = await local.report({ withHistory })
      return mergeNow({ reports: [report], silent: [], problem: null }, { nowMs: timers.nowMs(), withHistory })
    },
    events: new EventFeed([taps], timers),
    timers,
    onFault,
  })
  return {
    taps,
    routes,
    stop: () => {
      routes.stop()
      taps.stop()
      local.stop()
    },
  }
}
