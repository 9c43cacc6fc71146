// The actions of `sluice apps` on read keys: one made, those that there are, and an end to one.

import { READ_KEY_NAME } from '../../apps/record-members.ts'
import { StartError } from '../../lib/errors.ts'
import { noSuchApp } from '../../records/app-draft.ts'
import { readKeysOf, shownReadKey, withoutReadKey, withReadKey } from '../../records/app-keys.ts'
import { EXIT, print, readFlags, type Shell, UsageError } from '../shell.ts'
import { answer, formatTable } from '../table.ts'
import { editOne, lifetimeOf, withRecords } from './apps-edit.ts'
import { readKeyProblemText, readKeyText, revokedText } from './apps-text.ts'

export async function makeReadKey(args: readonly string[], shell: Shell): Promise<number> {
  const { values: flags, positionals } = readFlags(args, { name: { type: 'string' }, expires: { type: 'string' } }, [
    'APP_ID',
  ])
  const { name = null, expires } = flags
  if (name !== null && !READ_KEY_NAME.test(name))
    throw new UsageError('--name: must be 1 to 64 letters, digits, _ or -')
  const endsAtMs = expires === undefined ? null : shell.clock() + lifetimeOf(expires)
  const appId = positionals[0]
  let key = ''
  await editOne(shell, appId, (record) => {
    const result = withReadKey(record, { name, endsAtMs })
    if (typeof result === 'string') throw new StartError(readKeyProblemText(appId, result, name ?? ''))
    key = result.key
    return [result.record, readKeyText(appId, result.made)]
  })
  await print(shell.stdout, `${key}\n`)
  return EXIT.ok
}

export async function listReadKeys(args: readonly string[], shell: Shell): Promise<number> {
  const { values: flags, positionals } = readFlags(args, { json: { type: 'boolean', default: false } }, ['APP_ID'])
  const { records } = await withRecords(shell, (stored) => stored.list())
  const record = records.find(({ app_id: appId }) => appId === positionals[0])
  if (record === undefined) throw noSuchApp(positionals[0], records)
  const keys = readKeysOf(record).map(shownReadKey)
  const rows = keys.map((one) => [one.name, one.expires_at ?? 'never', one.last_used_at ?? 'never'])
  await answer(shell, flags.json, { read_keys: keys }, () => formatTable([['name', 'ends', 'last used'], ...rows]))
  return EXIT.ok
}

export async function revokeReadKey(args: readonly string[], shell: Shell): Promise<number> {
  const { positionals } = readFlags(args, {}, ['APP_ID', 'NAME'])
  const [appId, name] = positionals
  await editOne(shell, appId, (record) => {
    const changed = withoutReadKey(record, name)
    if (typeof changed === 'string') throw new StartError(readKeyProblemText(appId, changed, name))
    return [changed, revokedText(appId, name)]
  })
  return EXIT.ok
}
