// A key-value bucket of JetStream: created, described, and written by compare-and-set on the revision of each entry.

import { JetStreamApiCodes, jetstream, StorageType } from '@nats-io/jetstream'
import { type KV, Kvm } from '@nats-io/kv'
import type { NatsConnection } from '@nats-io/transport-node'
import { sleep, type Timers } from '../lib/timers.ts'
import { API_TIMEOUT_MS, askStream, codeOf, isUntaken, managerOf, reasonOf, type StreamAnswer } from './api.ts'
import { streamOfBucket } from './store-names.ts'

/** An election takes a second or so. */
const LEADER_WAIT_MS = 10_000
const LEADER_RETRY_MS = 100

export interface StoredEntry {
  readonly key: string
  readonly revision: number
  /** null: the entry was deleted. */
  readonly text: string | null
}

export interface BucketFacts {
  /** ISO 8601. A bucket that was deleted and created again has another. */
  readonly createdAt: string
  readonly lastRevision: number
  /** Including marks of deletions. */
  readonly entries: number
}

export type BucketReport = StreamAnswer<BucketFacts>

export class Bucket {
  readonly name: string
  readonly connection: NatsConnection

  constructor(connection: NatsConnection, name: string) {
    this.connection = connection
    this.name = name
  }

  /** Never rejects. */
  describe(): Promise<BucketReport> {
    return askStream(this.connection, streamOfBucket(this.name), ({ created, state }) => {
      return { createdAt: created, lastRevision: state.last_seq, entries: state.num_subjects ?? state.messages }
    })
  }

  /** Creates the bucket where there is none; an existing one stays as it is. Never rejects. */
  async ensure(replicas: number): Promise<BucketReport> {
    const report = await this.describe()
    if (report.kind !== 'absent') return report
    try {
      await this.#manager().create(this.name, { history: 1, storage: StorageType.File, replicas })
    } catch (error) {
      // Another node may have created it at the same moment, which JetStream reports in several ways.
      const again = await this.describe()
      if (again.kind === 'present') return again
      return { kind: 'unreadable', reason: `it cannot be created: ${reasonOf(error)}` }
    }
    return await this.describe()
  }

  /** Sends no request yet. */
  open(): Promise<KV> {
    return this.#manager().open(this.name)
  }

  /** One entry, without a reading of all; null: it was never written. Rejects where it cannot be read. */
  async read(key: string): Promise<StoredEntry | null> {
    const entries = await this.open()
    try {
      const found = await entries.get(key)
      if (found === null) return null
      return { key, revision: found.revision, text: found.operation === 'PUT' ? found.string() : null }
    } catch (error) {
      throw new Error(reasonOf(error), { cause: error })
    }
  }

  /** The entry that was written first, of the revisions from this one on; null: there is none. Rejects where it cannot be read. */
  async readNext(keys: string, from: number): Promise<(StoredEntry & { readonly writtenAtMs: number }) | null> {
    const manager = await managerOf(this.connection)
    const prefix = `$KV.${this.name}.`
    const query = { seq: from, next_by_subj: prefix + keys }
    const found = await manager.streams.getMessage(streamOfBucket(this.name), query)
    if (found === null) return null
    // The mark of a deletion has no data.
    const text = found.data.length > 0 ? found.string() : null
    return { key: found.subject.slice(prefix.length), revision: found.seq, text, writtenAtMs: found.time.getTime() }
  }

  /**
   * Stores a text under a key, or deletes the entry where `text` is null. 'beaten': the entry no longer has `revision`,
   * which is 0 for a key that was never written. Rejects where it is not known whether the write happened.
   */
  async write(key: string, text: string | null, revision: number): Promise<'done' | 'beaten'> {
    const entries = await this.open()
    try {
      if (text === null) await entries.delete(key, { previousSeq: revision })
      else await entries.put(key, text, { previousSeq: revision })
      return 'done'
    } catch (error) {
      if (codeOf(error) === JetStreamApiCodes.StreamWrongLastSequence) return 'beaten'
      throw new Error(reasonOf(error), { cause: error })
    }
  }

  /** As `write`, and tries again for some seconds while nobody takes the request: a new bucket has no leader at first. */
  async writeOnceLed(
    key: string,
    text: string | null,
    { revision, timers }: { readonly revision: number; readonly timers: Timers },
  ): Promise<'done' | 'beaten'> {
    const untilMs = timers.monotonicMs() + LEADER_WAIT_MS
    for (;;) {
      try {
        return await this.write(key, text, revision)
      } catch (error) {
        if (!(error instanceof Error && isUntaken(error.cause)) || timers.monotonicMs() >= untilMs) throw error
        await sleep(timers, LEADER_RETRY_MS)
      }
    }
  }

  #manager(): Kvm {
    return new Kvm(jetstream(this.connection, { checkAPI: false, timeout: API_TIMEOUT_MS }))
  }
}
