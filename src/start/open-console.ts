// The consoles: that of a process which takes events, and that of a supervisor, which only shows what its processes answer.

import { accessSync, constants, existsSync } from 'node:fs'
import { dirname } from 'node:path'
import type { AppDirectory } from '../apps/app.ts'
import { AppsApi, type AppsApiOptions } from '../console/apps-api.ts'
import { Console } from '../console/console.ts'
import { BUILT_PAGES, Pages } from '../console/pages.ts'
import { Portal } from '../console/portal.ts'
import { EndedSessions } from '../console/sessions.ts'
import type { Alert } from '../contract/alert.ts'
import type { Health } from '../contract/health.ts'
import { Activity } from '../inspect/activity/activity.ts'
import { Inspection, type InspectionOptions } from '../inspect/inspection.ts'
import { EventTaps } from '../inspect/live/event-tap.ts'
import { alertTaps, refusalTaps } from '../inspect/live/item-taps.ts'
import { LocalNode } from '../inspect/now/local-node.ts'
import { OwnAnswers } from '../inspect/own-answers.ts'
import type { joinOthers } from '../inspect/peers/cluster.ts'
import { type Ask, alone } from '../inspect/question.ts'
import { refusedCounts } from '../inspect/refusals/refusal-view.ts'
import { StoreAnswers } from '../inspect/store-answers.ts'
import { AddressRanges } from '../lib/address-ranges.ts'
import { systemTimers } from '../lib/timers.ts'
import { readValueFile } from '../lib/value-file.ts'
import { packageVersion } from '../lib/version.ts'
import type { StoredBytes } from '../limits/stored-bytes.ts'
import type { Sampler } from '../observe/gauges.ts'
import { type Log, logChange, NODE_NAME } from '../observe/log.ts'
import type { Metrics } from '../observe/metrics.ts'
import { LastUses } from '../records/last-uses.ts'
import type { Config } from '../settings/config.ts'
import { SETTINGS } from '../settings/settings.ts'
import { findDemoApp } from './opened-apps.ts'
import type { Stores } from './stores.ts'

export interface ConsoleContext {
  readonly log: Log
  readonly metrics: Metrics
  readonly bytes: StoredBytes
  readonly health: Health
  /** The gauges of the metrics page. */
  readonly gauges: () => Sampler
  /** The supervisor has the admin port. */
  readonly supervised: boolean
}

/** The console of a process that takes events. */
export interface NodeConsole {
  readonly activity: Activity
  /** Shows it to those who watch. */
  readonly onAlert: (alert: Alert) => void
  /** null: the supervisor has them. */
  readonly routes: Console | null
  /** null: there is none, or the supervisor has it. */
  readonly portal: Portal | null
  /** The stores are open: questions that need them are answered from now on. */
  use(stores: Pick<Stores, 'apps' | 'admission' | 'queue' | 'alerts' | 'demoApp'>, publicPort: () => number): void
  /** The process ends soon: streams end, and others do not wait for its answers. */
  drain(): void
  stop(): Promise<void>
}

export async function openConsole(config: Config, context: ConsoleContext): Promise<NodeConsole> {
  const { log, metrics, bytes, health, gauges, supervised } = context
  const timers = systemTimers
  const onFault = faultsTo(log)
  const node = NODE_NAME
  const events = new EventTaps({ node, timers, onFault })
  const activity = new Activity(events)
  const { refusals, accepted } = activity
  const alerts = alertTaps(timers)
  const taps = { events: events.taps, refusals: refusalTaps(refusals, { node, timers }), alerts: alerts.taps }
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
  const stores: StoreAnswers = new StoreAnswers(
    timers,
    async (scope) => (await ask.all({ name: 'last hour', scope, query: '' })).pieces,
    onFault,
  )
  const own = new OwnAnswers({ node: local, refusals, accepted, bytes, taps, stores, timers })
  const others = config.nats === null ? null : await joinOthersOver(config.nats, { own, onFault })
  const ask: Ask = others?.cluster ?? alone(own)
  let directory: AppDirectory | null = null
  const faces = supervised ? null : openFaces(config, { ask, onFault }, { log, apps: () => directory })
  if (faces !== null) others?.cluster.shareEnds(faces.ended)
  return {
    activity,
    onAlert: alerts.tell,
    routes: faces?.routes ?? null,
    portal: faces?.portal ?? null,
    use: ({ apps, admission, queue, alerts: readAlerts, demoApp }, publicPort) => {
      const { dataDirectory, nats, partitions, spool } = config
      directory = apps
      stores.open = {
        apps,
        queue,
        bytes,
        readUsages: (some) => admission.usages(some),
        readDays: (some) => admission.days(some),
        readAlerts,
        place: { dataDirectory, nats, partitions, spool },
        example: () => ({
          port: publicPort(),
          tls: config.tls !== null,
          app_key: demoApp === null ? null : (findDemoApp(apps)?.appKey ?? null),
        }),
      }
    },
    drain: () => {
      faces?.stop()
      others?.cluster.announceEnd()
    },
    stop: async () => {
      faces?.stop()
      for (const one of Object.values(taps)) one.stop()
      local.stop()
      await others?.stop()
    },
  }
}

export interface SupervisorConsole {
  readonly routes: Console
  readonly portal: Portal | null
  stop(): Promise<void>
}

export async function openSupervisorConsole(config: Config, log: Log): Promise<SupervisorConsole> {
  if (config.nats === null) throw new Error('several processes without NATS, which the settings do not allow')
  const onFault = faultsTo(log)
  // Read keys are in the records, which only worker processes need otherwise.
  const opened = config.portal === null ? null : await openReadApps(config, config.nats, log)
  const { cluster, stop } = await joinOthersOver(config.nats, { own: null, onFault })
  const faces = openFaces(config, { ask: cluster, onFault }, { log, apps: () => opened?.store ?? null })
  cluster.shareEnds(faces.ended)
  return {
    ...faces,
    stop: async () => {
      faces.stop()
      await opened?.store.stop()
      await stop()
    },
  }
}

/** Makes no bucket: a worker process does. */
async function openReadApps(config: Config, nats: NonNullable<Config['nats']>, log: Log) {
  const { openSharedApps } = await import('./shared-apps.ts')
  const judge = async (_: unknown, facts: unknown): Promise<string | null> =>
    facts === null ? 'there is no bucket yet' : null
  return await openSharedApps(
    { path: config.appsFile, isNamed: config.appsFileNamed },
    { nats, replicas: config.stream.replicas, judge },
    null,
    { log, metrics: { appsReloadFailures: 0 }, clock: () => systemTimers.nowMs() },
  )
}

/** Loads the client of NATS, which a node on one machine does not need. */
async function joinOthersOver(
  ...[nats, options]: Parameters<typeof joinOthers>
): Promise<ReturnType<typeof joinOthers>> {
  const { joinOthers } = await import('../inspect/peers/cluster.ts')
  return joinOthers(nats, options)
}

interface FacesContext {
  readonly log: Log
  /** null: they are not open yet. */
  readonly apps: () => AppDirectory | null
}

/** Console and portal, which answer from the same questions. */
function openFaces(config: Config, shown: Omit<InspectionOptions, 'timers'>, { log, apps }: FacesContext) {
  const timers = systemTimers
  const nowMs = (): number => timers.nowMs()
  const ended = new EndedSessions(nowMs)
  const pages = new Pages(BUILT_PAGES)
  const inspection = new Inspection({ ...shown, timers })
  const trustedProxies = new AddressRanges(config.trustedProxies)
  const withRecords: AppsApiOptions['withRecords'] = async (use) => {
    const { withAppRecords } = await import('../records/app-records.ts')
    return await withAppRecords(config, nowMs, use)
  }
  const appsApi = new AppsApi({
    withRecords,
    whyFixed: () => whyFixed(config),
    inspection,
    onChange: (change) => logChange(log, change),
    nowMs,
  })
  const routes = new Console({
    access: {
      token: config.consoleToken,
      readingToken: config.consoleReadToken,
      ...(config.consoleTokenFile === null ? {} : { readToken: tokenIn(config.consoleTokenFile) }),
      adminHost: config.adminHost,
      consoleOrigin: config.consoleOrigin,
      ended,
      nowMs,
    },
    pages,
    trustedProxies,
    timers,
    inspection,
    appsApi,
  })
  const uses = new LastUses({
    withRecords,
    mayWrite: () => whyFixed(config) === null,
    timers,
    onProblem: (problem) =>
      log.warn({ problem }, 'the last use of a read key could not be written into its app record; the portal goes on'),
  })
  const portal =
    config.portal === null
      ? null
      : new Portal({
          origin: config.portal.origin,
          apps,
          ended,
          pages,
          inspection,
          trustedProxies,
          onUse: (reader) => uses.note(reader),
          timers,
          onFault: shown.onFault,
        })
  const stop = (): void => {
    routes.stop()
    portal?.stop()
    uses.stop()
  }
  return { routes, portal, ended, stop }
}

/** Why app records cannot be changed from here; null: they can. */
function whyFixed({ appsFile, nats }: Config): string | null {
  if (appsFile === null) return null
  if (nats !== null) return 'app records come from SLUICE_APPS_FILE to each node: change them where that file is made'
  try {
    accessSync(dirname(appsFile), constants.W_OK)
    if (existsSync(appsFile)) accessSync(appsFile, constants.W_OK)
    return null
  } catch {
    return 'app records are in a file that this process may not write'
  }
}

/** null: the file cannot be read, or holds no token. */
function tokenIn(path: string): () => string | null {
  return () => {
    try {
      return SETTINGS.SLUICE_CONSOLE_TOKEN.read(readValueFile(path))
    } catch {
      return null
    }
  }
}

function faultsTo(log: Log): (error: unknown) => void {
  return (error) =>
    log.error({ err: error }, 'bug in the console: a page or stream got no answer; events are not affected')
}
