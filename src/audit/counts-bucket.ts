// The bucket SLUICE_COUNTS: the audit's totals, one entry per partition, from which the counters are restored when Redis
// has lost them.

import { brotliCompressSync, brotliDecompressSync, constants } from 'node:zlib'
import type { KV } from '@nats-io/kv'
import type { NatsConnection } from '@nats-io/transport-node'
import { Bucket } from '../nats/bucket.ts'
import { COUNTS_BUCKET } from '../nats/store-names.ts'
import { PartitionTotals, type SavedTotals } from './totals.ts'

/** 6,250 apps with a month of days take 0.5 MB and 0.1 s. A NATS message holds 1 MB: more apps need more partitions. */
const BROTLI_QUALITY = 5
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

  /** Creates the bucket if there is none. Rejects with why it cannot be used. */
  static async open(connection: NatsConnection, replicas: number): Promise<CountsBucket> {
    const bucket = new Bucket(connection, COUNTS_BUCKET)
    const report = await bucket.ensure(replicas)
    if (report.kind !== 'present')
      throw new Error(report.kind === 'absent' ? `${COUNTS_BUCKET} is gone` : report.reason)
    return new CountsBucket(await bucket.open())
  }

  private constructor(bucket: KV) {
    this.#bucket = bucket
  }

  async read(partition: number): Promise<Entry> {
    const entry = await this.#bucket.get(keyOf(partition))
    if (entry === null) return { saved: null, revision: 0 }
    return { saved: entry.operation === 'PUT' ? parse(entry.value) : null, revision: entry.revision }
  }

  /** A compare-and-set: rejects if another auditor has written the entry since `revision`. Returns the new revision. */
  write(partition: number, saved: SavedTotals, revision: number): Promise<number> {
    const text = brotliCompressSync(JSON.stringify(saved), {
      params: { [constants.BROTLI_PARAM_QUALITY]: BROTLI_QUALITY },
    })
    return this.#bucket.put(keyOf(partition), text, { previousSeq: revision })
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
