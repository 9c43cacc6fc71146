// Access to the app records for the commands, in a file or in the bucket in NATS.

import { statSync } from 'node:fs'
import { dirname } from 'node:path'
import { type App, isValidKey } from '../apps/app.ts'
import { type AppRecord, readApp } from '../apps/app-record.ts'
import { readEntry } from '../apps/bucket/app-entries.ts'
import { describeBadEntry } from '../apps/bucket/bucket-apps.ts'
import { type BucketEdit, describeNoRecord, editRecords, readRecords, removeEntry } from '../apps/bucket/bucket-edit.ts'
import { readAppRecords, writeAppRecords } from '../apps/file/apps-file-edit.ts'
import { adoptApps, isForeign } from '../installation/adopt-apps.ts'
import type { InstallationRecord } from '../installation/record.ts'
import { readFromRedis } from '../installation/shared-record.ts'
import type { Clock } from '../lib/clock.ts'
import { withEditLock } from '../lib/edit-lock.ts'
import { errorCode, orStartError, StartError, throwStartError } from '../lib/errors.ts'
import { makeFolder } from '../lib/folder.ts'
import { systemTimers } from '../lib/timers.ts'
import { Bucket, type StoredEntry } from '../nats/bucket.ts'
import { connectNats } from '../nats/connection.ts'
import { APPS_BUCKET } from '../nats/store-names.ts'
import type { Config } from '../settings/config.ts'
import { noSuchApp } from './app-draft.ts'
import { withRedis } from './redis.ts'

export const FOREIGN = `NATS has lost the bucket ${APPS_BUCKET} that the nodes know, and they do not use this one: bring the records back with sluice apps import first, or say sluice apps adopt-empty`

/** Of an edit of one record, against others of it. */
const MAX_ATTEMPTS = 20

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

type Place = Pick<Config, 'appsFile' | 'appsFileNamed' | 'nats' | 'redis' | 'stream'>

export async function withAppRecords<T>(
  place: Place,
  clock: Clock,
  use: (records: AppRecords) => Promise<T>,
): Promise<T> {
  if (place.appsFile !== null) return await use(recordsInFile(place.appsFile, place, clock))
  if (place.nats === null) throw new Error('app records live in a file where there is no NATS')
  const connection = await connectNats(place.nats).catch(throwStartError)
  try {
    return await use(recordsInBucket(new Bucket(connection, APPS_BUCKET), place, clock))
  } finally {
    await connection.close()
  }
}

/** Whether the nodes know another bucket of app records than this one. */
export async function isForeignBucket(bucket: Bucket, { redis }: Pick<Config, 'redis'>): Promise<boolean> {
  const askRedis = async (): Promise<InstallationRecord | null> => {
    return redis === null ? null : await withRedis(redis, (known) => known.ask(readFromRedis)).catch(() => null)
  }
  return await isForeign(bucket.connection, systemTimers, askRedis).catch(() => false)
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

function recordsInBucket(bucket: Bucket, place: Place, clock: Clock): AppRecords {
  const edit = { timers: systemTimers, replicas: place.stream.replicas }
  const read = () => readRecords(bucket, systemTimers).catch(throwStartError)
  return {
    place: APPS_BUCKET,
    list: read,
    find: async (appKey) => {
      const { apps, entries } = await read()
      const found = apps.find(appKey, clock())
      if (found !== 'unknown') return found
      const keyText = JSON.stringify(appKey)
      for (const { key, text } of entries.values()) {
        const bad = text?.includes(keyText) === true ? readEntry(key, text) : null
        if (bad?.kind === 'mistakes') throw new StartError(describeBadEntry(key, bad.mistakes))
      }
      return 'unknown'
    },
    one: async (appId) => recordIn(await bucket.read(appId).catch(throwStartError)),
    editOne: async (appId, change) => {
      if (await isForeignBucket(bucket, place)) throw new StartError(FOREIGN)
      const report = await bucket.ensure(edit.replicas)
      if (report.kind === 'unreadable')
        throw new StartError(`the bucket ${APPS_BUCKET} cannot be used: ${report.reason}`)
      for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
        const entry = await bucket.read(appId).catch(throwStartError)
        const present = recordIn(entry)
        const next = change(present)
        if (next === 'same') return
        if (present === undefined && entry?.text != null) throw new StartError(describeNoRecord(appId))
        const text = next === null ? null : JSON.stringify(next)
        const at = { revision: entry?.revision ?? 0, timers: systemTimers }
        const written = await bucket.writeOnceLed(appId, text, at).catch(throwStartError)
        if (written === 'done') return
      }
      throw new StartError(`${APPS_BUCKET}: other edits came first each time; try again`)
    },
    edit: async (change, options) => {
      // An import adopts it at its end.
      const isImport = options?.replaceBad === true
      if (!isImport && (await isForeignBucket(bucket, place))) throw new StartError(FOREIGN)
      await editRecords(bucket, change, { ...edit, ...options }).catch(throwStartError)
    },
    remove: (appId) => removeEntry(bucket, appId, edit).catch(throwStartError),
    adopt: () => adoptApps(bucket.connection, edit).catch(throwStartError),
  }
}

function recordIn(entry: StoredEntry | null): AppRecord | undefined {
  const read = entry?.text == null ? null : readEntry(entry.key, entry.text)
  return read?.kind === 'app' ? read.record : undefined
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
