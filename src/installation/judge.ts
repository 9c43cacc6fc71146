// What a look at a store means beside what was known of it: whether something is lost, and what is known from now on. Pure.

import type { StoredState } from '../nats/stored-state.ts'
import { type KnownStore, type LossKind, lossOf, newestOf, type StoreName } from './record.ts'

/** A server that is cut off from the others, or has just started, may answer for this long with less than there is. */
const MISSING_FOR_MS = 15_000

/** What this process keeps of a store. */
export interface StoreMemory {
  readonly known: KnownStore | undefined
  /** The generation whose loss was reported, and that stays the known one until there is another. */
  readonly reported: number | null
  /** Since when less is there than was known, by the monotonic clock; null: it is not. */
  readonly missingSinceMs: number | null
}

export const NOTHING: StoreMemory = { known: undefined, reported: null, missingSinceMs: null }

export interface Look {
  /** null: there is no such store. */
  readonly seen: StoredState | null
  /** What others, or an earlier process, have written down. */
  readonly others: KnownStore | undefined
  /** Another message has the number of the last one that was known. */
  readonly isOverwritten: boolean
  readonly nowMs: number
  readonly atMs: number
}

/** `loss`: to be reported; null: nothing is lost, or it was reported. */
export function judge(
  name: StoreName,
  memory: StoreMemory,
  look: Look,
): { memory: StoreMemory; loss: LossKind | null } {
  const { seen, others, isOverwritten, nowMs, atMs } = look
  const remember = (before: StoreMemory, generation: number): StoreMemory =>
    seen === null ? before : { ...before, known: { ...seen, generation }, missingSinceMs: null }
  const known = memory.known ?? others
  if (known === undefined) return { memory: remember(memory, nowMs), loss: null }
  const loss = lossOf(name, known, seen, nowMs) ?? (isOverwritten ? 'overwritten' : null)
  const mayReturn = loss === 'shorter' || loss === 'absent'
  const missingSinceMs = mayReturn ? (memory.missingSinceMs ?? atMs) : null
  if (loss === null) {
    const same = seen?.createdAt === known.createdAt ? newestOf(known, others) : undefined
    return { memory: remember({ ...memory, missingSinceMs }, same?.generation ?? nowMs), loss }
  }
  if (missingSinceMs !== null && atMs - missingSinceMs < MISSING_FOR_MS)
    return { memory: { ...memory, missingSinceMs }, loss: null }
  const told = { ...memory, missingSinceMs, reported: known.generation }
  const news = memory.reported === known.generation ? null : loss
  if (others !== undefined && others !== known && lossOf(name, others, seen, nowMs) === null)
    return { memory: remember(told, others.generation), loss: news }
  // App records are used again once somebody has brought them back, or has said that none is meant.
  if (name === 'apps' && (loss === 'new' || loss === 'emptied')) return { memory: told, loss: news }
  const next = Math.max(nowMs, known.generation + 1, (others?.generation ?? 0) + 1)
  return { memory: remember(told, next), loss: news }
}
