// What waits for a call to Redis, and what of it one call takes.

import type { AppBudget, Take } from './app-budget.ts'
import type { SeenPartitions } from './seen-partitions.ts'
import type { AppQuestion, Question } from './take.ts'

/** Per call, for takes, accepted keys and released keys each, so that a call blocks Redis for a few ms at most. */
const MAX_TAKES = 256
/** A take that has waited longer for its call is not sent. */
const MAX_WAIT_MS = 250
/** Accepted keys not yet written to Redis, of all groups. Beyond, the oldest are dropped: the queue's duplicate window covers them. */
const MAX_PENDING_KEYS = 100_000

export interface AcceptedKey {
  readonly partition: number
  /** As `acceptedText` makes it. */
  readonly accepted: string
  /** By the monotonic clock. */
  readonly rememberedUntilMs: number
}

/** What shares calls: everything, or on a cluster one partition, since a call may use one hash slot only. */
export class CallGroup {
  /** -1: of all. */
  readonly partition: number
  readonly budgets = new Set<AppBudget>()
  /** Those whose counts Redis has lost: sent again where a call has room. */
  readonly lostBudgets = new Set<AppBudget>()
  releasedKeys: string[] = []
  readonly acceptedKeys = new Map<string, AcceptedKey>()
  /** Partitions whose beat the next call raises. */
  beats: number[] = []
  callsUnderway = 0
  isScheduled = false
  /** The cluster does not serve the partition's hash slot: no take waits, and `probe` alone sends what does. */
  isUnserved = false
  readonly #mostKeys: number

  /** `groups`: as many are there, at most. */
  constructor(partition: number, groups: number) {
    this.partition = partition
    this.#mostKeys = Math.ceil(MAX_PENDING_KEYS / groups)
  }

  get isEmpty(): boolean {
    const { budgets, lostBudgets, releasedKeys, acceptedKeys, beats } = this
    return budgets.size + lostBudgets.size + releasedKeys.length + acceptedKeys.size + beats.length === 0
  }

  dropOldestKeys(): void {
    for (const oldest of this.acceptedKeys.keys()) {
      if (this.acceptedKeys.size <= this.#mostKeys) return
      this.acceptedKeys.delete(oldest)
    }
  }
}

export interface Call {
  readonly question: Question
  /** In the order of `question.apps`. */
  readonly budgets: readonly { readonly budget: AppBudget; readonly takes: readonly Take[]; readonly isLost: boolean }[]
  readonly acceptedKeys: ReadonlyMap<string, AcceptedKey>
}

interface Asker {
  readonly nodeId: string
  /** By the monotonic clock. */
  readonly atMs: number
  readonly seen: SeenPartitions
}

/** Takes from a group what fits into one call. */
export function gather(group: CallGroup, { nodeId, atMs, seen }: Asker): Call {
  const acceptedKeys = new Map<string, AcceptedKey>()
  for (const [key, value] of group.acceptedKeys) {
    if (acceptedKeys.size === MAX_TAKES) break
    group.acceptedKeys.delete(key)
    if (value.rememberedUntilMs > atMs) acceptedKeys.set(key, value)
  }
  const budgets: { budget: AppBudget; takes: Take[]; isLost: boolean }[] = []
  const apps: AppQuestion[] = []
  let left = MAX_TAKES
  for (const budget of group.lostBudgets) {
    if (group.budgets.size >= left) break
    group.budgets.add(budget)
  }
  for (const budget of group.budgets) {
    if (left <= 0) break
    const drained = budget.drain(left)
    const takes = drained.takes.filter((take) => {
      const isLate = atMs - take.askedAtMs > MAX_WAIT_MS
      if (isLate) take.resolve('unsent')
      return !isLate
    })
    // An app without takes costs Redis about as much as one take.
    left -= Math.max(1, takes.length)
    if (budget.takes.length === 0) group.budgets.delete(budget)
    const { partition, app, cycle } = budget
    // Corrections alone request no refill: one of them may have just emptied the token budget of an idle app.
    const wanted = takes.length > 0 || budget.needsRefill ? budget.refillAt(atMs) : 0
    budget.needsRefill = false
    const closedMinute = seen.closedMinuteOf(partition)
    const acknowledged = budget.acknowledged.filter(({ minute }) => minute > closedMinute)
    budgets.push({ budget, takes, isLost: group.lostBudgets.delete(budget) })
    apps.push({ partition, app, cycle, wanted, acknowledged, corrections: drained.corrections, takes })
  }
  const question: Question = {
    nodeId,
    accepted: Array.from(acceptedKeys, ([key, { accepted, rememberedUntilMs }]) => {
      return { key, accepted, rememberedMs: Math.ceil(rememberedUntilMs - atMs) }
    }),
    released: group.releasedKeys.splice(0, MAX_TAKES),
    partitions: seen.questionsOf(apps, new Set(group.beats.splice(0))),
    apps,
  }
  return { question, budgets, acceptedKeys }
}
