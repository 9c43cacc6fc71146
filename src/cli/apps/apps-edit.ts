// How the actions of `sluice apps` reach the records, each edit checking all of them; and the times that they take, such as 30d,
// 12h or 0.

import { changeOne, checked, type Draft } from '../../records/app-draft.ts'
import { spanMsOf } from '../../records/app-keys.ts'
import { type AppRecords, withAppRecords } from '../../records/app-records.ts'
import { readConfig } from '../../settings/config.ts'
import { type Shell, say, UsageError } from '../shell.ts'

export async function edit(shell: Shell, change: (records: readonly Draft[]) => readonly Draft[]): Promise<void> {
  await withRecords(shell, (stored) => stored.edit((records) => checked(change(records), records)))
}

/** `change` returns the record as it is to be, and the sentence that says what was done. */
export async function editOne(
  shell: Shell,
  appId: string,
  change: (record: Draft) => readonly [record: Draft, done: string],
): Promise<void> {
  let sentence = ''
  await edit(shell, (records) =>
    changeOne(records, appId, (record) => {
      const [changed, done] = change(record)
      sentence = done
      return changed
    }),
  )
  await say(shell, sentence)
}

export function withRecords<T>(shell: Shell, use: (stored: AppRecords) => Promise<T>): Promise<T> {
  return withAppRecords(readConfig(shell.env), shell.clock, use)
}

export function overlapOf(text: string): number {
  const ms = spanMsOf(text)
  if (ms !== null) return ms
  throw new UsageError('--overlap: must be a number of days or hours, such as 30d or 12h, at most 3650d, or 0')
}

/** Of a read key. */
export function lifetimeOf(text: string): number {
  const ms = spanMsOf(text)
  if (ms !== null && ms > 0) return ms
  throw new UsageError('--expires: must be a number of days or hours, such as 90d or 12h, at most 3650d')
}
