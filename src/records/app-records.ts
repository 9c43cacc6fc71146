// Access to the app records for the commands, in a file or in the bucket in NATS.

import { statSync } from 'node:fs'
import { dirname } from 'node:path'
import { type App, isValidKey } from '../apps/app.ts'
import { type AppRecord, readApp } from '../apps/app-record.ts'
import type { BucketEdit } from '../apps/bucket/bucket-edit.ts'
import { readAppRecords, writeAppRecords } from '../apps/file/apps-file-edit.ts'
import type { Clock } from '../lib/clock.ts'
import { withEditLock } from '../lib/edit-lock.ts'
import { errorCode, orStartError, StartError, throwStartError } from '../lib/errors.ts'
import { makeFolder } from '../lib/folder.ts'
import type { Config } from '../settings/config.ts'
import { noSuchApp } from './app-draft.ts'

/** Returns the new records. Where it throws, nothing is changed. */
export type Change = (records: readonly AppRecord[]) => readonly AppRecord[]

/** Every method throws a StartError for what cannot be read or written. */
export interface AppRecords {
  /** The path of the file or the name of the bucket, for output. */
  readonly place: string
  /** The valid records, and a complaint about each other one. */
  list(): Promise<{ readonly records: readonly AppRecord[]; readonly complaints: readonly string[] }>
  find(appKey: string): Promise<App | 'unknown'>
  /** Calls `change` again where another edit came between. */
  edit(change: Change, options?: Pick<BucketEdit, 'replaceBad'>): Promise<void>
  /** One record; undefined: there is none that is valid. */
  one(appId: string): Promise<AppRecord | undefined>
  /**
   * Edits one record without a reading of the others. `change` returns the next one, null to remove it, or `same`; it is called
   * again where another edit came between.
   */
  editOne(appId: string, change: (record: AppRecord | undefined) => AppRecord | null | 'same'): Promise<void>
  /** Removes an invalid record too. */
  remove(appId: string): Promise<void>
  /** Says that what is there now is meant, also where NATS lost what was there. Returns the number of entries. */
  adopt(): Promise<number>
}

export type Place = Pick<Config, 'appsFile' | 'appsFileNamed' | 'nats' | 'redis' | 'stream'>

export async function withAppRecords<T>(
  place: Place,
  clock: Clock,
  use: (records: AppRecords) => Promise<T>,
): Promise<T> {
  if (place.appsFile !== null) return await use(recordsInFile(place.appsFile, place, clock))
  if (place.nats === null) throw new Error('app records live in a file where there is no NATS')
  // Loads the clients of NATS and Redis, which a command on one machine does not need.
  const { withBucketRecords } = await import('./bucket-records.ts')
  return await withBucketRecords(place.nats, place, clock, use)
}

function recordsInFile(path: string, { appsFileNamed }: Pick<Config, 'appsFileNamed'>, clock: Clock): AppRecords {
  const all = (): readonly AppRecord[] => readRecordsFile(path, appsFileNamed)
  return {
    place: path,
    list: async () => ({ records: all(), complaints: [] }),
    find: async (appKey) => findApp(appsOf(all()), appKey, clock()),
    edit: (change) => editFile(path, change),
    one: async (appId) => all().find((record) => record.app_id === appId),
    editOne: (appId, change) =>
      editFile(path, (records) => {
        const present = records.find((record) => record.app_id === appId)
        const next = change(present)
        if (next === 'same') return records
        if (next === null) return records.filter((record) => record !== present)
        return present === undefined ? [...records, next] : records.map((one) => (one === present ? next : one))
      }),
    remove: (appId) =>
      editFile(path, (records) => {
        const kept = records.filter((record) => record.app_id !== appId)
        if (kept.length === records.length) throw noSuchApp(appId, records)
        return kept
      }),
    adopt: async () => all().length,
  }
}

async function editFile(path: string, change: Change): Promise<void> {
  await makeFolder(dirname(path)).catch((error) => throwStartError(error, `cannot make the folder of ${path}: `))
  await withEditLock(path, (confirm) => {
    const records = isMissing(path) ? [] : load(path)
    const changed = change(records)
    if (changed !== records) orStartError(() => writeAppRecords(path, changed, confirm), `cannot write ${path}: `)
  })
}

/** By the current key, or an older one that is still valid. */
export function findApp(apps: readonly App[], appKey: string, nowMs: number): App | 'unknown' {
  return apps.find((app) => isValidKey(app, appKey, nowMs)) ?? 'unknown'
}

export function appsOf(records: readonly AppRecord[]): App[] {
  return records.flatMap((record) => {
    const read = readApp(record, '')
    return read.kind === 'app' ? [read.app] : []
  })
}

/** true only for ENOENT: after any other error, reading the file gives the reason. */
export function isMissing(path: string): boolean {
  try {
    statSync(path)
    return false
  } catch (error) {
    return errorCode(error) === 'ENOENT'
  }
}

/** Throws a StartError for a missing or invalid file. */
export function readRecordsFile(path: string, isNamed: boolean): readonly AppRecord[] {
  if (!isMissing(path)) return load(path)
  const makers = isNamed
    ? ', which SLUICE_APPS_FILE names; sluice apps add makes one there'
    : ': SLUICE_DATA_DIR names the folder that it is in; sluice apps add makes one there, and so does the first start'
  throw new StartError(`there is no app file ${path}${makers}`)
}

function load(path: string): readonly AppRecord[] {
  return orStartError(() => readAppRecords(path))
}
