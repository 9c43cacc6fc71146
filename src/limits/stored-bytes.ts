// The bytes that each app stores through this node: how many it may in a minute, and what it stored. One event may be as large as
// a body, so without this a queue could be filled within any plan. Each node counts for itself, in memory.

import type { App } from '../apps/app.ts'
import { MIN_NODE_BYTES } from '../contract/bounds.ts'
import type { WindowView } from '../contract/outcome.ts'
import { formatBytes } from '../lib/format.ts'
import { slices } from '../lib/slices.ts'
import { MINUTE_MS } from '../lib/spans.ts'
import type { Timers } from '../lib/timers.ts'
import { isNear, secondsBetween } from './limiter.ts'

/** Behind a balancer an app's requests need not reach more nodes than these. */
const MAX_NODES_SHARING = 4
/** While a store fills, so many apps are held to this part of their bytes. */
const HELD_APPS = 3
const HELD_SHARE = 4
/** Of which the hour is made. */
const CELL_MINUTES = 5
const CELLS = 60 / CELL_MINUTES
const DAY_MINUTES = 24 * 60
/** Beyond it, apps that stored nothing for an hour are forgotten. Only known apps are counted. */
const MAX_APPS = 100_000
/** Looked at in one turn of the event loop: a millisecond, and some more at the first time. */
const SLICE_APPS = 500

type Limit = Pick<App, 'appId' | 'bytesPerMinute'>

/** What this node has stored of an app since its start. */
export interface BytesStored {
  readonly lastHour: number
  readonly today: number
  /** Of a UTC minute of today. */
  readonly highestMinute: number
}

/** `hasAll`: no other app stored anything. */
export interface BytesRead {
  readonly apps: readonly (readonly [appId: string, stored: BytesStored])[]
  readonly hasAll: boolean
}

/** Minutes are those since 1970, UTC. */
class AppBytes {
  readonly appId: string
  /** Stored, in doubt or under way in this minute. */
  minute = 0
  taken = 0
  readonly #cells = new Float64Array(CELLS)
  /** The sum of the cells: apps are compared by it while requests wait. */
  #lastHour = 0
  #storedMinute = 0
  #inMinute = 0
  #today = 0
  #highest = 0

  constructor(appId: string) {
    this.appId = appId
  }

  store(bytes: number, minute: number): void {
    if (minute !== this.#storedMinute) this.#turnStored(minute)
    this.#cells[cellOf(this.#storedMinute) % CELLS] += bytes
    this.#lastHour += bytes
    this.#inMinute += bytes
    this.#today += bytes
    if (this.#inMinute > this.#highest) this.#highest = this.#inMinute
  }

  lastHour(minute: number): number {
    if (minute !== this.#storedMinute) this.#turnStored(minute)
    return this.#lastHour
  }

  stored(minute: number): BytesStored {
    return { lastHour: this.lastHour(minute), today: this.#today, highestMinute: this.#highest }
  }

  hasStored(minute: number): boolean {
    return this.lastHour(minute) + this.#today > 0
  }

  /** A step back of the clock by less than an hour counts in the newest minute; after a larger one, the hour begins anew. */
  #turnStored(minute: number): void {
    const before = this.#storedMinute
    const passed = cellOf(minute) - cellOf(before)
    if (minute < before && passed > -CELLS) return
    this.#storedMinute = minute
    this.#inMinute = 0
    if (passed < 0) this.#empty(0, CELLS - 1)
    else this.#empty(cellOf(before) + 1, Math.min(cellOf(minute), cellOf(before) + CELLS))
    if (dayOf(minute) === dayOf(before)) return
    this.#today = 0
    this.#highest = 0
  }

  #empty(first: number, last: number): void {
    for (let cell = first; cell <= last; cell++) {
      this.#lastHour -= this.#cells[cell % CELLS]
      this.#cells[cell % CELLS] = 0
    }
  }
}

function cellOf(minute: number): number {
  return Math.floor(minute / CELL_MINUTES)
}

function dayOf(minute: number): number {
  return Math.floor(minute / DAY_MINUTES)
}

export interface StoredBytesOptions {
  readonly nowMs: () => number
  /** Nodes that take events, as last seen. */
  readonly nodes: () => number
  readonly timers: Pick<Timers, 'setImmediate'>
}

export class StoredBytes {
  readonly #options: StoredBytesOptions
  readonly #apps = new Map<string, AppBytes>()
  /** Stores that fill. */
  readonly #filling = new Set<string>()
  #held: ReadonlySet<string> = new Set()
  /** So many as are held, in no order: those with most, of all whose bytes were compared. */
  readonly #most: AppBytes[] = []
  /** In which all were compared last, and those that are held chosen. */
  #lookMinute = 0
  /** That was asked for last: each request asks three times. */
  #last: AppBytes | null = null

  constructor(options: StoredBytesOptions) {
    this.#options = options
  }

  /** false: the minute has no room for them. A batch of any size has room in a minute in which the app stored nothing. */
  take(app: Limit, bytes: number): boolean {
    const minute = this.#minute()
    const count = this.#countOf(app.appId)
    if (count.minute !== minute) [count.minute, count.taken] = [minute, 0]
    if (count.taken > 0 && count.taken + bytes > this.#allowed(app, minute)) return false
    count.taken += bytes
    return true
  }

  /** They are certainly not stored. `takenAtMs`: when they were taken. */
  giveBack({ appId }: Limit, bytes: number, takenAtMs: number): void {
    const count = this.#find(appId)
    if (count?.minute === Math.floor(takenAtMs / MINUTE_MS)) count.taken -= bytes
  }

  /** They are stored, or may be. */
  store({ appId }: Limit, bytes: number): void {
    const minute = this.#minute()
    const count = this.#countOf(appId)
    count.store(bytes, minute)
    this.#compare(count, minute)
  }

  get secondsUntilRoom(): number {
    return secondsBetween(this.#options.nowMs(), (this.#minute() + 1) * MINUTE_MS)
  }

  /** null: less than four fifths are used, and `always` is false. */
  window(app: Limit, always: boolean): WindowView | null {
    const minute = this.#minute()
    const count = this.#find(app.appId)
    const used = count?.minute === minute ? count.taken : 0
    const limit = this.#allowed(app, minute)
    if (!always && !isNear(limit, used)) return null
    const remaining = Math.max(0, limit - used)
    return { name: 'bytes', limit, remaining, lengthSeconds: MINUTE_MS / 1000, resetSeconds: this.secondsUntilRoom }
  }

  /** A store of events fills, or has room again. */
  hold(store: string, isHeld: boolean): void {
    if (isHeld) this.#filling.add(store)
    else this.#filling.delete(store)
    void this.#lookAtAll()
  }

  /** Those that stored most in the last hour, for a line of the log; empty: nobody stored anything. */
  mostText(): string {
    const minute = this.#minute()
    const most = this.#ranked(minute).map((count) => `${count.appId} ${formatBytes(count.lastHour(minute))}`)
    if (most.length === 0) return ''
    const what =
      this.#filling.size === 0
        ? ''
        : `, and ${most.length === 1 ? 'is held to a quarter of its' : 'are held to a quarter of their'} bytes, at least ${formatBytes(MIN_NODE_BYTES)} a minute`
    return `; most of the last hour on this node stored ${most.join(', ')}${what}`
  }

  /** Of one app, or (null) of those with the most of the last hour, the most first. */
  async read(appId: string | null, mostApps: number): Promise<BytesRead> {
    const asked = appId === null ? this.#apps.values() : [this.#apps.get(appId) ?? []].flat()
    let found: AppBytes[] = []
    let hasAll = true
    for await (const slice of slices(asked, SLICE_APPS, this.#options.timers)) {
      const minute = this.#minute()
      const least = found.length < mostApps ? -1 : found[mostApps - 1].lastHour(minute)
      const stored = slice.filter((count) => count.hasStored(minute))
      const more = stored.filter((count) => count.lastHour(minute) > least)
      hasAll &&= found.length + stored.length <= mostApps
      if (more.length > 0) found = [...found, ...more].sort(byLastHour(minute)).slice(0, mostApps)
    }
    const minute = this.#minute()
    return { apps: found.map((count) => [count.appId, count.stored(minute)]), hasAll }
  }

  #minute(): number {
    return Math.floor(this.#options.nowMs() / MINUTE_MS)
  }

  #allowed({ appId, bytesPerMinute }: Limit, minute: number): number {
    if (this.#filling.size > 0 && minute !== this.#lookMinute) void this.#lookAtAll()
    const parts = Math.min(this.#options.nodes(), MAX_NODES_SHARING) * (this.#held.has(appId) ? HELD_SHARE : 1)
    return Math.max(MIN_NODE_BYTES, Math.floor(bytesPerMinute / parts))
  }

  /**
   * What an app stored grows by a batch, which is compared at once; it falls as time passes, so those that are held are chosen
   * again once all have been compared.
   */
  async #lookAtAll(): Promise<void> {
    this.#lookMinute = this.#minute()
    this.#chooseHeld()
    for await (const slice of slices(this.#apps.values(), SLICE_APPS, this.#options.timers)) {
      const minute = this.#minute()
      for (const count of slice) {
        const isIdle = count.minute !== minute && count.lastHour(minute) === 0
        if (isIdle && this.#apps.size > MAX_APPS) {
          this.#apps.delete(count.appId)
          this.#last = null
        } else this.#compare(count, minute)
      }
    }
    this.#chooseHeld()
  }

  #chooseHeld(): void {
    this.#held = new Set(this.#filling.size === 0 ? [] : this.#ranked(this.#minute()).map(({ appId }) => appId))
  }

  /** The most first. */
  #ranked(minute: number): AppBytes[] {
    return this.#most.filter((count) => count.lastHour(minute) > 0).sort(byLastHour(minute))
  }

  #compare(count: AppBytes, minute: number): void {
    const most = this.#most
    if (most.includes(count)) return
    let least = 0
    for (let at = 1; at < most.length; at++) if (most[at].lastHour(minute) < most[least].lastHour(minute)) least = at
    if (most.length < HELD_APPS) most.push(count)
    else if (count.lastHour(minute) > most[least].lastHour(minute)) most[least] = count
  }

  #find(appId: string): AppBytes | undefined {
    if (this.#last?.appId === appId) return this.#last
    this.#last = this.#apps.get(appId) ?? null
    return this.#last ?? undefined
  }

  #countOf(appId: string): AppBytes {
    const count = this.#find(appId)
    if (count !== undefined) return count
    const minute = this.#minute()
    if (this.#apps.size >= MAX_APPS && minute !== this.#lookMinute) void this.#lookAtAll()
    const fresh = new AppBytes(appId)
    this.#apps.set(appId, fresh)
    return fresh
  }
}

function byLastHour(minute: number): (one: AppBytes, other: AppBytes) => number {
  return (one, other) => other.lastHour(minute) - one.lastHour(minute)
}
