// How the actions of `sluice apps` reach the records: each edit checks all of them.

import { checked, type Draft } from '../../records/app-draft.ts'
import { type AppRecords, withAppRecords } from '../../records/app-records.ts'
import { readConfig } from '../../settings/config.ts'
import type { Shell } from '../shell.ts'

export async function edit(shell: Shell, change: (records: readonly Draft[]) => readonly Draft[]): Promise<void> {
  await withRecords(shell, (stored) => stored.edit((records) => checked(change(records), records)))
}

export function withRecords<T>(shell: Shell, use: (stored: AppRecords) => Promise<T>): Promise<T> {
  return withAppRecords(readConfig(shell.env), shell.clock, use)
}
