// Where app records live, for the commands that read and edit them: a file, or Redis.

import { statSync } from 'node:fs'
import { dirname } from 'node:path'
import type { App } from '../admit/app.ts'
import { type AppRecord, readApp } from '../admit/app-record.ts'
import { readAppRecords, writeAppRecords } from '../admit/apps-file-edit.ts'
import {
  describeBad,
  describeNone,
  editAppRecordsInRedis,
  lookUpRecords,
  readAppRecordsInRedis,
  readRecord,
  readStoredRecords,
  type RecordChoice,
  removeAppRecordsInRedis,
} from '../admit/redis-app-records.ts'
import type { Config } from '../config.ts'
import { withEditLock } from '../lib/edit-lock.ts'
import { errorCode, errorMessage, StartError } from '../lib/errors.ts'
import { makeFolder } from '../lib/folder.ts'
import { type CommandRedis, withRedis } from './redis.ts'

/** Makes the new records of the present ones; what it throws ends the edit, and nothing is changed. */
export type Change = (records: readonly AppRecord[]) => readonly AppRecord[]

/** What cannot be read or written throws a StartError. */
export interface AppRecords {
  /** Only where every one can be used. */
  all(): Promise<readonly AppRecord[]>
  /** Those that can be used, and what is to be said of each other one. */
  list(): Promise<{ readonly records: readonly AppRecord[]; readonly complaints: readonly string[] }>
  find(appKey: string): Promise<App | null>
  /** While no other edit comes between: `change` is called again where one did. */
  edit(change: Change): Promise<void>
  /** Takes away one that cannot be used as well. */
  remove(choice: RecordChoice): Promise<void>
}

/** What is said of an edit that Redis did not answer. */
const UNSURE = '; the change may have been made or not: sluice apps list tells'

type Place = Pick<Config, 'appsFile' | 'appsFileNamed' | 'redisUrl'>

export function withAppRecords<T>(place: Place, use: (records: AppRecords) => Promise<T>): Promise<T> {
  if (place.appsFile !== null) return use(recordsInFile(place.appsFile, place))
  if (place.redisUrl === null) throw new Error('app records live in a file where there is no Redis')
  return withRedis(place.redisUrl, (redis) => use(recordsInRedis(redis)))
}

export function recordsInFile(path: string, { appsFileNamed }: Pick<Config, 'appsFileNamed'>): AppRecords {
  const all = (): readonly AppRecord[] => readRecordsFile(path, appsFileNamed)
  return {
    all: async () => all(),
    list: async () => ({ records: all(), complaints: [] }),
    find: async (appKey) => appsOf(all()).find((app) => app.appKey === appKey) ?? null,
    edit: (change) => editFile(path, change),
    remove: (choice) =>
      editFile(path, (records) => {
        const kept = records.filter((record) =>
          'appId' in choice ? record.app_id !== choice.appId : record.app_key !== choice.appKey,
        )
        if (kept.length === records.length) throw new StartError(describeNone(choice))
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

export function recordsInRedis(redis: CommandRedis): AppRecords {
  return {
    all: () => redis.ask((link) => usable(readAppRecordsInRedis(link))),
    list: async () => {
      const { records, bad } = await redis.ask((link) => usable(readStoredRecords(link)))
      return { records, complaints: bad.map(describeBad) }
    },
    find: async (appKey) => {
      const { texts } = await redis.ask((link) => lookUpRecords(link, [appKey]))
      const [text] = texts
      if (text === null) return null
      const read = readRecord(appKey, text)
      if (read.kind === 'app') return read.app
      throw new StartError(describeBad(read.bad))
    },
    edit: async (change) => {
      await redis.ask((link) => usable(editAppRecordsInRedis(link, change)), UNSURE)
    },
    remove: async (choice) => {
      await redis.ask((link) => usable(removeAppRecordsInRedis(link, choice)), UNSURE)
    },
  }
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
