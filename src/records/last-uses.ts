// Writes when a read key was last used into its app's record, to the hour: at most once an hour for each key, and gathered,
// since each write is an edit of the file or the bucket. Where it cannot be written, reading goes on, and it is tried again.

import type { AppRecord, ReadKeyRecord } from '../apps/app-record.ts'
import { momentMs } from '../apps/record-members.ts'
import { errorMessage } from '../lib/errors.ts'
import { HOUR_MS } from '../lib/spans.ts'
import type { Timer, Timers } from '../lib/timers.ts'
import { readKeysOf } from './app-keys.ts'
import type { AppRecords } from './app-records.ts'

const GATHER_MS = 1000
const RETRY_MS = 60_000
/** Keys of an hour beyond it are not noted. */
const MAX_NOTED = 10_000

export interface LastUsesOptions {
  /** Opens the file or the bucket for the edits of one gathering. Rejects where records cannot be written. */
  readonly withRecords: (use: (records: Pick<AppRecords, 'editOne'>) => Promise<void>) => Promise<void>
  /** false: records are not changed from here, so nothing is noted. */
  readonly mayWrite: () => boolean
  readonly timers: Timers
  readonly onProblem: (problem: string) => void
}

interface Use {
  readonly app: { readonly appId: string }
  readonly key: { readonly hash: string; readonly usedAtMs: number | null }
}

export class LastUses {
  readonly #options: LastUsesOptions
  /** Hashes of the keys that were used in this hour. */
  readonly #noted = new Set<string>()
  /** By the id of the app: the hour of each key's hash. */
  readonly #waiting = new Map<string, Map<string, number>>()
  #hourMs = 0
  #timer: Timer | null = null
  #isWriting = false
  #isStopped = false

  constructor(options: LastUsesOptions) {
    this.#options = options
  }

  note({ app: { appId }, key: { hash, usedAtMs } }: Use): void {
    const nowMs = this.#options.timers.nowMs()
    const hourMs = nowMs - (nowMs % HOUR_MS)
    if (hourMs !== this.#hourMs) {
      this.#hourMs = hourMs
      this.#noted.clear()
    }
    if (this.#noted.has(hash) || this.#noted.size >= MAX_NOTED) return
    this.#noted.add(hash)
    if (usedAtMs !== null && usedAtMs >= hourMs) return
    const hours = this.#waiting.get(appId) ?? new Map<string, number>()
    // Where nothing could be written for hours.
    if (hours.size === 0 && this.#waiting.size >= MAX_NOTED) return
    this.#waiting.set(appId, hours.set(hash, hourMs))
    this.#writeIn(GATHER_MS)
  }

  stop(): void {
    this.#isStopped = true
    if (this.#timer !== null) this.#options.timers.clear(this.#timer)
    this.#timer = null
  }

  #writeIn(delayMs: number): void {
    if (this.#isWriting || this.#isStopped) return
    this.#timer ??= this.#options.timers.setTimeout(() => void this.#write(), delayMs)
  }

  async #write(): Promise<void> {
    this.#timer = null
    this.#isWriting = true
    let delayMs = GATHER_MS
    try {
      if (this.#options.mayWrite()) await this.#options.withRecords((records) => this.#writeAll(records))
      else this.#waiting.clear()
    } catch (error) {
      delayMs = RETRY_MS
      this.#options.onProblem(errorMessage(error))
    } finally {
      this.#isWriting = false
    }
    if (this.#waiting.size > 0) this.#writeIn(delayMs)
  }

  /** One app after the other, and so what is noted meanwhile. */
  async #writeAll(records: Pick<AppRecords, 'editOne'>): Promise<void> {
    for (const [appId, hours] of this.#waiting) {
      if (this.#isStopped) return
      // One that cannot be written is tried last the next time, so that it keeps back no other.
      this.#waiting.delete(appId)
      try {
        await records.editOne(appId, (record) => withUses(record, hours))
      } catch (error) {
        this.#waiting.set(appId, new Map([...hours, ...(this.#waiting.get(appId) ?? [])]))
        throw error
      }
    }
  }
}

/** `hours`: by the hash of the key. Another node may have written the same hour, or a later one. */
function withUses(record: AppRecord | undefined, hours: ReadonlyMap<string, number>): AppRecord | 'same' {
  const keys = record === undefined ? [] : readKeysOf(record)
  const isNews = ({ hash, last_used_at: usedAt = '' }: ReadKeyRecord): boolean =>
    (hours.get(hash) ?? -1) > (momentMs(usedAt) ?? -1)
  if (record === undefined || !keys.some(isNews)) return 'same'
  const used = keys.map((key) => {
    const hourMs = hours.get(key.hash)
    if (hourMs === undefined || !isNews(key)) return key
    return Object.assign({}, key, { last_used_at: `${new Date(hourMs).toISOString().slice(0, 19)}Z` })
  })
  return { ...record, read_keys: used }
}
