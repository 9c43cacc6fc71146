// What was in NATS when somebody last looked: a record of the three stores, kept by each node in its memory, in Redis and
// in the bucket SLUICE_COUNTS, so that a loss is noticed as long as one of them still knows.

import { APPS_BUCKET, COUNTS_BUCKET, EVENTS_STREAM, streamOfBucket } from '../nats/store-names.ts'
import type { StoredState } from '../nats/stored-state.ts'

export type StoreName = 'stream' | 'apps' | 'counts'
export const STORE_NAMES = ['stream', 'apps', 'counts'] as const satisfies readonly StoreName[]

/** What JetStream calls them. */
export const STREAM_OF: Readonly<Record<StoreName, string>> = {
  stream: EVENTS_STREAM,
  apps: streamOfBucket(APPS_BUCKET),
  counts: streamOfBucket(COUNTS_BUCKET),
}

export interface KnownStore extends StoredState {
  /** Grows when a store replaces the known one: Unix ms. The greatest is the one that holds. */
  readonly generation: number
}

export type KnownStores = Readonly<Partial<Record<StoreName, KnownStore | undefined>>>

export interface InstallationRecord {
  readonly v: 1
  readonly writtenAtMs: number
  /** null: no node has written it yet. */
  readonly partitions: number | null
  readonly stores: KnownStores
  /** When the streams that were here before were created, the newest first. */
  readonly formerStreams?: readonly string[]
}

export type LossKind = 'absent' | 'new' | 'shorter' | 'emptied' | 'overwritten'

/** Part of the age that a message has to reach to be removed for it: clocks differ. */
const OLD_ENOUGH_SHARE = 0.9

/** null: it is not a record of this version. */
export function parseRecord(text: string | null | undefined): InstallationRecord | null {
  try {
    const record = JSON.parse(text ?? '') as InstallationRecord
    const isStore = (store: KnownStore | undefined): boolean =>
      store === undefined ||
      (typeof store.createdAt === 'string' &&
        [store.generation, store.messages, store.firstSequence, store.lastSequence].every(Number.isSafeInteger))
    const { v, partitions, stores, formerStreams = [] } = record
    const isValid =
      v === 1 &&
      (partitions === null || Number.isSafeInteger(partitions)) &&
      formerStreams.every((createdAt) => typeof createdAt === 'string')
    return isValid && STORE_NAMES.every((name) => isStore(stores[name])) ? record : null
  } catch {
    return null
  }
}

/** Of several opinions of a store the one that holds. */
export function newestOf(...known: readonly (KnownStore | undefined)[]): KnownStore | undefined {
  let newest: KnownStore | undefined
  for (const one of known) {
    if (one === undefined) continue
    const lead = newest === undefined ? 1 : one.generation - newest.generation
    if (lead > 0 || (lead === 0 && one.lastSequence > newest!.lastSequence)) newest = one
  }
  return newest
}

export function newestStores(...records: readonly (KnownStores | undefined)[]): KnownStores {
  const stores: Partial<Record<StoreName, KnownStore>> = {}
  for (const name of STORE_NAMES) {
    const newest = newestOf(...records.map((record) => record?.[name]))
    if (newest !== undefined) stores[name] = newest
  }
  return stores
}

/** What is missing of what was known; null: nothing. `seen` null: there is no such store. */
export function lossOf(
  name: StoreName,
  known: StoredState,
  seen: StoredState | null,
  nowMs: number,
): Exclude<LossKind, 'overwritten'> | null {
  if (known.messages === 0) return null
  if (seen === null) return 'absent'
  // Somebody has brought the app records back by other means than ours.
  if (seen.createdAt !== known.createdAt) return name === 'apps' && seen.messages >= known.messages ? null : 'new'
  if (seen.lastSequence < known.lastSequence) return 'shorter'
  return isEmptied(name, known, seen, nowMs) ? 'emptied' : null
}

/** Whether nothing is left of what was there, other than by its age. Entries of buckets are replaced all the time. */
function isEmptied(name: StoreName, known: StoredState, seen: StoredState, nowMs: number): boolean {
  if (name !== 'stream') return seen.messages === 0
  const isOld = seen.keepMs !== null && (known.lastAtMs ?? 0) + OLD_ENOUGH_SHARE * seen.keepMs <= nowMs
  return seen.firstSequence > known.lastSequence && !isOld
}
