// App records that an operator edits: applies the changes, and checks all records together.

import { type AppRecord, readApp, recordKeys } from '../apps/app-record.ts'
import { StartError } from '../lib/errors.ts'
import { didYouMean } from '../lib/near.ts'

/** A record that was not checked yet, so its members may be anything. */
export type Draft = Readonly<Partial<Record<keyof AppRecord, unknown>>>

/** Replaces one record. */
export function changeOne(
  records: readonly Draft[],
  appId: string,
  change: (record: Draft) => Draft,
): readonly Draft[] {
  if (!records.some((record) => record.app_id === appId)) throw noSuchApp(appId, records)
  return records.map((record) => (record.app_id === appId ? change(record) : record))
}

export function noSuchApp(appId: string, records: readonly Draft[]): StartError {
  const known = records.map((record) => String(record.app_id))
  return new StartError(`there is no app ${appId}${didYouMean(appId, known)}`)
}

/** Sets members from flags. An empty flag removes its member; limits and steps become numbers where they are digits, and lists arrays. */
export function withMembers(record: Draft, flags: Readonly<Record<string, string | undefined>>): Draft {
  const members = Object.entries(flags).map(([flag, text]) => [flag.replaceAll('-', '_'), text] as const)
  const changed = {
    ...record,
    ...Object.fromEntries(members.map(([member, text]) => [member, memberValue(member, text)])),
  }
  return Object.fromEntries(Object.entries(changed).filter(([, value]) => value !== '' && value !== undefined))
}

function memberValue(
  member: string,
  text: string | undefined,
): string | number | readonly (string | number)[] | undefined {
  if ((member === 'alerts' || member === 'origins') && text !== undefined && text !== '') {
    const listed = text === 'none' ? [] : text.split(',')
    return member === 'alerts' ? listed.map(Number) : listed.map((one) => one.trim())
  }
  const isFigure = /_per_(?:minute|day|month)$/.test(member)
  return isFigure && text !== undefined && /^[0-9]+$/.test(text) ? Number(text) : text
}

/** `present`: records that were checked when they were read. Throws a StartError that lists every mistake. */
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
    const keys = recordKeys(record)
    if (keys.some((key) => appKeys.has(key))) mistakes.push('app_key: another app has this key')
    appIds.add(record.app_id)
    for (const key of keys) appKeys.add(key)
    good.push(record)
  }
  if (mistakes.length > 0) {
    throw new StartError(`nothing was changed:\n${mistakes.map((mistake) => `  - ${mistake}`).join('\n')}`)
  }
  return good
}

/** The keys of the draft that other apps have, be they older ones. */
export function takenIn(draft: Draft, others: readonly AppRecord[]): readonly string[] {
  const keys = new Set(others.flatMap(recordKeys))
  return recordKeys(draft).filter((key) => keys.has(key))
}

export function describeTaken(draft: Draft, key: string): string {
  return `${key === draft.app_key ? 'app_key' : 'previous_keys'}: another app has this key`
}

/** Of one record; null: none. */
export function mistakeIn(draft: Draft): string | null {
  const read = readApp(draft, '')
  return read.kind === 'mistakes' ? read.mistakes[0] : null
}
