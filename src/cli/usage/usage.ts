// `sluice usage`: how much of its limits an app has used, or which apps are nearest to one; and what the running service
// accepted and refused of each in the last hour.

import type { App } from '../../apps/app.ts'
import { type UsageByDay, AppUsage as UsageRow, Usage as UsageTold } from '../../contract/admin/apps.ts'
import { Check } from '../../contract/admin/typebox.ts'
import { MAX_REPORTED_APPS, MAX_USAGE_DAYS } from '../../contract/bounds.ts'
import {
  type AppUsage,
  NOT_SEEN,
  type Seen,
  shareUsed,
  type UsageReport,
  usageByDay,
  usageByDayCsv,
  usageReport,
  usageReportJson,
  type WantedUsage,
  type WindowsUsed,
} from '../../inspect/usage-report.ts'
import { StartError } from '../../lib/errors.ts'
import { systemTimers, type Timers } from '../../lib/timers.ts'
import { noSuchApp } from '../../records/app-draft.ts'
import { type Config, readConfig } from '../../settings/config.ts'
import { answerIn, askAdmin, listIn, orService, textIn } from '../admin-api.ts'
import { EXIT, readFlags, type Shell, say, UsageError } from '../shell.ts'
import { type Stores, withStores } from '../stores/usage-stores.ts'
import { answer, counted, formatBytes, formatCount, formatTable } from '../table.ts'
import { percentText, toleranceText, usageIn, usedTexts, windowsTable } from '../windows.ts'

const DEFAULT_TOP = 20
/** Over 10,000 apps, the service reads its counters for some seconds. */
const SERVICE_TIMEOUT_MS = 10_000
const UNKNOWN = '–'
const COUNTED_HEADS = ['accepted, 1 h', 'bytes, 1 h', 'bytes today', 'refused, 1 h'] as const

export const help = `Usage: sluice usage [--top N] [--json]
       sluice usage --app ID [--json]
       sluice usage --days N [--app ID] [--csv | --json]

Says how much apps have used of their minute, day and month: the ${DEFAULT_TOP} that are nearest to one of their limits, or N of
them (up to ${formatCount(MAX_REPORTED_APPS)}), or one app. The month is the app's billing cycle, and its limit is shown as it was sold; a
paid plan may go 10% over it. Beside them, the events accepted and the requests refused in the last hour, by code; and where
nodes have spools with events of an app in them, how many: they count in its windows already, but for those of a node that
is gone for two minutes. And the bytes of the records stored, in the last hour and today: what the nodes that answer have counted
since their start.

The counters come from where the settings have the service keep them: files in SLUICE_DATA_DIR, whether or not the
service runs, or Redis. The last hour is known to the running service alone: that on SLUICE_DATA_DIR is asked, or
the one at SLUICE_ADMIN_HOST and SLUICE_ADMIN_PORT where that port is set or NATS_URL is, with SLUICE_CONSOLE_TOKEN where it
has one. Where it cannot be asked, "${UNKNOWN}" is shown. While NATS does not give the app records, that service is asked for all
but --days: it goes on with those that it has.

  --app ID   one app
  --top N    how many apps
  --days N   events stored, by UTC day, of the last N days, up to 35: of each app that had any, or of one app
  --csv      with --days: a line for each app and day
  --json     for machines

Exit code: 0 shown, 1 no such app or not to be read, 2 for a wrong command line.

Example:
  sluice usage --top 5
`

type SeenOf = (appId: string) => Seen

interface ShownApp {
  readonly app: Pick<App, 'appId' | 'plan' | 'subscription'>
  readonly usage: WindowsUsed
}

interface Shown {
  readonly report: Omit<UsageReport, 'apps'> & { readonly apps: readonly ShownApp[] }
  readonly seenOf: SeenOf
  readonly json: object
}

export async function run(args: readonly string[], shell: Shell): Promise<number> {
  // Most other commands take the app as a word, so one is likely to be typed here.
  const word = args[0]
  if (word !== undefined && !word.startsWith('-')) throw new UsageError(`write the app as --app ${word}`)
  const { values: flags } = readFlags(args, {
    app: { type: 'string' },
    top: { type: 'string' },
    days: { type: 'string' },
    csv: { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
  })
  const config = readConfig(shell.env)
  if (flags.days !== undefined) {
    if (flags.top !== undefined) throw new UsageError('give --days or --top, not both')
    if (flags.csv && flags.json) throw new UsageError('give --csv or --json, not both')
    const days = daysOf(flags.days)
    const byDay = await readCounters(config, shell, flags.app, async (stores, apps, timers) => {
      const asked = apps.filter((app) => flags.app === undefined || app.appId === flags.app)
      const how = { days, isOfOne: flags.app !== undefined }
      return usageByDay(asked, await stores.daysAt(timers.nowMs()), how, timers)
    })
    await answer(shell, flags.json, byDay, () => (flags.csv ? usageByDayCsv(byDay) : formatByDay(byDay)))
    return EXIT.ok
  }
  if (flags.csv) throw new UsageError('--csv: give --days too')
  const wanted = wantedOf(flags)
  const tell = (message: string): Promise<void> => say(shell, `sluice usage: ${message}\n`)
  const ofStores = async (): Promise<Shown> => {
    const report = await readCounters(config, shell, flags.app, async (stores, apps, timers) =>
      usageReport(apps, await stores.usagesAt(timers.nowMs()), wanted, timers),
    )
    const seen = await readSeen(config, wanted).catch(async (error: unknown) => {
      if (!(error instanceof StartError)) throw error
      await tell(`the last hour is not known: ${error.message}`)
      return new Map<string, Seen>()
    })
    const seenOf: SeenOf = (appId) => seen.get(appId) ?? NOT_SEEN
    return { report, seenOf, json: usageReportJson(report, seenOf) }
  }
  const { report, seenOf, json } = await orService(ofStores(), () => askService(config, wanted), tell)
  await answer(shell, flags.json, json, () =>
    'appId' in wanted ? formatApp(report.apps[0], seenOf) : formatReport(report, seenOf),
  )
  return EXIT.ok
}

function wantedOf({ app, top }: { readonly app?: string; readonly top?: string }): WantedUsage {
  if (app !== undefined) {
    if (top !== undefined) throw new UsageError('give --app or --top, not both')
    return { appId: app }
  }
  if (top === undefined) return { top: DEFAULT_TOP }
  if (/^[1-9]\d{0,5}$/.test(top) && Number(top) <= MAX_REPORTED_APPS) return { top: Number(top) }
  throw new UsageError(`--top: must be a whole number from 1 to ${formatCount(MAX_REPORTED_APPS)}`)
}

function daysOf(text: string): number {
  if (/^[1-9]\d?$/.test(text) && Number(text) <= MAX_USAGE_DAYS) return Number(text)
  throw new UsageError(`--days: must be a whole number from 1 to ${MAX_USAGE_DAYS}`)
}

/** What the counters say at one moment. Throws a StartError where the app does not exist. */
async function readCounters<T>(
  config: Config,
  shell: Shell,
  appId: string | undefined,
  read: (stores: Stores, apps: readonly App[], timers: Timers) => Promise<T | 'away'>,
): Promise<T> {
  return await withStores(config, shell.clock, async (stores) => {
    const { apps, complaints } = await stores.all()
    for (const complaint of complaints) await say(shell, `sluice usage: ${complaint}\n`)
    if (appId !== undefined && !apps.some((app) => app.appId === appId)) {
      throw noSuchApp(
        appId,
        apps.map((app) => ({ app_id: app.appId })),
      )
    }
    const nowMs = await stores.now()
    const report = await read(stores, apps, { ...systemTimers, nowMs: () => nowMs })
    if (report === 'away') throw new StartError('the counters cannot be read now')
    return report
  })
}

/** Throws a StartError where the service cannot be asked. */
async function readSeen(config: Config, wanted: WantedUsage): Promise<ReadonlyMap<string, Seen>> {
  return seenIn(listIn(await askForApps(config, wanted), 'apps'))
}

async function askForApps(config: Config, wanted: WantedUsage): Promise<string> {
  const query = new URLSearchParams('appId' in wanted ? { app: wanted.appId } : { top: String(wanted.top) })
  const signal = AbortSignal.timeout(SERVICE_TIMEOUT_MS)
  return await textIn(await askAdmin(config, `/api/apps?${query.toString()}`, signal))
}

/** In place of the stores. Throws a StartError where it does not say it. */
async function askService(config: Config, wanted: WantedUsage): Promise<Shown> {
  const json = answerIn(await askForApps(config, wanted), UsageTold)
  if ('appId' in wanted && json.apps.length === 0) throw noSuchApp(wanted.appId, [])
  const seen = seenIn(json.apps)
  const apps = json.apps.map(({ app_id: appId, plan, subscription, spooled, ...windows }) => ({
    app: { appId, plan, subscription } as ShownApp['app'],
    usage: {
      ...usageIn(windows, ({ resets_at: endsAt }) => endsAt),
      ...(spooled && { spooled: { events: spooled.events, ofGoneNodes: spooled.of_gone_nodes } }),
    },
  }))
  const report = { apps, totalApps: json.total_apps, readAtMs: Date.parse(json.read_at) }
  return { report, seenOf: (appId) => seen.get(appId) ?? NOT_SEEN, json }
}

/** Those that are known of apps as the service lists them. */
export function seenIn(apps: readonly unknown[]): ReadonlyMap<string, Seen> {
  const found = new Map<string, Seen>()
  for (const entry of apps) {
    const row = Object(entry) as Readonly<Record<string, unknown>>
    const appId = row['app_id']
    if (typeof appId !== 'string') continue
    found.set(appId, {
      last_hour: memberOf(row, 'last_hour'),
      events_per_second: memberOf(row, 'events_per_second'),
      stored_bytes: memberOf(row, 'stored_bytes'),
    })
  }
  return found
}

/** null: not known, or in a form of another version. */
function memberOf<Name extends keyof Seen>(row: Readonly<Record<string, unknown>>, name: Name): Seen[Name] | null {
  const value = row[name]
  return Check(UsageRow.properties[name], value) ? (value as Seen[Name]) : null
}

export function formatByDay({ apps, read_at: readAt }: UsageByDay): string {
  const head = ['day', ...apps.map(({ app_id: appId }) => appId)]
  const rows = (apps[0]?.days ?? []).map(({ day }, at) =>
    [day].concat(apps.map(({ days }) => formatCount(days[at].events))),
  )
  const which = apps.length === 0 ? 'No app had an event in this time' : 'Events stored, by UTC day'
  return `${apps.length === 0 ? '' : `${formatTable([head, ...rows])}\n`}${which}. Read at ${readAt}.\n`
}

export function formatReport({ apps, totalApps, readAtMs }: Shown['report'], seenOf: SeenOf): string {
  const isSpooled = apps.some(({ usage }) => usage.spooled !== undefined)
  const rows = apps.map(({ app, usage }) => {
    const { last_hour: lastHour, stored_bytes: bytes } = seenOf(app.appId)
    return [
      app.appId,
      app.plan,
      percentText(shareUsed(usage)),
      ...usedTexts(app.plan, usage),
      lastHour === null ? UNKNOWN : formatCount(lastHour.accepted_events),
      ...(bytes === null ? [UNKNOWN, UNKNOWN] : [formatBytes(bytes.last_hour), formatBytes(bytes.today)]),
      refusedText(lastHour),
      ...(isSpooled ? [formatCount(usage.spooled?.events ?? 0)] : []),
    ]
  })
  const head = ['app', 'plan', 'nearest', 'minute', 'day', 'month', ...COUNTED_HEADS]
  if (isSpooled) head.push('spooled')
  const which = `${formatCount(apps.length)} of ${counted(totalApps, 'app')}, the nearest to a limit first`
  return `${formatTable([head, ...rows])}
${which}. Read at ${new Date(readAtMs).toISOString()}.
${apps.map(({ app }) => toleranceText(app.plan)).find((text) => text !== '') ?? ''}`
}

/** One app, with what is left and until when. */
export function formatApp({ app, usage }: ShownApp, seenOf: SeenOf): string {
  const { last_hour: lastHour, stored_bytes: bytes } = seenOf(app.appId)
  const accepted = lastHour === null ? UNKNOWN : counted(lastHour.accepted_events, 'event')
  const tolerance = toleranceText(app.plan)
  const about = [
    ['accepted in the last hour', accepted],
    ['refused in the last hour', refusedText(lastHour)],
    ['bytes in the last hour', bytes === null ? UNKNOWN : formatBytes(bytes.last_hour)],
    [
      'bytes today',
      bytes === null
        ? UNKNOWN
        : `${formatBytes(bytes.today)}, up to ${formatBytes(bytes.highest_minute_today)} a minute`,
    ],
    ...(usage.spooled === undefined ? [] : [['in spools of nodes', spooledText(usage.spooled)]]),
  ]
  return `${app.appId}, plan ${app.plan}, ${app.subscription}

${windowsTable(app.plan, usage)}
${formatTable(about)}${tolerance === '' ? '' : `\n${tolerance}`}`
}

function spooledText({ events, ofGoneNodes }: NonNullable<AppUsage['usage']['spooled']>): string {
  const all = `${counted(events, 'event')}, not in the stream yet or not audited`
  if (ofGoneNodes === 0) return all
  return `${all}; ${formatCount(ofGoneNodes)} of nodes that are gone, which count once they are sent (sluice spool drain)`
}

/** Requests by code, the most first. */
function refusedText(lastHour: Seen['last_hour']): string {
  if (lastHour === null) return UNKNOWN
  const codes = Object.entries(lastHour.refused).toSorted(([, one], [, other]) => other - one)
  return codes.length === 0 ? '0' : codes.map(([code, count]) => `${code} ${formatCount(count)}`).join(', ')
}
