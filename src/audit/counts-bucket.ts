// The bucket SLUICE_COUNTS: the audit's totals, one entry per partition, from which the counters are restored when Redis
// has lost them.

import { brotliCompressSync, brotliDecompressSync, constants } from 'node:zlib'
import type { KV } from '@nats-io/kv'
import type { NatsConnection } from '@nats-io/transport-node'
import type { Alert } from '../contract/alert.ts'
import { Bucket } from '../nats/bucket.ts'
import { COUNTS_BUCKET } from '../nats/store-names.ts'
import { addAlerts, forgetAlerts } from './stored-alerts.ts'
import { PartitionTotals, type SavedTotals } from './totals.ts'

/**
 * 6,250 apps with 35 days and alerts take 0.8 MB and 0.1 s. An entry is one message, since 0.3 reads no other: NATS holds 1 MB
 * in it, unless its servers are configured to take more.
 */
const BROTLI_QUALITY = 5
/** Of the headers of a message, and more. */
const HEADERS_BYTES = 256
/** After decompression: 100,000 apps in one partition are about 15 MB. */
const MAX_ENTRY_BYTES = 64 * 1024 * 1024

export interface Entry {
  /** null: there is no entry, or it is not valid. */
  readonly saved: SavedTotals | null
  /** For `write`; 0: there is no entry yet. */
  readonly revision: number
}

export class CountsBucket {
  readonly #bucket: KV
  readonly #entries: Bucket
  /** Older alerts were looked at. */
  #alertsFrom = 1

  /** Creates the bucket if there is none. Rejects with why it cannot be used. */
  static async open(connection: NatsConnection, replicas: number): Promise<CountsBucket> {
    const bucket = new Bucket(connection, COUNTS_BUCKET)
    const report = await bucket.ensure(replicas)
    if (report.kind !== 'present')
      throw new Error(report.kind === 'absent' ? `${COUNTS_BUCKET} is gone` : report.reason)
    return new CountsBucket(await bucket.open(), bucket)
  }

  private constructor(bucket: KV, entries: Bucket) {
    this.#bucket = bucket
    this.#entries = entries
  }

  /** Each alert once, whoever adds it again. */
  addAlerts(appId: string, alerts: readonly Alert[], nowMs: number): Promise<void> {
    return addAlerts(this.#entries, appId, alerts, nowMs)
  }

  /** Some of those that are too old, of apps that have no newer one. */
  async forgetAlerts(nowMs: number): Promise<void> {
    this.#alertsFrom = await forgetAlerts(this.#entries, this.#alertsFrom, nowMs)
  }

  async read(partition: number): Promise<Entry> {
    const entry = await this.#bucket.get(keyOf(partition))
    if (entry === null) return { saved: null, revision: 0 }
    return { saved: entry.operation === 'PUT' ? parse(entry.value) : null, revision: entry.revision }
  }

  /** A compare-and-set: rejects if another auditor has written the entry since `revision`. Returns the new revision. */
  async write(partition: number, saved: SavedTotals, revision: number): Promise<number> {
    const text = brotliCompressSync(JSON.stringify(saved), {
      params: { [constants.BROTLI_PARAM_QUALITY]: BROTLI_QUALITY },
    })
    const { max_payload: mostBytes = Number.POSITIVE_INFINITY } = this.#entries.connection.info ?? {}
    if (text.length + HEADERS_BYTES > mostBytes) {
      const apps = Object.keys(saved.apps).length
      throw new Error(
        `the sums of its ${apps} apps take ${text.length} bytes, and NATS takes ${mostBytes} in one message: set max_payload to 8MB on all NATS servers`,
      )
    }
    return await this.#bucket.put(keyOf(partition), text, { previousSeq: revision })
  }
}

function keyOf(partition: number): string {
  return `p${partition}`
}

function parse(bytes: Uint8Array): SavedTotals | null {
  try {
    const text = brotliDecompressSync(bytes, { maxOutputLength: MAX_ENTRY_BYTES }).toString()
    const saved = JSON.parse(text) as SavedTotals
    const { sequence, timeUs, minute, from } = saved
    if (saved.v !== 1 || ![sequence, timeUs, minute, from].every((count) => Number.isSafeInteger(count))) return null
    // Throws if the apps have another shape.
    new PartitionTotals(saved.created, saved).save()
    return saved
  } catch {
    return null
  }
}
