// The record of what was there, as all nodes share it: in Redis, and in the bucket SLUICE_COUNTS under a key that the
// audit does not use.

import type { NatsConnection } from '@nats-io/transport-node'
import { Bucket } from '../nats/bucket.ts'
import { COUNTS_BUCKET } from '../nats/store-names.ts'
import type { RedisLink } from '../redis/link.ts'
import { text, textOrNull } from '../redis/reply.ts'
import { type InstallationRecord, parseRecord } from './record.ts'

const REDIS_KEY = 'sluice:installation'
const BUCKET_KEY = 'installation'

export interface BucketRecord {
  /** null: there is none. */
  readonly record: InstallationRecord | null
  /** For `write`. */
  readonly revision: number
}

/** Rejects where it cannot be read. */
export async function readFromBucket(connection: NatsConnection): Promise<BucketRecord> {
  const bucket = new Bucket(connection, COUNTS_BUCKET)
  const report = await bucket.describe()
  if (report.kind === 'unreadable') throw new Error(report.reason)
  if (report.kind === 'absent') return { record: null, revision: 0 }
  const entries = await bucket.open()
  const entry = await entries.get(BUCKET_KEY)
  if (entry === null) return { record: null, revision: 0 }
  return { record: entry.operation === 'PUT' ? parseRecord(entry.string()) : null, revision: entry.revision }
}

/** From the audit's entries, where no node has written a record, as 0.3 did not: at least `partitions`, as it may have just begun. */
export async function countPartitions(connection: NatsConnection, partitions: number): Promise<number> {
  const bucket = new Bucket(connection, COUNTS_BUCKET)
  if ((await bucket.describe()).kind !== 'present') return partitions
  const entries = await bucket.open()
  let counted = partitions
  while ((await entries.get(`p${counted}`)) !== null) counted++
  return counted
}

/** Creates the bucket if there is none. false: another node was first. Rejects where it cannot be written. */
export async function writeToBucket(
  connection: NatsConnection,
  record: InstallationRecord,
  { revision, replicas }: { readonly revision: number; readonly replicas: number },
): Promise<boolean> {
  const bucket = new Bucket(connection, COUNTS_BUCKET)
  const report = await bucket.ensure(replicas)
  if (report.kind === 'unreadable') throw new Error(`the bucket ${COUNTS_BUCKET} cannot be used: ${report.reason}`)
  return (await bucket.write(BUCKET_KEY, JSON.stringify(record), revision)) === 'done'
}

export async function readFromRedis(redis: RedisLink): Promise<InstallationRecord | null | 'away'> {
  const said = await redis.call((client) => client.get(REDIS_KEY), textOrNull).catch(() => 'away' as const)
  return said === 'away' ? 'away' : parseRecord(said)
}

export async function writeToRedis(redis: RedisLink, record: InstallationRecord): Promise<void> {
  await redis.call((client) => client.set(REDIS_KEY, JSON.stringify(record)), text).catch(() => {})
}
