// The log lines of an outage of Redis: each kind of fault once, and how long the outage was once it is over.

import type { OnNotice } from '../lib/notice.ts'
import type { Timers } from '../lib/timers.ts'
import type { RedisFault } from './fault.ts'

/** Kinds of fault logged during one outage. */
const MAX_KINDS_LOGGED = 8

export class OutageLog {
  readonly #timers: Timers
  readonly #onNotice: OnNotice
  /** null: Redis is up. */
  #outage: { readonly sinceMs: number; readonly kindsLogged: Set<string> } | null = null

  constructor(timers: Timers, onNotice: OnNotice) {
    this.#timers = timers
    this.#onNotice = onNotice
  }

  away({ kind, reason }: RedisFault): void {
    this.#outage ??= { sinceMs: this.#timers.monotonicMs(), kindsLogged: new Set() }
    const { kindsLogged } = this.#outage
    if (kindsLogged.has(kind) || kindsLogged.size >= MAX_KINDS_LOGGED) return
    kindsLogged.add(kind)
    this.#onNotice(`Redis is away: ${reason}; enforcing the local share of each limit until Redis is back`)
  }

  back(): void {
    if (this.#outage === null) return
    const seconds = (this.#timers.monotonicMs() - this.#outage.sinceMs) / 1000
    this.#outage = null
    this.#onNotice(`Redis is back after ${seconds.toFixed(1)} s`, 'info')
  }
}
