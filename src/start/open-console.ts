// The consoles: that of a process which takes events, and that of a supervisor, which only shows what its processes tell.

import { hostname } from 'node:os'
import { AcceptedCounts } from '../console/accepted-counts.ts'
import { EventFeed } from '../console/event-feed.ts'
import { EventTaps } from '../console/event-tap.ts'
import { type Inquiries, OwnInquiries } from '../console/inquiries.ts'
import { LocalNode } from '../console/local-node.ts'
import { OwnRefusals } from '../console/own-refusals.ts'
import { BUILT_PAGES } from '../console/pages.ts'
import { type Ask, OwnAnswers } from '../console/questions.ts'
import { RefusalFeed } from '../console/refusal-feed.ts'
import { refusedCounts } from '../console/refusal-view.ts'
import { Refusals } from '../console/refusals.ts'
import { Leases } from '../console/remote-watch.ts'
import { Console } from '../console/routes.ts'
import type { Health } from '../http/admin.ts'
import { systemTimers } from '../lib/timers.ts'
import { packageVersion } from '../lib/version.ts'
import type { Log } from '../observe/log.ts'
import type { Metrics } from '../observe/metrics.ts'
import type { Sampler } from '../observe/sampler.ts'
import { findInQueue } from '../queue/find/find-in-queue.ts'
import type { Config } from '../settings/config.ts'
import type { joinOthers } from './join-others.ts'
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
  readonly taps: EventTaps
  readonly refusals: Refusals
  readonly accepted: AcceptedCounts
  /** null: the supervisor has them. */
  readonly routes: Console | null
  /** The stores are open: questions that need them are answered from now on. */
  use(stores: Pick<Stores, 'apps' | 'admission'>): void
  /** The process ends soon: streams end, and others do not wait for its answers. */
  drain(): void
  stop(): Promise<void>
}

export async function openConsole(config: Config, context: ConsoleContext): Promise<NodeConsole> {
  const { log, metrics, health, gauges, supervised } = context
  const timers = systemTimers
  const onFault = faultsTo(log)
  // Names of containers differ, and so do the numbers of the processes of one machine.
  const node = `${hostname()}-${process.pid}`
  const refusals = new Refusals()
  const accepted = new AcceptedCounts()
  const taps = new EventTaps({ node, timers, onFault })
  const ownRefusals = new OwnRefusals(refusals, { node, timers })
  const local = new LocalNode({
    node,
    version: packageVersion(),
    metrics,
    gauges,
    health,
    queueKind: config.embedded ? 'journal' : 'stream',
    journalKeepSeconds: config.journalKeepMs === null ? null : config.journalKeepMs / 1000,
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
  const leases = others === null ? null : new Leases({ ...others, timers, events: taps, refusals: ownRefusals })
  const routes = supervised
    ? null
    : openRoutes(config, {
        ask,
        inquiries,
        events: [taps, ...(others === null ? [] : [others.watches.events])],
        refusals: [ownRefusals, ...(others === null ? [] : [others.watches.refusals])],
        onFault,
      })
  return {
    taps,
    refusals,
    accepted,
    routes,
    use: ({ apps, admission }) => {
      inquiries.stores = {
        apps,
        readUsages: (some) => admission.usages(some),
        find: (question, signal) => findInQueue(config, question, { signal }),
      }
    },
    drain: () => {
      routes?.stop()
      others?.cluster.tellGone()
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

/** A supervisor has no NATS where it has no processes: they need it. */
export async function openSupervisorConsole(config: Config, log: Log): Promise<SupervisorConsole | null> {
  if (config.nats === null) return null
  const onFault = faultsTo(log)
  const { cluster, watches, stop } = await joinOthersOver(config.nats, { own: null, inquiries: null, onFault })
  const sources = { events: [watches.events], refusals: [watches.refusals] }
  const routes = openRoutes(config, { ask: cluster.ask, inquiries: cluster, ...sources, onFault })
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

interface Shown {
  readonly ask: Ask
  readonly inquiries: Inquiries
  readonly events: ConstructorParameters<typeof EventFeed>[0]
  readonly refusals: ConstructorParameters<typeof RefusalFeed>[0]
  readonly onFault: (error: unknown) => void
}

function openRoutes(config: Config, { events, refusals, ...shown }: Shown): Console {
  const timers = systemTimers
  return new Console({
    access: { token: config.consoleToken, adminHost: config.adminHost, nowMs: () => timers.nowMs() },
    pages: BUILT_PAGES,
    events: new EventFeed(events, timers),
    refusals: new RefusalFeed(refusals, timers),
    timers,
    ...shown,
  })
}

function faultsTo(log: Log): (error: unknown) => void {
  return (error) => log.error({ err: error }, 'the console could not answer')
}
