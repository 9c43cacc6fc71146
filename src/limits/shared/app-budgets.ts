// The budgets of every app that this node has served lately.

import type { App } from '../../apps/app.ts'
import { partitionOf } from '../../contract/partition.ts'
import { AppBudget } from './app-budget.ts'

const FORGET_AFTER_MS = 600_000
/** Budgets looked at in one pass, so that it never blocks the event loop for long. */
const MAX_CHECKED = 5000

export class AppBudgets {
  readonly #partitions: number
  readonly #budgets = new Map<string, AppBudget>()
  /** Those whose token budget may hold events. */
  readonly withTokens = new Set<AppBudget>()
  /** Where the next pass of `forgetIdle` goes on. */
  #cursor: IterableIterator<[string, AppBudget]>

  constructor(partitions: number) {
    this.#partitions = partitions
    this.#cursor = this.#budgets.entries()
  }

  find(appId: string): AppBudget | undefined {
    return this.#budgets.get(appId)
  }

  get(app: App): AppBudget {
    let budget = this.#budgets.get(app.appId)
    if (budget === undefined) {
      budget = new AppBudget(app, partitionOf(app.appId, this.#partitions))
      this.#budgets.set(app.appId, budget)
    }
    return budget
  }

  /** Those for which Redis has acknowledged events lately. */
  *acknowledgedIn(partitions: readonly number[]): Generator<AppBudget> {
    const wanted = new Set(partitions)
    for (const budget of this.#budgets.values()) {
      if (budget.acknowledged.length > 0 && wanted.has(budget.partition)) yield budget
    }
  }

  /** Looks at the next MAX_CHECKED budgets. */
  forgetIdle(atMs: number): void {
    for (let count = 0; count < MAX_CHECKED; count++) {
      const next = this.#cursor.next()
      if (next.done === true) {
        this.#cursor = this.#budgets.entries()
        return
      }
      const [appId, budget] = next.value
      if (atMs - budget.usedAtMs > FORGET_AFTER_MS) this.#budgets.delete(appId)
    }
  }
}
