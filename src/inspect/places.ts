// How many questions of a kind are answered at a time. Those of the operators that find no place are refused; those of an
// app's developers wait a while, and apps take turns, since they would else be refused for what another app's developers ask.

import type { Timers } from '../lib/timers.ts'
import { isOfOperators, type Scope } from './scope.ts'

/** With the ten seconds that an answer may take, less than the process that passed the question on waits for it. */
const MAX_WAIT_MS = 4000
/** Of those that wait, the share that one app may have. */
const SHARE_OF_AN_APP = 1 / 4

export class Places {
  readonly #timers: Timers
  readonly #most: number
  readonly #mostWaiting: number
  /** Apart, so that whoever has a read key takes no place of the operators. */
  readonly #taken = { all: 0, app: 0 }
  /** By app, in the order in which it is their turn; those of one app in the order in which they came. */
  readonly #waiting = new Map<string, Set<() => void>>()
  #waitingCount = 0

  /** `mostWaiting`: of those for one app. */
  constructor(timers: Timers, most: number, mostWaiting: number) {
    this.#timers = timers
    this.#most = most
    this.#mostWaiting = mostWaiting
  }

  async within<Answer>(scope: Scope, work: () => Promise<Answer>): Promise<Answer | 'busy'> {
    const app = isOfOperators(scope) ? null : scope.appId
    const whose = app === null ? 'all' : 'app'
    if (this.#taken[whose] < this.#most) this.#taken[whose] += 1
    else if (app === null || !(await this.#place(app))) return 'busy'
    try {
      return await work()
    } finally {
      const take = whose === 'app' ? this.#next() : null
      if (take === null) this.#taken[whose] -= 1
      else take()
    }
  }

  /** The next one of the app whose turn it is, and then the others go before that app. null: none waits. */
  #next(): (() => void) | null {
    for (const [app, own] of this.#waiting) {
      this.#waiting.delete(app)
      this.#waiting.set(app, own)
      for (const take of own) return take
    }
    return null
  }

  /** One that another leaves. false: none came free in time, or too many wait. */
  async #place(app: string): Promise<boolean> {
    const own = this.#waiting.get(app) ?? new Set()
    if (this.#waitingCount >= this.#mostWaiting || own.size >= this.#mostWaiting * SHARE_OF_AN_APP) return false
    return await new Promise((resolve) => {
      const end = (isFree: boolean): void => {
        own.delete(take)
        if (own.size === 0) this.#waiting.delete(app)
        this.#waitingCount -= 1
        this.#timers.clear(timer)
        resolve(isFree)
      }
      const take = (): void => end(true)
      const timer = this.#timers.setTimeout(() => end(false), MAX_WAIT_MS)
      own.add(take)
      this.#waiting.set(app, own)
      this.#waitingCount += 1
    })
  }
}
