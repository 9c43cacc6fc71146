// The console of one process: what it reads, and from which parts.

import { hostname } from 'node:os'
import { EventFeed } from '../console/event-feed.ts'
import { EventTaps } from '../console/event-tap.ts'
import { OwnInquiries } from '../console/inquiries.ts'
import { LocalNode } from '../console/local-node.ts'
import { mergeNow } from '../console/now.ts'
import { BUILT_PAGES } from '../console/pages.ts'
import { Console } from '../console/routes.ts'
import type { Health } from '../http/admin.ts'
import { systemTimers } from '../lib/timers.ts'
import { packageVersion } from '../lib/version.ts'
import { connectNats } from '../nats/connection.ts'
import type { Log } from '../observe/log.ts'
import type { Metrics } from '../observe/metrics.ts'
import type { Sampler } from '../observe/sampler.ts'
import type { Finding } from '../queue/find/finding.ts'
import type { Question } from '../queue/find/question.ts'
import { findInJournal } from '../queue/journal/journal-search.ts'
import { findInStream } from '../queue/stream/read/stream-search.ts'
import type { Config } from '../settings/config.ts'
import type { Stores } from './stores.ts'

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
  /** The stores are open: questions that need them are answered from now on. */
  use(stores: Pick<Stores, 'apps' | 'admission'>): void
  stop(): void
}

/** One process of one machine: names of containers differ, and processes of one machine have other numbers. */
export function nodeName(): string {
  return `${hostname()}-${process.pid}`
}

/** In the stream over a connection of its own, since a search reads so much that acknowledgements would wait behind it. */
async function findBatch(config: Config, question: Question, signal: AbortSignal): Promise<Finding> {
  const { nats, dataDirectory, partitions } = config
  if (nats === null) return await findInJournal(dataDirectory, question, { signal })
  const connection = await connectNats(nats)
  try {
    return await findInStream(connection, question, { signal, partitions })
  } finally {
    await connection.close()
  }
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
  const inquiries = new OwnInquiries(() => timers.nowMs())
  const routes = new Console({
    access: { token: config.consoleToken, adminHost: config.adminHost, nowMs: () => timers.nowMs() },
    pages: BUILT_PAGES,
    now: async ({ withHistory }) => {
      const report = await local.report({ withHistory })
      return mergeNow({ reports: [report], silent: [], problem: null }, { nowMs: timers.nowMs(), withHistory })
    },
    inquiries,
    events: new EventFeed([taps], timers),
    timers,
    onFault,
  })
  return {
    taps,
    routes,
    use: ({ apps, admission }) => {
      inquiries.stores = {
        apps,
        usageOf: (app) => admission.usage(app),
        find: (question, signal) => findBatch(config, question, signal),
      }
    },
    stop: () => {
      routes.stop()
      taps.stop()
      local.stop()
    },
  }
}
