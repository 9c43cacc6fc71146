// The bucket SLUICE_COUNTS: what the audit has counted, one entry a partition, so that counters come back from NATS
// alone when Redis has lost them.

import { brotliCompressSync, brotliDecompressSync, constants } from 'node:zlib'
import type { KV } from '@nats-io/kv'
import type { NatsConnection } from '@nats-io/transport-node'
import { Bucket } from '../nats/bucket.ts'
import { PartitionTotals, type SavedTotals } from './totals.ts'

const BUCKET = 'SLUICE_COUNTS'
/** 6,250 apps with a month of days take 0.5 MB in 0.1 s. A message of NATS holds 1 MB: more apps want more partitions. */
const QUALITY = 5
/** Of an entry that is read: 100,000 apps in one partition are some 15 MB. */
const MAX_ENTRY_BYTES = 64 * 1024 * 1024

export interface Entry {
  /** null: there is none, or it is not one. */
  readonly saved: SavedTotals | null
  /** For `write`; 0: there is no entry yet. */
  readonly revision: number
}

export class CountsBucket {
  readonly #bucket: KV

  /** Makes the bucket where there is none. Rejects with why it cannot be used. */
  static async open(connection: NatsConnection, replicas: number): Promise<CountsBucket> {
    const bucket = new Bucket(connection, BUCKET)
    const report = await bucket.ensure(replicas)
    if (report.kind !== 'present') throw new Error(report.kind === 'absent' ? `${BUCKET} is gone` : report.reason)
    return new CountsBucket(await bucket.open())
  }

  private constructor(bucket: KV) {
    this.#bucket = bucket
  }

  async read(partition: number): Promise<Entry> {
    const entry = await this.#bucket.get(nameOf(partition))
    if (entry === null) return { saved: null, revision: 0 }
    return { saved: entry.operation === 'PUT' ? parse(entry.value) : null, revision: entry.revision }
  }

  /** Gives the new revision. Rejects where the entry has another one by now: another auditor has written it. */
  write(partition: number, saved: SavedTotals, revision: number): Promise<number> {
    const text = brotliCompressSync(JSON.stringify(saved), { params: { [constants.BROTLI_PARAM_QUALITY]: QUALITY } })
    return this.#bucket.put(nameOf(partition), text, { previousSeq: revision })
  }
}

function nameOf(partition: number): string {
  return `p${partition}`
}

function parse(bytes: Uint8Array): SavedTotals | null {
  try {
    const text = brotliDecompressSync(bytes, { maxOutputLength: MAX_ENTRY_BYTES }).toString()
    const saved = JSON.parse(text) as SavedTotals
    const { sequence, timeUs, minute, from } = saved
    if (saved.v !== 1 || ![sequence, timeUs, minute, from].every((count) => Number.isSafeInteger(count))) return null
    // Throws where the apps are not what they should be.
    new PartitionTotals(saved.created, saved).save()
    return saved
  } catch {
    return null
  }
}
