// The alerts that were decided, in the bucket SLUICE_COUNTS beside the sums: one entry an app.

import type { KV } from '@nats-io/kv'
import type { NatsConnection } from '@nats-io/transport-node'
import { ALERTS_KEPT_MS, type Alert, joinAlerts, parseAlerts } from '../contract/alert.ts'
import { isAppId } from '../contract/ids.ts'
import { DAY_MS } from '../lib/spans.ts'
import { Bucket } from '../nats/bucket.ts'
import { COUNTS_BUCKET } from '../nats/store-names.ts'

const PREFIX = 'alerts.'
const MAX_ATTEMPTS = 10
/** Looked at in one call. */
const MAX_LOOKED_AT = 100

/** Each alert once, whoever adds it again. Rejects where it is not known whether it is stored. */
export async function addAlerts(bucket: Bucket, appId: string, alerts: readonly Alert[], nowMs: number): Promise<void> {
  const entries = await bucket.open()
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
    const entry = await entries.get(PREFIX + appId)
    const stored = entry?.operation === 'PUT' ? parseAlerts(entry.string()) : []
    const known = new Set(stored.map(({ id }) => id))
    if (alerts.every(({ id }) => known.has(id))) return
    const text = JSON.stringify(joinAlerts(stored, alerts, nowMs))
    if ((await bucket.write(PREFIX + appId, text, entry?.revision ?? 0)) === 'done') return
  }
  throw new Error(`the alerts of ${appId}: other writers came first each time`)
}

/**
 * Deletes the entries of apps whose last alert is too old, from this revision on: the bucket has its entries in the order in
 * which they were written. Returns the revision from which to go on next time.
 */
export async function forgetAlerts(bucket: Bucket, from: number, nowMs: number): Promise<number> {
  let revision = from
  for (let looked = 0; looked < MAX_LOOKED_AT; looked++) {
    const entry = await bucket.readNext(`${PREFIX}*`, revision)
    // A day more, whatever the clocks say.
    if (entry === null || entry.writtenAtMs >= nowMs - ALERTS_KEPT_MS - DAY_MS) break
    // Where it was written meanwhile, it has another revision, and stays.
    if (entry.text !== null) await bucket.write(entry.key, null, entry.revision)
    revision = entry.revision + 1
  }
  return revision
}

/** Of one app, or of all (null). away: they cannot be read now. */
export async function readAlerts(
  connection: NatsConnection | null,
  appId: string | null,
): Promise<readonly Alert[] | 'away'> {
  if (connection === null) return 'away'
  // It would be no key, or one of many.
  if (appId !== null && !isAppId(appId)) return []
  const bucket = new Bucket(connection, COUNTS_BUCKET)
  const report = await bucket.describe()
  if (report.kind === 'absent') return []
  if (report.kind === 'unreadable') return 'away'
  const entries = await bucket.open()
  if (appId !== null) {
    const entry = await entries.get(PREFIX + appId)
    return entry?.operation === 'PUT' ? parseAlerts(entry.string()) : []
  }
  return await readAll(entries)
}

async function readAll(entries: KV): Promise<Alert[]> {
  const alerts: Alert[] = []
  for await (const entry of await entries.history({ key: `${PREFIX}*` })) {
    if (entry.operation === 'PUT') alerts.push(...parseAlerts(entry.string()))
  }
  return alerts
}
