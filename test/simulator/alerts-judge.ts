// Whether each alert that what is stored gives rise to was raised, once, and none else.

import type { App } from '../../src/apps/app.ts'
import { cycleAt, windowStartMs } from '../../src/apps/plans.ts'
import { type Alert, parseAlerts } from '../../src/contract/alert.ts'
import { DAY_MS, MINUTE_MS } from '../../src/lib/spans.ts'
import { streamOfBucket } from '../../src/nats/store-names.ts'
import type { Cluster } from './cluster.ts'
import type { Step } from './history.ts'

/** What changes the sums behind the back of whoever decides, or its time. */
const INEXACT: ReadonlySet<Step['kind']> = new Set<Step['kind']>([
  'clock',
  'plan',
  'app deleted',
  'stream lost',
  'counts lost',
  'apps lost',
  'nats lost its tail',
  'stream aged',
  'server behind',
  'disk fails',
  'sync lies',
  'bit flips',
])
const ALERTS_SUBJECT = '$KV.SLUICE_COUNTS.alerts.'

export interface AlertFinding {
  readonly isLost: boolean
  readonly detail: string
}

/** `stored`: the batches of an app. null: nothing is wrong. */
export function judgeAlerts(
  cluster: Cluster,
  steps: readonly Step[],
  stored: ReadonlyMap<string, readonly { readonly events: number; readonly takenAtMs: number }[]>,
): AlertFinding | null {
  if (steps.some(({ kind }) => INEXACT.has(kind))) return null
  const alerts = toldAlerts(cluster)
  for (const [{ app }] of cluster.versions) {
    const found = judgeApp(
      app,
      stored.get(app.appId) ?? [],
      alerts.filter(({ app_id: appId }) => appId === app.appId),
    )
    if (found !== null) return found
  }
  return null
}

/** By the logs, and of many nodes by what is stored: a process may end before it has told. */
function toldAlerts(cluster: Cluster): Alert[] {
  const entries = cluster.nats.streams.get(streamOfBucket('SLUICE_COUNTS'))?.messages ?? []
  const kept = entries.filter(({ subject }) => subject.startsWith(ALERTS_SUBJECT))
  return [
    ...cluster.nodes.flatMap((node) => node.alerts.map(({ alert }) => alert)),
    ...kept.flatMap(({ data }) => parseAlerts(data.toString())),
  ]
}

function judgeApp(
  app: App,
  stored: readonly { readonly events: number; readonly takenAtMs: number }[],
  alerts: readonly Alert[],
): AlertFinding | null {
  const used = new Map<string, number>()
  for (const { events, takenAtMs } of stored) {
    const startsMs = { day: windowStartMs(takenAtMs, DAY_MS), month: cycleAt(app.billingAnchorMs, takenAtMs).startMs }
    for (const [window, startMs] of Object.entries(startsMs)) {
      const name = `${window} ${Math.ceil(startMs / MINUTE_MS)}`
      used.set(name, (used.get(name) ?? 0) + events)
    }
  }
  const limits = { day: app.eventsPerDay, month: app.eventsPerMonth }
  const raised = alerts.filter(({ kind, state }) => kind === 'step' && state === 'raised')
  const idsOf = (name: string, percent: number): Set<string> => {
    const same = raised.filter(
      (alert) =>
        alert.percent === percent &&
        name === `${alert.window} ${Math.ceil(Date.parse(alert.window_started_at) / MINUTE_MS)}`,
    )
    return new Set(same.map(({ id }) => id))
  }
  for (const [name, events] of used) {
    const limit = limits[name.split(' ')[0] as 'day' | 'month']
    if (limit === null) continue
    for (const percent of app.alertSteps) {
      const ids = idsOf(name, percent).size
      const isDue = 100 * events >= percent * limit
      const detail = `${app.appId} ${name}: ${ids} alerts at ${percent}%, with ${events} of ${limit} events stored`
      if (isDue && ids === 0) return { isLost: true, detail }
      if (ids > 1 || (!isDue && ids > 0)) return { isLost: false, detail }
    }
  }
  return null
}
