// A set, and a timer that runs while there is anything in it.

import type { Timer, Timers } from './timers.ts'

export class WhileAny<T> {
  readonly #timers: Timers
  readonly #intervalMs: number
  readonly #onInterval: (all: ReadonlySet<T>) => void
  readonly #all = new Set<T>()
  #timer: Timer | null = null

  constructor(timers: Timers, intervalMs: number, onInterval: (all: ReadonlySet<T>) => void) {
    this.#timers = timers
    this.#intervalMs = intervalMs
    this.#onInterval = onInterval
  }

  get all(): ReadonlySet<T> {
    return this.#all
  }

  add(one: T): void {
    this.#all.add(one)
    this.#timer ??= this.#timers.setInterval(() => this.#onInterval(this.#all), this.#intervalMs)
  }

  /** false: it was not in the set. */
  delete(one: T): boolean {
    const wasThere = this.#all.delete(one)
    if (this.#all.size === 0) this.clear()
    return wasThere
  }

  clear(): void {
    this.#all.clear()
    if (this.#timer !== null) this.#timers.clear(this.#timer)
    this.#timer = null
  }
}
