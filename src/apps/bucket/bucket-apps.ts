// App records out of the bucket, as a node knows them: all of them in memory, kept up to date by a watch over a
// connection of its own. What was read once stays in force whatever becomes of NATS.

import type { OnNotice } from '../../lib/notice.ts'
import { sleep, type Timers } from '../../lib/timers.ts'
import { Bucket, type BucketFacts, type BucketReport, type StoredEntry } from '../../nats/bucket.ts'
import { watchBucket } from '../../nats/bucket-watch.ts'
import { describeFault, NatsLink } from '../../nats/connection.ts'
import type { App, AppLookup, AppStore } from '../app.ts'
import { AppEntries, type PutResult } from './app-entries.ts'

export const APPS_BUCKET = 'SLUICE_APPS'
/** Between two tries to read it. */
const RETRY_MS = 500
const MAX_IDS_NAMED = 10

export interface BucketAppsOptions {
  readonly url: string
  /** Of the bucket, where it has to be made. */
  readonly replicas: number
  readonly timers: Timers
  /** A sentence for the log when something changes. */
  readonly onNotice?: OnNotice
}

/** Returns at once and connects meanwhile. Throws a StartError where the URL is none. */
export function openBucketApps(options: BucketAppsOptions): BucketApps {
  return new BucketApps(options)
}

export class BucketApps implements AppStore {
  readonly #options: BucketAppsOptions
  readonly #onNotice: OnNotice
  readonly #entries = new AppEntries()
  readonly #link: NatsLink
  readonly #stopping = new AbortController()
  #following: Promise<void> = Promise.resolve()
  #createdAt: string | null = null
  /** As far as this node has read. */
  #revision = 0
  #isLoaded = false
  #trouble: string | null = 'connecting'
  #badRecords = 0

  constructor(options: BucketAppsOptions) {
    this.#options = options
    this.#onNotice = options.onNotice ?? (() => {})
    this.#link = new NatsLink({
      url: options.url,
      timers: options.timers,
      onUp: (connection) => (this.#following = this.#follow(new Bucket(connection, APPS_BUCKET))),
      onDown: (reason) => this.#troubled(reason),
    })
  }

  /** All records have been read once. */
  get isLoaded(): boolean {
    return this.#isLoaded
  }

  /** Changes reach this node. */
  get isUp(): boolean {
    return this.#trouble === null
  }

  /** Entries found that could not be used, each change of one counted once. */
  get badRecords(): number {
    return this.#badRecords
  }

  get state(): string {
    if (this.#trouble === null) return 'up'
    return this.#isLoaded ? `away: ${this.#trouble}; the records known stay in force` : `away: ${this.#trouble}`
  }

  find(appKey: string): AppLookup {
    return this.#isLoaded ? this.#entries.find(appKey, this.#options.timers.nowMs()) : 'unavailable'
  }

  all(): Iterable<App> {
    return this.#entries.all()
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#link.stop()
    await this.#following
  }

  /** Reads and watches for as long as the connection lasts. Never rejects. */
  async #follow(bucket: Bucket): Promise<void> {
    const isInUse = () => !this.#stopping.signal.aborted && this.#link.connection === bucket.connection
    while (isInUse()) {
      const report = await this.#look(bucket)
      if (!isInUse()) return
      if (report.kind === 'present') await this.#watch(bucket, report.facts, isInUse)
      else this.#troubled(this.#describe(report))
      if (isInUse()) await sleep(this.#options.timers, RETRY_MS, this.#stopping.signal)
    }
  }

  /** Only a node that knows of no bucket makes one: a bucket that went is for its operators to bring back. */
  #look(bucket: Bucket): Promise<BucketReport> {
    return this.#isLoaded ? bucket.describe() : bucket.ensure(this.#options.replicas)
  }

  #describe(report: Exclude<BucketReport, { kind: 'present' }>): string {
    return report.kind === 'absent'
      ? `the bucket ${APPS_BUCKET} is gone: sluice apps import brings the records back`
      : report.reason
  }

  /** Ends where the watch has to be begun anew. */
  async #watch(bucket: Bucket, facts: BucketFacts, isInUse: () => boolean): Promise<void> {
    // One that was made anew, or went back to an earlier state: its revisions are lower than those known.
    if (facts.createdAt !== this.#createdAt || facts.lastRevision < this.#revision) {
      this.#entries.outdate()
      this.#revision = 0
    }
    this.#createdAt = facts.createdAt
    // What is known already does not come again: it would hold up requests.
    const isWhole = !this.#isLoaded || this.#revision === 0
    if (isWhole) this.#entries.beginReading()
    try {
      const end = await watchBucket(bucket, facts, {
        timers: this.#options.timers,
        knownRevision: isWhole ? 0 : this.#revision,
        onEntry: (entry) => this.#take(entry),
        onAll: (revision) => {
          this.#revision = revision
          this.#hasAll(isWhole)
        },
        signal: this.#stopping.signal,
      })
      // A watch of a connection that is gone says nothing of the next one's.
      if (end === 'missed' && isInUse()) this.#revision = 0
    } catch (error) {
      if (isInUse()) this.#troubled(describeFault(error))
    }
  }

  #take(entry: StoredEntry): void {
    this.#revision = Math.max(this.#revision, entry.revision)
    const result = this.#entries.put(entry)
    const notice = describePut(entry.key, result)
    if (result.kind === 'bad') this.#badRecords++
    if (notice !== null) this.#onNotice(notice)
  }

  /** `isWhole`: the bucket was read as a whole, so that what is missing in it is known. */
  #hasAll(isWhole: boolean): void {
    const missing = isWhole ? this.#entries.missing() : []
    if (missing.length > 0) {
      const ids = missing.length > MAX_IDS_NAMED ? [...missing.slice(0, MAX_IDS_NAMED), '…'] : missing
      this.#onNotice(
        `${missing.length} app records went from ${APPS_BUCKET} without being removed, and stay in force until this process ends: ${ids.join(', ')}; sluice apps import brings them back`,
      )
    }
    if (this.#trouble !== null) this.#onNotice(`${this.#entries.count} app records read from ${APPS_BUCKET}`, 'info')
    this.#isLoaded = true
    this.#trouble = null
  }

  #troubled(reason: string): void {
    if (reason === this.#trouble) return
    const isNews = this.#trouble === null || this.#trouble === 'connecting'
    this.#trouble = reason
    if (!isNews && !reason.startsWith('the bucket')) return
    this.#onNotice(
      this.#isLoaded
        ? `app records cannot be read: ${reason}; the ${this.#entries.count} known ones stay in force`
        : `app records cannot be read: ${reason}; until they are, batches are answered 503`,
    )
  }
}

/** For the log: names the entry, and no app key. */
export function describePut(key: string, result: PutResult): string | null {
  switch (result.kind) {
    case 'bad':
      return describeBadEntry(key, result.mistakes)
    case 'put':
      if (result.rivals.length === 0) return null
      return `the entry ${key} of ${APPS_BUCKET} has an app key of ${result.rivals.join(', ')} too: the oldest entry has it`
    case 'known':
    case 'removed':
      return null
  }
}

export function describeBadEntry(key: string, mistakes: readonly string[]): string {
  return `the entry ${key} of ${APPS_BUCKET} is no app record and is skipped: ${mistakes.join('; ')}`
}
