// Says that the bucket of app records, as it is now, is meant: what `sluice apps import` and `adopt-empty` do at their end.
// Nodes take it up within seconds.

import type { NatsConnection } from '@nats-io/transport-node'
import type { Timers } from '../lib/timers.ts'
import { Bucket } from '../nats/bucket.ts'
import { APPS_BUCKET } from '../nats/store-names.ts'
import { describeStored } from '../nats/stored-state.ts'
import { type InstallationRecord, lossOf, STREAM_OF } from './record.ts'
import { readFromBucket, writeToBucket } from './shared-record.ts'

const MAX_ATTEMPTS = 10

export interface AdoptOptions {
  /** Of the buckets, if they have to be created. */
  readonly replicas: number
  readonly timers: Timers
}

/** Returns the number of entries in the bucket, which is made if there is none. Rejects with why it cannot be done. */
export async function adoptApps(connection: NatsConnection, { replicas, timers }: AdoptOptions): Promise<number> {
  const report = await new Bucket(connection, APPS_BUCKET).ensure(replicas)
  if (report.kind === 'unreadable') throw new Error(`the bucket SLUICE_APPS cannot be used: ${report.reason}`)
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
    const seen = await describeStored(connection, STREAM_OF.apps)
    if (seen === null) throw new Error('the bucket SLUICE_APPS is gone')
    const { record, revision } = await readFromBucket(connection)
    const writtenAtMs = timers.nowMs()
    const generation = Math.max(writtenAtMs, (record?.stores.apps?.generation ?? 0) + 1)
    const adopted = {
      v: 1,
      writtenAtMs,
      partitions: record?.partitions ?? null,
      stores: { ...record?.stores, apps: { ...seen, generation } },
    } as const
    if (await writeToBucket(connection, adopted, { revision, replicas })) return seen.messages
  }
  throw new Error('the bucket SLUICE_COUNTS: other writers came first each time; try again')
}

/**
 * Whether the nodes know another bucket, so that a change of this one would not reach them. `askRedis`: for the copy of the
 * record in Redis, where NATS has none.
 */
export async function isForeign(
  connection: NatsConnection,
  timers: Timers,
  askRedis: () => Promise<InstallationRecord | null>,
): Promise<boolean> {
  const record = (await readFromBucket(connection)).record ?? (await askRedis())
  const known = record?.stores.apps
  if (known === undefined) return false
  const loss = lossOf('apps', known, await describeStored(connection, STREAM_OF.apps), timers.nowMs())
  return loss !== null && loss !== 'shorter'
}
