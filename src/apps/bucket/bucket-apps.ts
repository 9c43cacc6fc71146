// A node's app records from the NATS bucket: all of them in memory, kept up to date by a watch over its own connection.
// Records that were read once stay in force while NATS is away.

import type { Status } from '../../contract/health.ts'
import type { OnNotice } from '../../lib/notice.ts'
import { sleep, type Timer, type Timers } from '../../lib/timers.ts'
import type { NatsAccess } from '../../nats/address.ts'
import { Bucket, type BucketFacts, type BucketReport, type StoredEntry } from '../../nats/bucket.ts'
import { watchBucket } from '../../nats/bucket-watch.ts'
import { describeFault, NatsLink } from '../../nats/connection.ts'
import { APPS_BUCKET } from '../../nats/store-names.ts'
import type { App, AppDirectory, AppLookup } from '../app.ts'
import { AppIndex, type PutResult } from '../app-index.ts'

/** Between attempts to read it. */
const RETRY_MS = 500
const MAX_IDS_NAMED = 10
/** Lines about entries in a reading of the bucket, or in a minute. */
const MAX_ENTRY_NOTICES = 100
const ENTRY_NOTICES_MS = 60_000

export interface BucketAppsOptions {
  readonly nats: NatsAccess | string
  /** Of the bucket, if it has to be created. */
  readonly replicas: number
  readonly timers: Timers
  readonly onNotice?: OnNotice
  /** Why this bucket must not be used; null: it may. `facts` null: there is none. Default: it may. */
  readonly judge?: (bucket: Bucket, facts: BucketFacts | null) => Promise<string | null>
}

/** Returns at once and connects in the background. Throws a StartError for a URL that is not valid. */
export function openBucketApps(options: BucketAppsOptions): BucketApps {
  return new BucketApps(options)
}

export class BucketApps implements AppDirectory {
  readonly #options: BucketAppsOptions
  readonly #onNotice: OnNotice
  readonly #entries = new AppIndex()
  readonly #link: NatsLink
  readonly #stopping = new AbortController()
  #following: Promise<void> = Promise.resolve()
  #createdAt: string | null = null
  /** The last revision read. */
  #revision = 0
  #isLoaded = false
  /** Why the watch does not work; null: it does, or was not tried yet. */
  #problem: string | null = null
  #badRecords = 0
  #entryNotices = 0
  #noticesTimer: Timer | null = null
  #changes = 0

  constructor(options: BucketAppsOptions) {
    this.#options = options
    this.#onNotice = options.onNotice ?? (() => {})
    this.#link = new NatsLink({
      nats: options.nats,
      timers: options.timers,
      onUp: (connection) => (this.#following = this.#follow(new Bucket(connection, APPS_BUCKET))),
      onDown: (reason) => this.#setProblem(reason),
    })
  }

  /** All records have been read at least once. */
  get isLoaded(): boolean {
    return this.#isLoaded
  }

  /** The watch works: changes reach this node. */
  get isUp(): boolean {
    return this.#isLoaded && this.#problem === null
  }

  /** Grows with each change of a record. */
  get changes(): number {
    return this.#changes
  }

  /** Entries that could not be used, each counted once per change. */
  get badRecords(): number {
    return this.#badRecords
  }

  /** Entries that cannot be used as they are now. */
  get badRecordsNow(): number {
    return this.#entries.badCount
  }

  get status(): Status<'bucket'> {
    if (this.isUp) return { state: 'ok', reason: null }
    if (this.#problem === null) return { state: 'starting', reason: null }
    return { state: this.#isLoaded ? 'away' : 'unread', reason: this.#problem }
  }

  find(appKey: string): AppLookup {
    return this.#isLoaded ? this.#entries.find(appKey, this.#options.timers.nowMs()) : 'unavailable'
  }

  findById(appId: string): AppLookup {
    return this.#isLoaded ? this.#entries.findById(appId) : 'unavailable'
  }

  findReader(hash: string): AppLookup {
    return this.#isLoaded ? this.#entries.findReader(hash) : 'unavailable'
  }

  all(): Iterable<App> {
    return this.#entries.all()
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    this.#endNotices()
    await this.#link.stop()
    await this.#following
  }

  /** Reads and watches the bucket until the connection ends. Never rejects. */
  async #follow(bucket: Bucket): Promise<void> {
    const isInUse = () => !this.#stopping.signal.aborted && this.#link.connection === bucket.connection
    while (isInUse()) {
      const report = await this.#findBucket(bucket)
      if (!isInUse()) return
      if (report.kind === 'present') await this.#watch(bucket, report.facts, isInUse)
      else this.#setProblem(this.#describe(report))
      if (isInUse()) await sleep(this.#options.timers, RETRY_MS, this.#stopping.signal)
    }
  }

  /**
   * Creates the bucket only before the first reading, where there was none before. One that is lost is for operators to
   * restore: a node that took an empty one for the known one would answer 401, on which clients throw events away.
   */
  async #findBucket(bucket: Bucket): Promise<BucketReport> {
    const report = await bucket.describe()
    if (report.kind === 'unreadable' || (report.kind === 'absent' && this.#isLoaded)) return report
    const refusal = await this.#options.judge?.(bucket, report.kind === 'present' ? report.facts : null)
    if (refusal != null) return { kind: 'unreadable', reason: refusal }
    return report.kind === 'absent' ? await bucket.ensure(this.#options.replicas) : report
  }

  #describe(report: Exclude<BucketReport, { kind: 'present' }>): string {
    return report.kind === 'absent'
      ? `the bucket ${APPS_BUCKET} is gone: restore its records with sluice apps import`
      : report.reason
  }

  /** Ends when the watch has to be started again. */
  async #watch(bucket: Bucket, facts: BucketFacts, isInUse: () => boolean): Promise<void> {
    // The bucket was created again or restored to an earlier state: its revisions are lower than the known ones.
    if (facts.createdAt !== this.#createdAt || facts.lastRevision < this.#revision) {
      this.#entries.outdate()
      this.#revision = 0
    }
    this.#createdAt = facts.createdAt
    // Only changes since `#revision`: a complete reading would delay requests.
    const isWhole = !this.#isLoaded || this.#revision === 0
    if (isWhole) this.#entries.beginReading()
    try {
      const end = await watchBucket(bucket, facts, {
        timers: this.#options.timers,
        knownRevision: isWhole ? 0 : this.#revision,
        onEntry: (entry) => this.#take(entry),
        onAll: (revision) => {
          this.#revision = revision
          this.#finishReading(isWhole)
        },
        signal: this.#stopping.signal,
      })
      // A missed entry calls for a complete reading, unless the connection itself ended.
      if (end === 'missed' && isInUse()) this.#revision = 0
    } catch (error) {
      if (isInUse()) this.#setProblem(describeFault(error))
    }
  }

  #take(entry: StoredEntry): void {
    this.#revision = Math.max(this.#revision, entry.revision)
    const result = this.#entries.put(entry)
    if (result.kind !== 'known') this.#changes += 1
    const notice = describePut(entry.key, result)
    if (result.kind === 'bad') this.#badRecords++
    if (notice !== null) this.#noticeEntry(notice)
  }

  /** A script can write thousands of bad entries. */
  #noticeEntry(notice: string): void {
    const { timers } = this.#options
    this.#noticesTimer ??= timers.setTimeout(() => this.#endNotices(), ENTRY_NOTICES_MS)
    this.#noticesTimer.unref()
    this.#entryNotices += 1
    if (this.#entryNotices <= MAX_ENTRY_NOTICES) this.#onNotice(notice)
  }

  #endNotices(): void {
    const more = this.#entryNotices - MAX_ENTRY_NOTICES
    this.#entryNotices = 0
    if (this.#noticesTimer !== null) this.#options.timers.clear(this.#noticesTimer)
    this.#noticesTimer = null
    if (more > 0)
      this.#onNotice(
        `${more} more entries of ${APPS_BUCKET} cannot be used, or share an app key: sluice apps list names them`,
      )
  }

  /** `isWhole`: the reading was complete, so that it shows which entries are missing. */
  #finishReading(isWhole: boolean): void {
    this.#endNotices()
    const missing = isWhole ? this.#entries.missing() : []
    if (missing.length > 0) {
      const ids = missing.length > MAX_IDS_NAMED ? [...missing.slice(0, MAX_IDS_NAMED), '…'] : missing
      this.#onNotice(
        `${missing.length} app records are missing from ${APPS_BUCKET} without a delete marker; this process keeps them in memory until it ends: ${ids.join(', ')}; restore them with sluice apps import`,
      )
    }
    if (!this.isUp) this.#onNotice(`app records read from ${APPS_BUCKET}: ${this.#entries.count}`, 'info')
    this.#isLoaded = true
    this.#problem = null
  }

  #setProblem(reason: string): void {
    if (reason === this.#problem) return
    const isNews = this.#problem === null
    this.#problem = reason
    if (!isNews && !reason.startsWith('the bucket')) return
    this.#onNotice(
      this.#isLoaded
        ? `app records cannot be read: ${reason}; the ${this.#entries.count} known ones stay in force`
        : `app records cannot be read: ${reason}; until they are, a node that has kept none answers batches with 503`,
    )
  }
}

/** For the log: names the entry, but no app key. */
export function describePut(key: string, result: PutResult): string | null {
  switch (result.kind) {
    case 'bad':
      return describeBadEntry(key, result.mistakes)
    case 'put':
      if (result.rivals.length === 0) return null
      return `the entry ${key} of ${APPS_BUCKET} shares an app key with ${result.rivals.join(', ')}: the oldest of them gets it`
    case 'known':
    case 'removed':
      return null
  }
}

export function describeBadEntry(key: string, mistakes: readonly string[]): string {
  return `the entry ${key} of ${APPS_BUCKET} is not an app record and is skipped: ${mistakes.join('; ')}`
}
