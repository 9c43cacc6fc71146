// The consoles: that of a process which takes events, and that of a supervisor, which only shows what its processes answer.

import { Activity } from '../console/activity.ts'
import { EventTaps } from '../console/event-tap.ts'
import { OwnInquiries } from '../console/inquiries.ts'
import { LiveRefusals } from '../console/live-refusals.ts'
import { LocalNode } from '../console/local-node.ts'
import { BUILT_PAGES } from '../console/pages.ts'
import { type Ask, OwnAnswers } from '../console/questions.ts'
import { refusedCounts } from '../console/refusal-view.ts'
import { Leases } from '../console/remote-watch.ts'
import { Console, type ConsoleOptions } from '../console/routes.ts'
import type { Health } from '../health.ts'
import { systemTimers } from '../lib/timers.ts'
import { packageVersion } from '../lib/version.ts'
import type { Sampler } from '../observe/gauges.ts'
import { type Log, NODE_NAME } from '../observe/log.ts'
import type { Metrics } from '../observe/metrics.ts'
import type { Config } from '../settings/config.ts'
import type { joinOthers } from './join-others.ts'
import { findDemoApp } from './opened-apps.ts'
import type { Stores } from './stores.ts'

export interface ConsoleContext {
  readonly log: Log
  readonly metrics: Metrics
  readonly health: Health
  /** The gauges of the metrics page. */
  readonly gauges: () => Sampler
  /** The supervisor has the admin port. */
  readonly supervised: boolean
}

/** The console of a process that takes events. */
export interface NodeConsole {
  readonly activity: Activity
  /** null: the supervisor has them. */
  readonly routes: Console | null
  /** The stores are open: questions that need them are answered from now on. */
  use(stores: Pick<Stores, 'apps' | 'admission' | 'queue' | 'demoApp'>, publicPort: () => number): void
  /** The process ends soon: streams end, and others do not wait for its answers. */
  drain(): void
  stop(): Promise<void>
}

export async function openConsole(config: Config, context: ConsoleContext): Promise<NodeConsole> {
  const { log, metrics, health, gauges, supervised } = context
  const timers = systemTimers
  const onFault = faultsTo(log)
  const node = NODE_NAME
  const activity = new Activity(new EventTaps({ node, timers, onFault }))
  const { refusals, accepted, taps } = activity
  const live = { events: taps, refusals: new LiveRefusals(refusals, { node, timers }) }
  const local = new LocalNode({
    node,
    version: packageVersion(),
    metrics,
    gauges,
    parts: () => health.parts(),
    queueKind: config.embedded ? 'journal' : 'stream',
    refusedLastHour: () => refusedCounts(refusals, timers.nowMs()),
    timers,
  })
  local.start()
  const own = new OwnAnswers({ node: local, refusals, accepted, nowMs: () => timers.nowMs() })
  const inquiries: OwnInquiries = new OwnInquiries(timers, async (app) => (await ask('last hour', { app })).pieces)
  const others = config.nats === null ? null : await joinOthersOver(config.nats, { own, inquiries, onFault })
  const ask: Ask =
    others?.cluster.ask ??
    (async (name, question) => ({ pieces: [await own.answer(name, question)], silent: [], problem: null }))
  const leases = others === null ? null : new Leases({ ...others, ...live, timers })
  const sources = others === null ? [live] : [live, others.watches]
  const routes = supervised ? null : openRoutes(config, { ask, inquiries, sources, onFault })
  return {
    activity,
    routes,
    use: ({ apps, admission, queue, demoApp }, publicPort) => {
      const { dataDirectory, nats, partitions } = config
      inquiries.stores = {
        apps,
        queue,
        readUsages: (some) => admission.usages(some),
        place: { dataDirectory, nats, partitions },
        example: () => ({
          port: publicPort(),
          tls: config.tls !== null,
          app_key: demoApp === null ? null : (findDemoApp(apps)?.appKey ?? null),
        }),
      }
    },
    drain: () => {
      routes?.stop()
      others?.cluster.announceEnd()
    },
    stop: async () => {
      routes?.stop()
      leases?.stop()
      taps.stop()
      local.stop()
      await others?.stop()
    },
  }
}

export interface SupervisorConsole {
  readonly routes: Console
  stop(): Promise<void>
}

export async function openSupervisorConsole(config: Config, log: Log): Promise<SupervisorConsole> {
  if (config.nats === null) throw new Error('several processes without NATS, which the settings do not allow')
  const onFault = faultsTo(log)
  const { cluster, watches, stop } = await joinOthersOver(config.nats, { own: null, inquiries: null, onFault })
  const routes = openRoutes(config, { ask: cluster.ask, inquiries: cluster, sources: [watches], onFault })
  return {
    routes,
    stop: async () => {
      routes.stop()
      await stop()
    },
  }
}

/** Loads the client of NATS, which a node on one machine does not need. */
async function joinOthersOver(...[nats, own]: Parameters<typeof joinOthers>): Promise<ReturnType<typeof joinOthers>> {
  const { joinOthers } = await import('./join-others.ts')
  return joinOthers(nats, own)
}

function openRoutes(config: Config, shown: Pick<ConsoleOptions, 'ask' | 'inquiries' | 'sources' | 'onFault'>): Console {
  const timers = systemTimers
  return new Console({
    access: {
      token: config.consoleToken,
      adminHost: config.adminHost,
      consoleOrigin: config.consoleOrigin,
      nowMs: () => timers.nowMs(),
    },
    pages: BUILT_PAGES,
    timers,
    ...shown,
  })
}

function faultsTo(log: Log): (error: unknown) => void {
  return (error) =>
    log.error({ err: error }, 'bug in the console: a page or stream got no answer; events are not affected')
}
