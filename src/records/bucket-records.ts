// The app records in the bucket in NATS.

import { readEntry } from '../apps/app-index.ts'
import type { AppRecord } from '../apps/app-record.ts'
import { describeBadEntry } from '../apps/bucket/bucket-apps.ts'
import { describeNoRecord, editEntry, editRecords, readRecords, removeEntry } from '../apps/bucket/bucket-edit.ts'
import { adoptApps, isForeign } from '../installation/adopt-apps.ts'
import type { InstallationRecord } from '../installation/record.ts'
import { readFromRedis } from '../installation/shared-record.ts'
import type { Clock } from '../lib/clock.ts'
import { errorMessage, StartError, throwStartError } from '../lib/errors.ts'
import { systemTimers } from '../lib/timers.ts'
import type { NatsAccess } from '../nats/address.ts'
import { Bucket, type StoredEntry } from '../nats/bucket.ts'
import { connectNats } from '../nats/connection.ts'
import { APPS_BUCKET } from '../nats/store-names.ts'
import type { Config } from '../settings/config.ts'
import type { AppRecords, Place } from './app-records.ts'
import { withRedis } from './redis.ts'

export const FOREIGN = `NATS has lost the bucket ${APPS_BUCKET} that the nodes know, and they do not use this one: bring the records back with sluice apps import first, or say sluice apps adopt-empty`

/** NATS cannot be reached, or does not give the records. */
export class RecordsAway extends StartError {}

function throwAway(error: unknown): never {
  throw error instanceof StartError ? error : new RecordsAway(errorMessage(error))
}

export async function withBucketRecords<T>(
  nats: NatsAccess,
  place: Place,
  clock: Clock,
  use: (records: AppRecords) => Promise<T>,
): Promise<T> {
  const connection = await connectNats(nats).catch(throwAway)
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

function recordsInBucket(bucket: Bucket, place: Place, clock: Clock): AppRecords {
  const edit = { timers: systemTimers, replicas: place.stream.replicas }
  const read = () => readRecords(bucket, systemTimers).catch(throwAway)
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
      const changeEntry = (entry: StoredEntry | null): string | null | undefined => {
        const present = recordIn(entry)
        const next = change(present)
        if (next === 'same') return undefined
        if (present === undefined && entry !== null) throw new StartError(describeNoRecord(appId))
        return next === null ? null : JSON.stringify(next)
      }
      await editEntry(bucket, appId, changeEntry, edit).catch(throwStartError)
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
