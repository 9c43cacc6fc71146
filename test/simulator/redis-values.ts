// The data of a simulated Redis: values that expire by its clock, and that can be copied and restored.

import { ReplyError } from './reply.ts'

export type Hash = Map<string, string>
export type SortedSet = Map<string, number>
type Value =
  | { readonly kind: 'string'; text: string }
  | { readonly kind: 'hash'; readonly fields: Hash }
  | { readonly kind: 'set'; readonly members: Set<string> }
  | { readonly kind: 'zset'; readonly scores: SortedSet }

interface Entry {
  readonly value: Value
  /** Unix ms by Redis's clock; null: it does not expire. */
  expiresAtMs: number | null
}

export const WRONG_TYPE = 'WRONGTYPE Operation against a key holding the wrong kind of value'

export class RedisValues {
  #entries = new Map<string, Entry>()
  readonly #nowMs: () => number

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs
  }

  get size(): number {
    return this.keys().length
  }

  keys(): string[] {
    return [...this.#entries.keys()].filter((key) => this.#find(key) !== undefined)
  }

  clear(): void {
    this.#entries.clear()
  }

  copy(): ReadonlyMap<string, Entry> {
    return copyOf(this.#entries)
  }

  /** Values that have expired since the copy stay gone. */
  restore(copy: ReadonlyMap<string, Entry>): void {
    this.#entries = copyOf(copy)
  }

  has(key: string): boolean {
    return this.#find(key) !== undefined
  }

  typeOf(key: string): Value['kind'] | 'none' {
    return this.#find(key)?.value.kind ?? 'none'
  }

  delete(key: string): boolean {
    return this.has(key) && this.#entries.delete(key)
  }

  text(key: string): string | null {
    const value = this.#find(key)?.value
    if (value === undefined) return null
    if (value.kind !== 'string') throw new ReplyError(WRONG_TYPE)
    return value.text
  }

  /** `expiresAtMs` undefined: unchanged. */
  setText(key: string, text: string, expiresAtMs?: number | null): void {
    const kept = this.#find(key)?.expiresAtMs ?? null
    this.#entries.set(key, {
      value: { kind: 'string', text },
      expiresAtMs: expiresAtMs === undefined ? kept : expiresAtMs,
    })
  }

  hash(key: string): Hash | null {
    const value = this.#find(key)?.value
    if (value === undefined) return null
    if (value.kind !== 'hash') throw new ReplyError(WRONG_TYPE)
    return value.fields
  }

  hashToWrite(key: string): Hash {
    const found = this.hash(key)
    if (found !== null) return found
    const fields: Hash = new Map()
    this.#entries.set(key, { value: { kind: 'hash', fields }, expiresAtMs: null })
    return fields
  }

  set(key: string): Set<string> | null {
    const value = this.#find(key)?.value
    if (value === undefined) return null
    if (value.kind !== 'set') throw new ReplyError(WRONG_TYPE)
    return value.members
  }

  setToWrite(key: string): Set<string> {
    const found = this.set(key)
    if (found !== null) return found
    const members = new Set<string>()
    this.#entries.set(key, { value: { kind: 'set', members }, expiresAtMs: null })
    return members
  }

  sorted(key: string): SortedSet | null {
    const value = this.#find(key)?.value
    if (value === undefined) return null
    if (value.kind !== 'zset') throw new ReplyError(WRONG_TYPE)
    return value.scores
  }

  sortedToWrite(key: string): SortedSet {
    const found = this.sorted(key)
    if (found !== null) return found
    const scores: SortedSet = new Map()
    this.#entries.set(key, { value: { kind: 'zset', scores }, expiresAtMs: null })
    return scores
  }

  /** `expiresAtMs` null: it does not expire. Returns false if there is no such key. */
  expire(key: string, expiresAtMs: number | null): boolean {
    const entry = this.#find(key)
    if (entry === undefined) return false
    entry.expiresAtMs = expiresAtMs
    if (expiresAtMs !== null && expiresAtMs <= this.#nowMs()) this.#entries.delete(key)
    return true
  }

  expiresAtMs(key: string): number | null {
    return this.#find(key)?.expiresAtMs ?? null
  }

  /** In Redis an empty collection does not exist. */
  dropEmpty(key: string, size: number): void {
    if (size === 0) this.#entries.delete(key)
  }

  #find(key: string): Entry | undefined {
    const entry = this.#entries.get(key)
    if (entry === undefined || entry.expiresAtMs === null || entry.expiresAtMs > this.#nowMs()) return entry
    this.#entries.delete(key)
    return undefined
  }
}

function copyOf(entries: ReadonlyMap<string, Entry>): Map<string, Entry> {
  return new Map(
    Array.from(entries, ([key, { value, expiresAtMs }]) => [key, { value: copyOfValue(value), expiresAtMs }]),
  )
}

function copyOfValue(value: Value): Value {
  switch (value.kind) {
    case 'string':
      return { kind: 'string', text: value.text }
    case 'hash':
      return { kind: 'hash', fields: new Map(value.fields) }
    case 'set':
      return { kind: 'set', members: new Set(value.members) }
    case 'zset':
      return { kind: 'zset', scores: new Map(value.scores) }
  }
}
