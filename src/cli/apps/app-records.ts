// Where app records live, for the commands that read and edit them: a file, or the bucket in NATS.

import { statSync } from 'node:fs'
import { dirname } from 'node:path'
import { type App, isValidKey } from '../../apps/app.ts'
import { type AppRecord, readApp } from '../../apps/app-record.ts'
import { readEntry } from '../../apps/bucket/app-entries.ts'
import { APPS_BUCKET, describeBadEntry } from '../../apps/bucket/bucket-apps.ts'
import { type BucketEdit, editRecords, readRecords, removeEntry } from '../../apps/bucket/bucket-edit.ts'
import { readAppRecords, writeAppRecords } from '../../apps/file/apps-file-edit.ts'
import type { Clock } from '../../lib/clock.ts'
import { withEditLock } from '../../lib/edit-lock.ts'
import { errorCode, errorMessage, StartError } from '../../lib/errors.ts'
import { makeFolder } from '../../lib/folder.ts'
import { systemTimers } from '../../lib/timers.ts'
import { Bucket } from '../../nats/bucket.ts'
import { connectNats } from '../../nats/connection.ts'
import type { Config } from '../../settings/config.ts'

/** Makes the new records of the present ones; what it throws ends the edit, and nothing is changed. */
export type Change = (records: readonly AppRecord[]) => readonly AppRecord[]

/** What cannot be read or written throws a StartError. */
export interface AppRecords {
  /** Where they are, for whoever reads what was done. */
  readonly place: string
  /** Those that can be used, and what is to be said of each other one. */
  list(): Promise<{ readonly records: readonly AppRecord[]; readonly complaints: readonly string[] }>
  find(appKey: string): Promise<App | null>
  /** While no other edit comes between: `change` is called again where one did. */
  edit(change: Change, options?: Pick<BucketEdit, 'replaceBad'>): Promise<void>
  /** Takes away one that cannot be used as well. */
  remove(appId: string): Promise<void>
}

type Place = Pick<Config, 'appsFile' | 'appsFileNamed' | 'natsUrl' | 'stream'>

export async function withAppRecords<T>(
  place: Place,
  clock: Clock,
  use: (records: AppRecords) => Promise<T>,
): Promise<T> {
  if (place.appsFile !== null) return await use(recordsInFile(place.appsFile, place, clock))
  if (place.natsUrl === null) throw new Error('app records live in a file where there is no NATS')
  const connection = await usable(connectNats(place.natsUrl))
  try {
    return await use(recordsInBucket(new Bucket(connection, APPS_BUCKET), place.stream.replicas, clock))
  } finally {
    await connection.close()
  }
}

function recordsInFile(path: string, { appsFileNamed }: Pick<Config, 'appsFileNamed'>, clock: Clock): AppRecords {
  const all = (): readonly AppRecord[] => readRecordsFile(path, appsFileNamed)
  return {
    place: path,
    list: async () => ({ records: all(), complaints: [] }),
    find: async (appKey) => findApp(appsOf(all()), appKey, clock()),
    edit: (change) => editFile(path, change),
    remove: (appId) =>
      editFile(path, (records) => {
        const kept = records.filter((record) => record.app_id !== appId)
        if (kept.length === records.length) throw new StartError(`there is no app ${appId}`)
        return kept
      }),
  }
}

async function editFile(path: string, change: Change): Promise<void> {
  try {
    makeFolder(dirname(path))
  } catch (error) {
    throw new StartError(`cannot make the folder of ${path}: ${errorMessage(error)}`)
  }
  await withEditLock(path, async () => {
    const changed = change(isMissing(path) ? [] : load(path))
    try {
      writeAppRecords(path, changed)
    } catch (error) {
      throw new StartError(`cannot write ${path}: ${errorMessage(error)}`)
    }
  })
}

function recordsInBucket(bucket: Bucket, replicas: number, clock: Clock): AppRecords {
  const edit = { timers: systemTimers, replicas }
  const read = () => usable(readRecords(bucket, systemTimers))
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
      return null
    },
    edit: (change, options) => usable(editRecords(bucket, change, { ...edit, ...options })),
    remove: (appId) => usable(removeEntry(bucket, appId, edit)),
  }
}

/** By any of its keys that is valid. */
export function findApp(apps: readonly App[], appKey: string, nowMs: number): App | null {
  return apps.find((app) => isValidKey(app, appKey, nowMs)) ?? null
}

export function appsOf(records: readonly AppRecord[]): App[] {
  return records.flatMap((record) => {
    const read = readApp(record, '')
    return read.kind === 'app' ? [read.app] : []
  })
}

/** Only where it is known to be missing: a file that may not be looked at is there, and reading it says why. */
export function isMissing(path: string): boolean {
  try {
    statSync(path)
    return false
  } catch (error) {
    return errorCode(error) === 'ENOENT'
  }
}

/** A missing or bad file is for the operator to mend. */
export function readRecordsFile(path: string, isNamed: boolean): readonly AppRecord[] {
  if (!isMissing(path)) return load(path)
  const makers = isNamed ? 'sluice apps add makes one' : 'sluice apps add makes one, and so does the first start'
  throw new StartError(`there is no app file ${path}: ${makers}`)
}

function load(path: string): readonly AppRecord[] {
  try {
    return readAppRecords(path)
  } catch (error) {
    throw new StartError(errorMessage(error))
  }
}

/** Records that cannot be used are for the operator to mend too. */
async function usable<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer
  } catch (error) {
    throw error instanceof StartError ? error : new StartError(errorMessage(error))
  }
}
