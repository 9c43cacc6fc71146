// `sluice apps`: lists and edits the app records, in a file or in the bucket in NATS. An edit checks all records and is
// atomic; running services load it by themselves.

import type { AppRecord } from '../../apps/app-record.ts'
import { PLANS } from '../../apps/plans.ts'
import { StartError } from '../../lib/errors.ts'
import { didYouMean } from '../../lib/near.ts'
import { type Draft, noSuchApp, withMembers } from '../../records/app-draft.ts'
import { freshKey, rotated, shownReadKey } from '../../records/app-keys.ts'
import type { AppRecords } from '../../records/app-records.ts'
import { readConfig } from '../../settings/config.ts'
import { EXIT, isConfirmed, print, readFlags, type Shell, say, UsageError } from '../shell.ts'
import { answer, formatCount, formatTable } from '../table.ts'
import { monthText } from '../windows.ts'
import { edit, editOne, overlapOf, withRecords } from './apps-edit.ts'
import { exportApps, importApps } from './apps-move.ts'
import { listReadKeys, makeReadKey, revokeReadKey } from './apps-read-keys.ts'
import { addedText, adoptedText, changedText, removedText, removeQuestion, rotatedText } from './apps-text.ts'

export const help = `Usage: sluice apps list [--json]
       sluice apps add APP_ID --plan PLAN [MEMBERS]  prints the new app's key
       sluice apps set APP_ID MEMBERS                an empty value removes a member
       sluice apps remove APP_ID [--yes]             a record that cannot be used, too
       sluice apps rotate APP_ID [--overlap TIME]    a new key, printed; older ones stay valid for TIME
       sluice apps read-key APP_ID [--name NAME] [--expires TIME]  a key that only reads, printed
       sluice apps read-keys APP_ID [--json]         those that it has, without the keys
       sluice apps revoke-key APP_ID NAME            an end to one
       sluice apps export FILE                       all records as one JSON file; '-': to stdout
       sluice apps import FILE [--replace-all] [--dry-run]
       sluice apps adopt-empty                       the bucket as it is now is meant, empty or not

Reads and edits the file SLUICE_APPS_FILE (default: SLUICE_DATA_DIR/apps.json). With REDIS_URL and
NATS_URL set and SLUICE_APPS_FILE unset, app records live in the bucket SLUICE_APPS of NATS instead. Every
running service takes a change up within a second, and edits at the same time do not undo each other.

A command that changes something says on stderr what it did; stdout holds the new key of add, rotate and read-key, and
nothing else.
remove asks first; --yes answers for you, and is needed where there is no terminal.

rotate: --overlap is a number of days or hours, such as 30d (the default) or 12h; no older key of the app is valid
for longer than that from now on, and with 0 all of them stop at once. At most 4 older keys are kept.

read-key: with this key the app's own developers read its figures on the portal (SLUICE_PORTAL_PORT), and nothing else. Only
a hash of it is kept. --expires is a number of days or hours, such as 90d; without it the key has no end. An app may have 8.

import adds the records of FILE and replaces those with the same app_id; the others stay, unless --replace-all
removes them. FILE is checked whole before anything is written, and what changes is printed; with --dry-run
nothing is written, and what would change is printed to stdout. An import that is cut short may be repeated.

Where NATS has lost the bucket, running nodes go on with the records that they know, and a node that starts answers
503 rather than 401, on which clients throw events away. import ends that, and so does adopt-empty, which makes the
bucket if there is none: apps that are not in it are then unknown to every node that starts.

Members:
  --plan PLAN                  ${Object.keys(PLANS).join(', ')}
  --subscription STATE         trialing, active (what add takes if none is given), past_due, canceled, unpaid, paused
  --name NAME
  --app-id ID                  with add, in place of APP_ID
  --app-key KEY                with add; if none is given, one is made up
  --trial-ends-at TIME         such as 2026-12-31T00:00:00Z
  --billing-cycle-anchor TIME  the billing cycle begins then and every month after
  --events-per-minute N        in place of the plan's figure
  --events-per-month N         in place of the plan's figure; a paid plan may go 10% over it, the trial may not
  --events-per-day N           without it there is no daily limit
  --bytes-per-minute N         of what is stored; without it 4,096 for each event of its minute, at least 2,097,152.
                               Each node lets an app store at least 1,048,576
  --origins LIST               web pages that may send with its keys, such as https://app.example.com, with commas; none: no
                               page; without it this is not checked
  --alerts LIST                percent of day and month at which alerts are raised, multiples of 10 with commas; none: never;
                               without it 50,80,100

Exit code: 0 done, 1 refused, 2 for a wrong command line.

Example:
  sluice apps add shop --plan 100k --events-per-day 20000
`

const MEMBER_FLAGS = {
  name: { type: 'string' },
  plan: { type: 'string' },
  subscription: { type: 'string' },
  'trial-ends-at': { type: 'string' },
  'billing-cycle-anchor': { type: 'string' },
  'events-per-minute': { type: 'string' },
  'events-per-day': { type: 'string' },
  'events-per-month': { type: 'string' },
  'bytes-per-minute': { type: 'string' },
  origins: { type: 'string' },
  alerts: { type: 'string' },
} as const

type Action = (args: readonly string[], shell: Shell) => Promise<number>

const ACTIONS: ReadonlyMap<string, Action> = new Map([
  ['list', list],
  ['add', add],
  ['set', set],
  ['remove', remove],
  ['rotate', rotate],
  ['read-key', makeReadKey],
  ['read-keys', listReadKeys],
  ['revoke-key', revokeReadKey],
  ['export', exportTo],
  ['import', importFrom],
  ['adopt-empty', adoptEmpty],
])

export async function run(args: readonly string[], shell: Shell): Promise<number> {
  const [action, ...rest] = args
  const names = [...ACTIONS.keys()]
  if (action === undefined) throw new UsageError(`one of ${names.join(', ')} is missing`)
  const act = ACTIONS.get(action)
  if (act !== undefined) return await act(rest, shell)
  throw new UsageError(
    `unknown action "${action}"${didYouMean(action, names) || `; the actions are ${names.join(', ')}`}`,
  )
}

async function list(args: readonly string[], shell: Shell): Promise<number> {
  const { values: flags } = readFlags(args, { json: { type: 'boolean', default: false } })
  const { records, complaints } = await withRecords(shell, (stored) => stored.list())
  for (const complaint of complaints) await say(shell, `sluice apps: ${complaint}\n`)
  await answer(shell, flags.json, { apps: records.map(withoutHashes) }, () => formatApps(records))
  return EXIT.ok
}

async function add(args: readonly string[], shell: Shell): Promise<number> {
  const { values: flags, positionals } = readFlags(
    args,
    { ...MEMBER_FLAGS, 'app-id': { type: 'string' }, 'app-key': { type: 'string' } },
    args.some((arg) => /^--app-id(=|$)/.test(arg)) ? [] : ['APP_ID'],
  )
  const { 'app-id': appId = positionals[0], 'app-key': appKey, ...members } = flags
  if (members.plan === undefined) throw new UsageError('--plan is missing')
  const key = appKey ?? freshKey(appId)
  const draft = withMembers({ app_key: key, app_id: appId, name: '', plan: '', subscription: 'active' }, members)
  await edit(shell, (records) => [...records, draft])
  await say(shell, addedText(draft))
  await print(shell.stdout, `${key}\n`)
  return EXIT.ok
}

async function set(args: readonly string[], shell: Shell): Promise<number> {
  const { values: flags, positionals } = readFlags(args, MEMBER_FLAGS, ['APP_ID'])
  if (Object.keys(flags).length === 0) throw new UsageError('nothing to set')
  await editOne(shell, positionals[0], (record) => {
    const changed = withMembers(record, flags)
    return [changed, changedText(record, changed)]
  })
  return EXIT.ok
}

async function remove(args: readonly string[], shell: Shell): Promise<number> {
  const { values: flags, positionals } = readFlags(args, { yes: { type: 'boolean', default: false } }, ['APP_ID'])
  const appId = positionals[0]
  if (!flags.yes && !shell.interactive) {
    throw new UsageError('remove asks first, and there is no terminal to ask on: add --yes')
  }
  return await withRecords(shell, async (stored) => {
    if (!flags.yes && !(await isRemovalConfirmed(stored, appId, shell))) {
      await say(shell, `app ${appId}: not removed\n`)
      return EXIT.failed
    }
    await stored.remove(appId)
    await say(shell, removedText(appId))
    return EXIT.ok
  })
}

async function isRemovalConfirmed(stored: AppRecords, appId: string, shell: Shell): Promise<boolean> {
  const { records, complaints } = await stored.list()
  const record = records.find((each) => each.app_id === appId)
  // A record that cannot be used is among the complaints, and may be removed too.
  if (record === undefined && complaints.length === 0) throw noSuchApp(appId, records)
  return await isConfirmed(removeQuestion(appId, record), shell)
}

async function rotate(args: readonly string[], shell: Shell): Promise<number> {
  const { values: flags, positionals } = readFlags(args, { overlap: { type: 'string', default: '30d' } }, ['APP_ID'])
  const overlapMs = overlapOf(flags.overlap)
  const appId = positionals[0]
  const key = freshKey(appId)
  const nowMs = shell.clock()
  await editOne(shell, appId, (record) => {
    const { record: changed, ...rotation } = rotated(record, { key, overlapMs, nowMs })
    return [changed, rotatedText(appId, rotation)]
  })
  await print(shell.stdout, `${key}\n`)
  return EXIT.ok
}

/** A list is no backup: it shows of read keys what `read-keys` does. */
function withoutHashes(record: AppRecord): Draft {
  return record.read_keys === undefined ? record : { ...record, read_keys: record.read_keys.map(shownReadKey) }
}

async function exportTo(args: readonly string[], shell: Shell): Promise<number> {
  const { positionals } = readFlags(args, {}, ['FILE'])
  return await withRecords(shell, (stored) => exportApps(stored, positionals[0], shell))
}

async function importFrom(args: readonly string[], shell: Shell): Promise<number> {
  const { values: flags, positionals } = readFlags(
    args,
    { 'replace-all': { type: 'boolean', default: false }, 'dry-run': { type: 'boolean', default: false } },
    ['FILE'],
  )
  const wanted = { file: positionals[0], replaceAll: flags['replace-all'], dryRun: flags['dry-run'] }
  return await withRecords(shell, (stored) => importApps(stored, wanted, shell))
}

async function adoptEmpty(args: readonly string[], shell: Shell): Promise<number> {
  readFlags(args, {})
  if (readConfig(shell.env).appsFile !== null)
    throw new StartError('app records are in a file here: there is no bucket to adopt')
  const count = await withRecords(shell, (stored) => stored.adopt())
  await say(shell, adoptedText(count))
  return EXIT.ok
}

export function formatApps(records: readonly AppRecord[]): string {
  const rows = records.map((record) => [
    record.app_id,
    record.plan,
    record.subscription,
    figure(record.events_per_minute, PLANS[record.plan].eventsPerMinute),
    figure(record.events_per_day, null),
    monthText(record.plan, record.events_per_month ?? PLANS[record.plan].eventsPerMonth),
    record.trial_ends_at ?? '',
    record.app_key,
    (record.previous_keys ?? []).map(({ app_key: key, valid_until: until }) => `${key} until ${until}`).join(', '),
    record.name ?? '',
  ])
  return formatTable([
    ['app', 'plan', 'subscription', 'a minute', 'a day', 'a month', 'trial ends', 'key', 'older keys', 'name'],
    ...rows,
  ])
}

function figure(own: number | undefined, plan: number | null): string {
  const count = own ?? plan
  return count === null ? 'none' : formatCount(count)
}
