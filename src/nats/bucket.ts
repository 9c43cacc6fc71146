// A key-value bucket of JetStream: how it is made, described and written, each entry only where nobody has changed it
// since it was read.

import { JetStreamApiCodes, jetstream, jetstreamManager, StorageType } from '@nats-io/jetstream'
import { type KV, Kvm } from '@nats-io/kv'
import type { NatsConnection } from '@nats-io/transport-node'
import { API_TIMEOUT_MS, codeOf, reasonOf } from './api.ts'

/** What is stored under a key. */
export interface StoredEntry {
  readonly key: string
  readonly revision: number
  /** null: the mark of a deletion. */
  readonly text: string | null
}

export interface BucketFacts {
  /** ISO 8601: a bucket that was deleted and made again has another. */
  readonly createdAt: string
  readonly lastRevision: number
  /** Marks of deletions too. */
  readonly entries: number
}

/** What NATS says of the bucket. `reason` is fit for the log. */
export type BucketReport =
  | { readonly kind: 'present'; readonly facts: BucketFacts }
  | { readonly kind: 'absent' }
  | { readonly kind: 'unreadable'; readonly reason: string }

export class Bucket {
  readonly name: string
  readonly connection: NatsConnection

  constructor(connection: NatsConnection, name: string) {
    this.connection = connection
    this.name = name
  }

  /** Never rejects. */
  async describe(): Promise<BucketReport> {
    try {
      const manager = await jetstreamManager(this.connection, { checkAPI: false, timeout: API_TIMEOUT_MS })
      const { created, state } = await manager.streams.info(`KV_${this.name}`)
      const entries = state.num_subjects ?? state.messages
      return { kind: 'present', facts: { createdAt: created, lastRevision: state.last_seq, entries } }
    } catch (error) {
      if (codeOf(error) === JetStreamApiCodes.StreamNotFound) return { kind: 'absent' }
      return { kind: 'unreadable', reason: reasonOf(error) }
    }
  }

  /** Makes the bucket where there is none; one that is there stays as it is. Never rejects. */
  async ensure(replicas: number): Promise<BucketReport> {
    const report = await this.describe()
    if (report.kind !== 'absent') return report
    try {
      await this.#manager().create(this.name, { history: 1, storage: StorageType.File, replicas })
    } catch (error) {
      // Another node may have made it in the same moment, which JetStream tells in several ways.
      const again = await this.describe()
      if (again.kind === 'present') return again
      return { kind: 'unreadable', reason: `it cannot be created: ${reasonOf(error)}` }
    }
    return await this.describe()
  }

  /** Asks NATS nothing yet. */
  open(): Promise<KV> {
    return this.#manager().open(this.name)
  }

  /**
   * Stores a text under a key, or with null deletes what is there. 'beaten': its revision is another than this one,
   * which is 0 where nothing was ever there. Rejects where it is not known whether it was written.
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

  #manager(): Kvm {
    return new Kvm(jetstream(this.connection, { checkAPI: false, timeout: API_TIMEOUT_MS }))
  }
}
