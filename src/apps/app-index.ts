// The apps of a file or a bucket in memory, found by any of their keys, by their id, or by a read key. Where two entries of the
// bucket have the same app key, the older one gets it, so that all nodes agree.

import type { StoredEntry } from '../nats/bucket.ts'
import { type App, isValidKey, lookupsOf, readerLookup } from './app.ts'
import { type AppRecord, type ReadApp, readApp } from './app-record.ts'

/** Further entries are skipped, to bound the node's memory. */
const MAX_ENTRIES = 1_000_000

export type PutResult =
  | { readonly kind: 'removed' | 'known' }
  | { readonly kind: 'bad'; readonly mistakes: readonly string[] }
  /** `rivals`: other entries with one of its app keys. */
  | { readonly kind: 'put'; readonly record: AppRecord; readonly rivals: readonly string[] }

interface Entry {
  readonly key: string
  revision: number
  /** Of the entry's last valid revision; null: none was valid. */
  app: App | null
  /** Its last revision is not valid. */
  isBad: boolean
  /** The last complete reading of the bucket that contained it. */
  reading: number
}

export class AppIndex {
  readonly #entries = new Map<string, Entry>()
  readonly #holders = new Map<string, Entry>()
  /** App keys that several entries have, with these entries, oldest first. */
  readonly #contested = new Map<string, readonly Entry[]>()
  #reading = 0
  #badCount = 0

  get count(): number {
    return this.#entries.size
  }

  /** Entries whose last revision is not valid. */
  get badCount(): number {
    return this.#badCount
  }

  /** Starts a complete reading of the bucket, which `missing` ends. */
  beginReading(): void {
    this.#reading++
  }

  /** Known entries that the reading did not contain, not even as deletion markers. */
  missing(): string[] {
    const found: string[] = []
    for (const { key, reading } of this.#entries.values()) if (reading !== this.#reading) found.push(key)
    return found
  }

  /** The next entries are of another bucket: any of their revisions is newer than the known ones. */
  outdate(): void {
    for (const entry of this.#entries.values()) entry.revision = 0
  }

  /** One that was checked, with keys and an id that no other has. */
  add(app: App): void {
    const entry = { key: app.appId, revision: 0, app: null, isBad: false, reading: this.#reading }
    this.#entries.set(entry.key, entry)
    this.#hold(entry, app)
  }

  put({ key, revision, text }: StoredEntry): PutResult {
    const present = this.#entries.get(key)
    if (present !== undefined) {
      present.reading = this.#reading
      if (revision <= present.revision) return { kind: 'known' }
    }
    if (text === null) {
      if (present !== undefined) this.#remove(present)
      return { kind: 'removed' }
    }
    const entry = present ?? { key, revision, app: null, isBad: false, reading: this.#reading }
    entry.revision = revision
    const read = this.#entries.size < MAX_ENTRIES || present !== undefined ? readEntry(key, text) : TOO_MANY
    if (this.#entries.size < MAX_ENTRIES) this.#entries.set(key, entry)
    this.#setBad(entry, read.kind === 'mistakes' && this.#entries.has(key))
    if (read.kind === 'mistakes') return { kind: 'bad', mistakes: read.mistakes }
    this.#release(entry)
    return { kind: 'put', record: read.record, rivals: this.#hold(entry, read.app) }
  }

  find(appKey: string, nowMs: number): App | 'unknown' {
    const app = this.#holders.get(appKey)?.app ?? null
    return app !== null && isValidKey(app, appKey, nowMs) ? app : 'unknown'
  }

  findById(appId: string): App | 'unknown' {
    return this.#entries.get(appId)?.app ?? 'unknown'
  }

  /** By the hash of a read key. */
  findReader(hash: string): App | 'unknown' {
    return this.#holders.get(readerLookup(hash))?.app ?? 'unknown'
  }

  *all(): Generator<App> {
    for (const { app } of this.#entries.values()) if (app !== null) yield app
  }

  /** Returns the keys of other entries with one of its app keys. */
  #hold(entry: Entry, app: App): readonly string[] {
    entry.app = app
    return lookupsOf(app).flatMap((appKey) => this.#claim(appKey, entry).map((rival) => rival.key))
  }

  /** Returns the other entries with this app key. */
  #claim(appKey: string, entry: Entry): readonly Entry[] {
    const holder = this.#holders.get(appKey)
    if (holder === undefined) {
      this.#holders.set(appKey, entry)
      return []
    }
    const rivals = [...(this.#contested.get(appKey) ?? [holder]), entry]
    rivals.sort((one, other) => one.revision - other.revision)
    this.#contested.set(appKey, rivals)
    this.#holders.set(appKey, rivals[0])
    return rivals.filter((rival) => rival !== entry)
  }

  #setBad(entry: Entry, isBad: boolean): void {
    this.#badCount += Number(isBad) - Number(entry.isBad)
    entry.isBad = isBad
  }

  #remove(entry: Entry): void {
    this.#release(entry)
    this.#setBad(entry, false)
    this.#entries.delete(entry.key)
  }

  #release(entry: Entry): void {
    if (entry.app === null) return
    for (const appKey of lookupsOf(entry.app)) {
      const rivals = this.#contested.get(appKey)
      if (rivals === undefined) {
        this.#holders.delete(appKey)
        continue
      }
      const left = rivals.filter((rival) => rival !== entry)
      this.#holders.set(appKey, left[0])
      if (left.length > 1) this.#contested.set(appKey, left)
      else this.#contested.delete(appKey)
    }
  }
}

const TOO_MANY: ReadApp = { kind: 'mistakes', mistakes: [`more than ${MAX_ENTRIES} entries`] }

export function readEntry(key: string, text: string): ReadApp {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    // The message of JSON.parse quotes the record.
    return { kind: 'mistakes', mistakes: ['not JSON'] }
  }
  const read = readApp(value, '')
  if (read.kind === 'mistakes' || read.record.app_id === key) return read
  return { kind: 'mistakes', mistakes: ['app_id: not the key it is stored under'] }
}
