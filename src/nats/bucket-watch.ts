// One watch of a bucket: what is in it, that all of it has come, and then what changes, for as long as it can be
// relied on.

import type { KvWatchEntry } from '@nats-io/kv'
import { sleep, type Timers } from '../lib/timers.ts'
import type { Bucket, BucketFacts, StoredEntry } from './bucket.ts'

/** Between two looks at the bucket: whether it is the one that is watched, and whether the watch has all of it. */
const LOOK_MS = 2000

export interface WatchOptions {
  readonly timers: Timers
  /** All entries up to here are known, and do not come again; 0: none is known. */
  readonly knownRevision: number
  readonly onEntry: (entry: StoredEntry) => void
  /** Every entry has come that was there up to this revision. Called once. */
  readonly onAll: (revision: number) => void
  /** Ends the watch. */
  readonly signal: AbortSignal
}

/**
 * Resolves where the watch has ended: 'missed' where entries did not come that should have, so that the bucket has to
 * be read as a whole. Rejects where it cannot begin.
 */
export function watchBucket(bucket: Bucket, facts: BucketFacts, options: WatchOptions): Promise<'ended' | 'missed'> {
  return new BucketWatch(bucket, facts, options).run()
}

class BucketWatch {
  readonly #bucket: Bucket
  readonly #facts: BucketFacts
  readonly #options: WatchOptions
  /** Ends with the watch, whoever ends it. */
  readonly #over = new AbortController()
  /** Of the newest entry that came. */
  #revision: number
  /** The last one that the bucket is known to have. */
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
      if (this.#facts.entries === 0) this.#takeAll()
      else await this.#lookForEnd()
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
      if (!this.#hasAll) await this.#lookForEnd()
    }
  }

  /**
   * What the server says is left of a watch is wrong where entries change meanwhile (seen with 2.9). So all of it has
   * come once the newest entry that the bucket has is here, and no newer one was stored before that was known.
   */
  async #lookForEnd(): Promise<void> {
    while (this.#revision >= this.#lastRevision) {
      const report = await this.#bucket.describe()
      if (report.kind !== 'present') return
      if (report.facts.lastRevision <= this.#revision) return this.#takeAll()
      this.#lastRevision = report.facts.lastRevision
    }
  }

  #takeAll(): void {
    if (this.#hasAll || this.#over.signal.aborted) return
    this.#hasAll = true
    this.#revision = Math.max(this.#revision, this.#lastRevision)
    this.#options.onAll(this.#revision)
  }

  /** Ends the watch where it is no longer to be relied on. */
  async #guard(): Promise<void> {
    const { signal } = this.#over
    let received = -1
    let lastRevision = 0
    while (!signal.aborted) {
      await sleep(this.#options.timers, LOOK_MS, signal)
      const report = signal.aborted ? null : await this.#bucket.describe()
      if (signal.aborted || report?.kind === 'unreadable') continue
      if (report?.kind !== 'present' || report.facts.createdAt !== this.#facts.createdAt) return this.#over.abort()
      const { facts } = report
      if (facts.lastRevision < this.#revision) return this.#over.abort()
      const isStill = this.#received === received
      // The newest entries may have been taken out of the stream: their revisions never come.
      if (isStill && !this.#hasAll && this.#received >= facts.entries) this.#takeAll()
      if (isStill && this.#revision < lastRevision) {
        this.#hasMissed = true
        return this.#over.abort()
      }
      received = this.#received
      lastRevision = facts.lastRevision
    }
  }
}
