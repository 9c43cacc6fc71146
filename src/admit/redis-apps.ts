// App records out of Redis, as a node knows them: kept for a while, asked for anew in calls that gather, and dropped
// at once where an edit has changed them. A record that is known stays in force for as long as Redis is away.

import { setTimeout as sleep } from 'node:timers/promises'
import type { OnNotice } from '../lib/notice.ts'
import type { App, AppLookup, AppStore } from './app.ts'
import type { RedisLink } from './redis.ts'
import { type BadRecord, changesSince, describeBad, lookUpRecords, readRecord } from './redis-app-records.ts'
import { refusalReason } from './redis-fault.ts'

/** A record is asked for anew in the background from here on, and waited for once it is older than the other. */
const RECORD_MS = { refreshed: 20_000, used: 30_000 } as const
const UNKNOWN_MS = 5000
/** While Redis has lost its records, those that are known are asked for no more often than this. */
const LOST_MS = 1000
const POLL_MS = 300
const MAX_RECORDS = 100_000
const MAX_UNKNOWN = 100_000
/** Longer keys name no app: no record may have one. */
const MAX_KEY_CHARACTERS = 256
const MAX_KEYS_PER_CALL = 500
/** Requests whose app is being asked for; beyond, they are answered 503. */
const MAX_WAITING = 20_000
/** Between two calls, where most keys of the last one named no app: keys that somebody makes up. */
const SPRAY_PAUSE_MS = 10
/** Bad records that are remembered as told. */
const MAX_BAD_RECORDS = 1000

export interface RedisAppsOptions {
  readonly link: RedisLink
  /** Once a change: a record that cannot be used, or records that are gone. */
  readonly onNotice?: OnNotice
  /** What records age by; it never goes back. */
  readonly monotonicMs?: () => number
  readonly pollMs?: number
}

export interface RedisApps extends AppStore {
  stop(): void
  /** Records found that could not be used, each change of one counted once. */
  readonly badRecords: number
}

/** Returns at once, whether Redis is there or not. */
export function openRedisApps(options: RedisAppsOptions): RedisApps {
  return new CachedApps(options)
}

interface Known {
  readonly app: App
  refreshAtMs: number
  staleAtMs: number
}

type Waiter = (lookup: AppLookup) => void

class CachedApps implements RedisApps {
  readonly #link: RedisLink
  readonly #onNotice: OnNotice
  readonly #monotonicMs: () => number
  readonly #pollMs: number
  /** Each in the order in which it was last asked for, so that those which nobody uses go first. */
  readonly #known = new Map<string, Known>()
  readonly #unknown = new Map<string, number>()
  /** Keys to ask for, each with those who wait for it. */
  readonly #asked = new Map<string, Waiter[]>()
  /** What was stored under a key that could not be used. */
  readonly #bad = new Map<string, string>()
  #waiting = 0
  #isAsking = false
  /** No call before this time. */
  #quietUntilMs = Number.NEGATIVE_INFINITY
  /** The version that changes were last asked for; null: not yet. */
  #seenVersion: number | null = null
  #highestVersion = 0
  #isLost = false
  /** Why Redis refused the last call of each kind. Told once, until one succeeds. */
  readonly #refusals = new Map<'look up' | 'poll', string>()
  #badRecords = 0
  #pollTimer: NodeJS.Timeout
  #isStopped = false

  constructor({ link, onNotice, monotonicMs, pollMs }: RedisAppsOptions) {
    this.#link = link
    this.#onNotice = onNotice ?? (() => {})
    this.#monotonicMs = monotonicMs ?? (() => performance.now())
    this.#pollMs = pollMs ?? POLL_MS
    this.#pollTimer = this.#schedulePoll()
  }

  get badRecords(): number {
    return this.#badRecords
  }

  find(appKey: string): AppLookup | Promise<AppLookup> {
    if (appKey.length > MAX_KEY_CHARACTERS) return 'unknown'
    const nowMs = this.#monotonicMs()
    const known = this.#known.get(appKey)
    if (known !== undefined) {
      if (nowMs < known.refreshAtMs || !this.#link.isUp) return known.app
      if (nowMs >= known.staleAtMs) return this.#ask(appKey)
      // One request has it asked for; the others go on with what there is.
      known.refreshAtMs = known.staleAtMs
      void this.#ask(appKey)
      return known.app
    }
    const unknownUntilMs = this.#unknown.get(appKey)
    if (unknownUntilMs !== undefined && nowMs < unknownUntilMs) return 'unknown'
    return this.#link.isUp ? this.#ask(appKey) : 'unavailable'
  }

  *all(): Iterable<App> {
    for (const { app } of this.#known.values()) yield app
  }

  stop(): void {
    this.#isStopped = true
    clearTimeout(this.#pollTimer)
    for (const [appKey, waiters] of this.#asked) this.#answer(appKey, waiters, 'unavailable')
    this.#asked.clear()
  }

  #ask(appKey: string): AppLookup | Promise<AppLookup> {
    if (this.#isStopped || this.#waiting >= MAX_WAITING) return this.#known.get(appKey)?.app ?? 'unavailable'
    return new Promise((resolve) => {
      this.#waiting++
      const waiters = this.#asked.get(appKey)
      if (waiters === undefined) this.#asked.set(appKey, [resolve])
      else waiters.push(resolve)
      if (this.#isAsking) return
      this.#isAsking = true
      // Keys of requests that are read in one turn of the loop go together.
      queueMicrotask(() => void this.#askAll())
    })
  }

  /** One call at a time: what comes meanwhile waits for the next. */
  async #askAll(): Promise<void> {
    while (this.#asked.size > 0) {
      const pauseMs = this.#quietUntilMs - this.#monotonicMs()
      if (pauseMs > 0) await sleep(pauseMs)
      const batch = [...this.#asked].slice(0, MAX_KEYS_PER_CALL)
      for (const [appKey] of batch) this.#asked.delete(appKey)
      if (batch.length > 0) await this.#askFor(batch)
    }
    this.#isAsking = false
  }

  async #askFor(batch: readonly (readonly [string, readonly Waiter[]])[]): Promise<void> {
    const appKeys = batch.map(([appKey]) => appKey)
    const found = await lookUpRecords(this.#link, appKeys).catch((error: unknown) => this.#refused('look up', error))
    if (found !== 'away') this.#refusals.delete('look up')
    let apps = 0
    batch.forEach(([appKey, waiters], at) => {
      const lookup = found === 'away' ? 'unavailable' : this.#take(appKey, found.texts[at], found.version)
      if (typeof lookup === 'object') apps++
      this.#answer(appKey, waiters, lookup)
    })
    if (apps * 2 < batch.length) this.#quietUntilMs = this.#monotonicMs() + SPRAY_PAUSE_MS
  }

  /** What is known stays in force where there is no answer. */
  #answer(appKey: string, waiters: readonly Waiter[], lookup: AppLookup): void {
    this.#waiting -= waiters.length
    const answer = lookup === 'unavailable' ? (this.#known.get(appKey)?.app ?? 'unavailable') : lookup
    for (const resolve of waiters) resolve(answer)
  }

  #take(appKey: string, text: string | null, version: number): AppLookup {
    const nowMs = this.#monotonicMs()
    this.#seenVersion ??= version
    this.#noteVersion(version)
    if (text === null) return this.#takeAbsent(appKey, nowMs)
    const read = readRecord(appKey, text)
    if (read.kind === 'bad') return this.#takeBad(read.bad, text, nowMs)
    this.#bad.delete(appKey)
    this.#unknown.delete(appKey)
    // What was read before a change that has been heard of since may be what the change replaced.
    const usedMs = version < this.#seenVersion ? 0 : RECORD_MS.used
    this.#known.delete(appKey)
    this.#known.set(appKey, {
      app: read.app,
      refreshAtMs: nowMs + Math.min(usedMs, RECORD_MS.refreshed),
      staleAtMs: nowMs + usedMs,
    })
    dropOldest(this.#known, MAX_RECORDS)
    return read.app
  }

  #takeAbsent(appKey: string, nowMs: number): AppLookup {
    if (this.#isLost) {
      this.#keep(appKey, nowMs, LOST_MS)
      return 'unavailable'
    }
    this.#known.delete(appKey)
    this.#bad.delete(appKey)
    this.#unknown.delete(appKey)
    this.#unknown.set(appKey, nowMs + UNKNOWN_MS)
    dropOldest(this.#unknown, MAX_UNKNOWN)
    return 'unknown'
  }

  #takeBad(bad: BadRecord, text: string, nowMs: number): AppLookup {
    const { appKey } = bad
    this.#keep(appKey, nowMs, RECORD_MS.used)
    if (this.#bad.get(appKey) === text) return 'unavailable'
    this.#bad.set(appKey, text)
    dropOldest(this.#bad, MAX_BAD_RECORDS)
    this.#badRecords++
    const inForce = this.#known.has(appKey) ? '; the last good one stays in force' : ''
    this.#onNotice(`${describeBad(bad)}${inForce}`)
    return 'unavailable'
  }

  /** The record that is known stays in force, and is asked for again after a while. */
  #keep(appKey: string, nowMs: number, forMs: number): void {
    const known = this.#known.get(appKey)
    if (known === undefined) return
    known.refreshAtMs = nowMs + forMs
    known.staleAtMs = nowMs + forMs
  }

  #refused(kind: 'look up' | 'poll', error: unknown): 'away' {
    const refusal = refusalReason(error)
    if (refusal !== this.#refusals.get(kind)) this.#onNotice(`Redis refuses to give app records: ${refusal}`)
    this.#refusals.set(kind, refusal)
    return 'away'
  }

  /** Without the version that was seen before, a record that is absent may have been lost. */
  #noteVersion(version: number): void {
    this.#highestVersion = Math.max(this.#highestVersion, version)
    const isLost = version < this.#highestVersion
    if (isLost === this.#isLost) return
    this.#isLost = isLost
    this.#onNotice(
      isLost
        ? 'Redis has lost edits of app records: known ones stay in force, and no key is refused, until the next edit'
        : 'app records in Redis are up to date again',
      isLost ? undefined : 'info',
    )
  }

  #schedulePoll(): NodeJS.Timeout {
    // The next look is set once this one is over, so that no two overlap.
    return setTimeout(async () => {
      if (this.#link.isUp) await this.#poll()
      if (!this.#isStopped) this.#pollTimer = this.#schedulePoll()
    }, this.#pollMs).unref()
  }

  async #poll(): Promise<void> {
    const changes = await changesSince(this.#link, this.#seenVersion ?? 0).catch((error: unknown) =>
      this.#refused('poll', error),
    )
    if (changes === 'away') return
    this.#refusals.delete('poll')
    this.#seenVersion = changes.version
    this.#noteVersion(changes.version)
    if (changes.appKeys === null) {
      for (const known of this.#known.values()) outdate(known)
      this.#unknown.clear()
      return
    }
    for (const appKey of changes.appKeys) {
      this.#unknown.delete(appKey)
      const known = this.#known.get(appKey)
      if (known !== undefined) outdate(known)
    }
  }
}

function outdate(known: Known): void {
  known.refreshAtMs = 0
  known.staleAtMs = 0
}

function dropOldest(map: Map<string, unknown>, most: number): void {
  if (map.size <= most) return
  const [oldest] = map.keys()
  map.delete(oldest)
}
