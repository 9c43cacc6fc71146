// One watch of a bucket: delivers its entries, reports when all of them have come, and then delivers changes. It ends
// where it may have missed one.

import type { KvWatchEntry } from '@nats-io/kv'
import { sleep, type Timers } from '../lib/timers.ts'
import type { Bucket, BucketFacts, StoredEntry } from './bucket.ts'

/** Between two checks that the bucket is still the same one, and that no entry was missed. */
const CHECK_INTERVAL_MS = 2000

export interface WatchOptions {
  readonly timers: Timers
  /** Entries up to this revision are known and are not delivered; 0: none is known. */
  readonly knownRevision: number
  readonly onEntry: (entry: StoredEntry) => void
  /** Every entry up to this revision was delivered. Called once. */
  readonly onAll: (revision: number) => void
  /** Ends the watch. */
  readonly signal: AbortSignal
}

/**
 * Resolves when the watch has ended. 'missed': an entry was not delivered, so that the caller has to read the whole
 * bucket. Rejects where the watch cannot begin.
 */
export function watchBucket(bucket: Bucket, facts: BucketFacts, options: WatchOptions): Promise<'ended' | 'missed'> {
  return new BucketWatch(bucket, facts, options).run()
}

class BucketWatch {
  readonly #bucket: Bucket
  readonly #facts: BucketFacts
  readonly #options: WatchOptions
  /** Aborted when the watch ends for any reason. */
  readonly #over = new AbortController()
  /** The newest revision that was delivered. */
  #revision: number
  /** The newest revision that the bucket is known to have. */
  #lastRevision: number
  #received = 0
  #hasAll = false
  #hasMissed = false

  constructor(bucket: Bucket, facts: BucketFacts, options: WatchOptions) {
    this.#bucket = bucket
    this.#facts = facts
    this.#options = options
    this.#revision = options.knownRevision
    this.#lastRevision = facts.lastRevision
  }

  async run(): Promise<'ended' | 'missed'> {
    const { knownRevision, signal } = this.#options
    const entries = await this.#bucket.open()
    const watch = await entries.watch(knownRevision === 0 ? {} : { resumeFromRevision: knownRevision + 1 })
    const stop = (): void => this.#over.abort()
    this.#over.signal.addEventListener('abort', () => watch.stop())
    signal.addEventListener('abort', stop)
    if (signal.aborted) stop()
    const guarding = this.#guard()
    try {
      if (this.#facts.entries === 0) this.#complete()
      else await this.#checkComplete()
      await this.#read(watch)
    } finally {
      stop()
      signal.removeEventListener('abort', stop)
      await guarding
    }
    return this.#hasMissed ? 'missed' : 'ended'
  }

  async #read(watch: AsyncIterable<KvWatchEntry>): Promise<void> {
    for await (const { key, revision, operation, value } of watch) {
      if (this.#over.signal.aborted) return
      this.#received++
      this.#revision = Math.max(this.#revision, revision)
      this.#options.onEntry({ key, revision, text: operation === 'PUT' ? Buffer.from(value).toString() : null })
      if (!this.#hasAll) await this.#checkComplete()
    }
  }

  /**
   * The count of pending entries that the server reports is wrong where entries change meanwhile (seen with 2.9). So
   * the watch is complete once it has delivered the newest revision of the bucket, and the bucket still has no newer
   * one.
   */
  async #checkComplete(): Promise<void> {
    while (this.#revision >= this.#lastRevision) {
      const report = await this.#bucket.describe()
      if (report.kind !== 'present') return
      if (report.facts.lastRevision <= this.#revision) return this.#complete()
      this.#lastRevision = report.facts.lastRevision
    }
  }

  #complete(): void {
    if (this.#hasAll || this.#over.signal.aborted) return
    this.#hasAll = true
    this.#revision = Math.max(this.#revision, this.#lastRevision)
    this.#options.onAll(this.#revision)
  }

  /** Ends the watch where the bucket was replaced, or where an entry was missed. */
  async #guard(): Promise<void> {
    const { signal } = this.#over
    let received = -1
    let lastRevision = 0
    while (!signal.aborted) {
      await sleep(this.#options.timers, CHECK_INTERVAL_MS, signal)
      const report = signal.aborted ? null : await this.#bucket.describe()
      if (signal.aborted || report?.kind === 'unreadable') continue
      if (report?.kind !== 'present' || report.facts.createdAt !== this.#facts.createdAt) return this.#over.abort()
      const { facts } = report
      if (facts.lastRevision < this.#revision) return this.#over.abort()
      const isIdle = this.#received === received
      // The newest entries may have been removed from the stream, and then their revisions are never delivered.
      if (isIdle && !this.#hasAll && this.#received >= facts.entries) this.#complete()
      if (isIdle && this.#revision < lastRevision) {
        this.#hasMissed = true
        return this.#over.abort()
      }
      received = this.#received
      lastRevision = facts.lastRevision
    }
  }
}
