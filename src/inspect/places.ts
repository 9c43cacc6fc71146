// How many questions of a kind are answered at a time. Those of the operators that find no place are refused; those for one
// app wait a while, since they would else be refused for what another app's developers ask.

import type { Timers } from '../lib/timers.ts'
import type { Scope } from './scope.ts'

/** With the ten seconds that an answer may take, less than the process that passed the question on waits for it. */
const MAX_WAIT_MS = 4000

export class Places {
  readonly #timers: Timers
  readonly #most: number
  readonly #mostWaiting: number
  /** Apart, so that whoever has a read key takes no place of the operators. */
  readonly #taken = { all: 0, app: 0 }
  /** In the order in which they came. */
  readonly #waiting = new Set<() => void>()

  /** `mostWaiting`: of those for one app. */
  constructor(timers: Timers, most: number, mostWaiting: number) {
    this.#timers = timers
    this.#most = most
    this.#mostWaiting = mostWaiting
  }

  async within<Answer>(scope: Scope, work: () => Promise<Answer>): Promise<Answer | 'busy'> {
    const whose = scope === 'all' ? 'all' : 'app'
    if (this.#taken[whose] < this.#most) this.#taken[whose] += 1
    else if (whose === 'all' || !(await this.#place())) return 'busy'
    try {
      return await work()
    } finally {
      const next = whose === 'app' ? this.#waiting.values().next().value : undefined
      if (next === undefined) this.#taken[whose] -= 1
      else next()
    }
  }

  /** One that another leaves. false: none came free in time, or too many wait. */
  async #place(): Promise<boolean> {
    if (this.#waiting.size >= this.#mostWaiting) return false
    return await new Promise((resolve) => {
      const end = (isFree: boolean): void => {
        this.#waiting.delete(take)
        this.#timers.clear(timer)
        resolve(isFree)
      }
      const take = (): void => end(true)
      const timer = this.#timers.setTimeout(() => end(false), MAX_WAIT_MS)
      this.#waiting.add(take)
    })
  }
}
