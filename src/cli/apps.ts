// `sluice apps`: the app records, in a file or in Redis. An edit reads, checks and writes all of them while no other
// edit comes between; a service that is running takes it up by itself.

import { randomBytes } from 'node:crypto'
import { type AppRecord, readApp } from '../admit/app-record.ts'
import { PLANS } from '../admit/plans.ts'
import { readConfig } from '../config.ts'
import { StartError } from '../lib/errors.ts'
import { withAppRecords } from './app-records.ts'
import { EXIT, print, readFlags, type Shell, UsageError } from './shell.ts'
import { formatCount, formatTable } from './table.ts'

export const help = `Usage: sluice apps list [--json]
       sluice apps add --app-id ID --plan PLAN [MEMBERS]   prints the new app's key
       sluice apps set APP_ID MEMBERS                      an empty value removes a member
       sluice apps remove APP_ID
       sluice apps remove --app-key KEY                    what is stored under that key, a bad record too
       sluice apps rotate APP_ID                           a new key, printed; the old one stops at once

Reads and edits the file SLUICE_APPS_FILE (default: SLUICE_DATA_DIR/apps.json). With REDIS_URL and
NATS_URL set and SLUICE_APPS_FILE unset, app records live in Redis instead. Every running service takes a change up within a
second, and edits at the same time do not undo each other.

Members:
  --plan PLAN                  ${Object.keys(PLANS).join(', ')}
  --subscription STATE         trialing, active (what add takes if none is given), past_due, canceled, unpaid, paused
  --name NAME
  --app-key KEY                with add; if none is given, one is made up
  --trial-ends-at TIME         such as 2026-12-31T00:00:00Z
  --billing-cycle-anchor TIME  the billing cycle begins then and every month after
  --events-per-minute N        in place of the plan's figure
  --events-per-month N         in place of the plan's figure
  --events-per-day N           without it there is no daily limit

Exit code: 0 done, 1 refused, 2 for a wrong command line.

Example:
  sluice apps add --app-id shop --plan 100k --events-per-day 20000
`

/** A record on its way: what an operator typed may still be wrong. */
export type Draft = Readonly<Partial<Record<keyof AppRecord, unknown>>>

const MEMBER_FLAGS = {
  name: { type: 'string' },
  plan: { type: 'string' },
  subscription: { type: 'string' },
  'trial-ends-at': { type: 'string' },
  'billing-cycle-anchor': { type: 'string' },
  'events-per-minute': { type: 'string' },
  'events-per-day': { type: 'string' },
  'events-per-month': { type: 'string' },
} as const

export async function run(args: readonly string[], shell: Shell): Promise<number> {
  const [action, ...rest] = args
  switch (action) {
    case 'list':
      return list(rest, shell)
    case 'add':
      return add(rest, shell)
    case 'set':
      return set(rest, shell)
    case 'remove':
      return remove(rest, shell)
    case 'rotate':
      return rotate(rest, shell)
    default:
      throw new UsageError(action === undefined ? 'list, add, set, remove or rotate is missing' : `cannot ${action}`)
  }
}

async function list(args: readonly string[], shell: Shell): Promise<number> {
  const { values: flags } = readFlags(args, { json: { type: 'boolean', default: false } })
  const { records, complaints } = await withAppRecords(readConfig(shell.env), (stored) => stored.list())
  for (const complaint of complaints) await print(shell.stderr, `sluice apps: ${complaint}\n`)
  await print(shell.stdout, flags.json ? `${JSON.stringify({ apps: records }, null, 2)}\n` : formatApps(records))
  return EXIT.ok
}

async function add(args: readonly string[], shell: Shell): Promise<number> {
  const { values: flags } = readFlags(args, {
    ...MEMBER_FLAGS,
    'app-id': { type: 'string' },
    'app-key': { type: 'string' },
  })
  const { 'app-id': appId, 'app-key': appKey, ...members } = flags
  if (appId === undefined) throw new UsageError('--app-id is missing')
  if (members.plan === undefined) throw new UsageError('--plan is missing')
  const key = appKey ?? freshKey(appId)
  const draft = withMembers({ app_key: key, app_id: appId, name: '', plan: '', subscription: 'active' }, members)
  await edit(shell, (records) => [...records, draft])
  await print(shell.stdout, `${key}\n`)
  return EXIT.ok
}

async function set(args: readonly string[], shell: Shell): Promise<number> {
  const { values: flags, positionals } = readFlags(args, MEMBER_FLAGS, ['APP_ID'])
  if (Object.keys(flags).length === 0) throw new UsageError('nothing to set')
  await edit(shell, (records) => changeOne(records, positionals[0], (record) => withMembers(record, flags)))
  return EXIT.ok
}

async function remove(args: readonly string[], shell: Shell): Promise<number> {
  const isByKey = args.some((arg) => arg.startsWith('--app-key'))
  const { values: flags, positionals } = readFlags(args, { 'app-key': { type: 'string' } }, isByKey ? [] : ['APP_ID'])
  const appKey = flags['app-key']
  const choice = appKey === undefined ? { appId: positionals[0] } : { appKey }
  await withAppRecords(readConfig(shell.env), (stored) => stored.remove(choice))
  return EXIT.ok
}

async function rotate(args: readonly string[], shell: Shell): Promise<number> {
  const { positionals } = readFlags(args, {}, ['APP_ID'])
  const appId = positionals[0]
  const key = freshKey(appId)
  await edit(shell, (records) => changeOne(records, appId, (record) => ({ ...record, app_key: key })))
  await print(shell.stdout, `${key}\n`)
  return EXIT.ok
}

async function edit(shell: Shell, change: (records: readonly Draft[]) => readonly Draft[]): Promise<void> {
  await withAppRecords(readConfig(shell.env), (stored) => stored.edit((records) => checked(change(records), records)))
}

/** Replaces one record. */
export function changeOne(
  records: readonly Draft[],
  appId: string,
  change: (record: Draft) => Draft,
): readonly Draft[] {
  if (!records.some((record) => record.app_id === appId)) throw new StartError(`there is no app ${appId}`)
  return records.map((record) => (record.app_id === appId ? change(record) : record))
}

/** Flags onto a record: an empty one removes its member, and figures become numbers where they are ones. */
export function withMembers(record: Draft, flags: Readonly<Record<string, string | undefined>>): Draft {
  const members = Object.entries(flags).map(([flag, text]) => [flag.replaceAll('-', '_'), text] as const)
  const changed = {
    ...record,
    ...Object.fromEntries(members.map(([member, text]) => [member, memberValue(member, text)])),
  }
  return Object.fromEntries(Object.entries(changed).filter(([, value]) => value !== '' && value !== undefined))
}

function memberValue(member: string, text: string | undefined): string | number | undefined {
  return member.startsWith('events_per_') && text !== undefined && /^[0-9]+$/.test(text) ? Number(text) : text
}

/** `present`: records that were read, and need no second look. Throws a StartError with every mistake. */
export function checked(records: readonly Draft[], present: readonly Draft[] = []): readonly AppRecord[] {
  const read = new Set(present)
  const good: AppRecord[] = []
  const mistakes: string[] = []
  const appIds = new Set<string>()
  const appKeys = new Set<string>()
  for (const draft of records) {
    const checkedNow = read.has(draft) ? { kind: 'app' as const, record: draft as AppRecord } : readApp(draft, '')
    if (checkedNow.kind === 'mistakes') {
      mistakes.push(...checkedNow.mistakes)
      continue
    }
    const { record } = checkedNow
    if (appIds.has(record.app_id)) mistakes.push(`app_id: there is an app ${record.app_id} already`)
    if (appKeys.has(record.app_key)) mistakes.push('app_key: another app has this key')
    appIds.add(record.app_id)
    appKeys.add(record.app_key)
    good.push(record)
  }
  if (mistakes.length > 0) {
    throw new StartError(`nothing was changed:\n${mistakes.map((mistake) => `  - ${mistake}`).join('\n')}`)
  }
  return good
}

function freshKey(appId: string): string {
  return `ak_${appId}_${randomBytes(12).toString('hex')}`
}

export function formatApps(records: readonly AppRecord[]): string {
  const rows = records.map((record) => [
    record.app_id,
    record.plan,
    record.subscription,
    figure(record.events_per_minute, PLANS[record.plan].eventsPerMinute),
    figure(record.events_per_day, null),
    figure(record.events_per_month, PLANS[record.plan].eventsPerMonth),
    record.trial_ends_at ?? '',
    record.app_key,
    record.name ?? '',
  ])
  return formatTable([
    ['app', 'plan', 'subscription', 'a minute', 'a day', 'a month', 'trial ends', 'key', 'name'],
    ...rows,
  ])
}

function figure(own: number | undefined, plan: number | null): string {
  const count = own ?? plan
  return count === null ? 'none' : formatCount(count)
}
