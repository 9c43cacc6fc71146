// Timers that a test moves by hand: on time, or late, as those of a busy event loop are.

import type { Timer, Timers } from '../../src/lib/timers.ts'

interface Planned extends Timer {
  atMs: number
  readonly task: () => void
  readonly intervalMs: number | null
}

export class ManualTimers implements Timers {
  #nowMs = 0
  readonly #planned = new Set<Planned>()
  readonly #immediates: (() => void)[] = []

  nowMs(): number {
    return this.#nowMs
  }

  monotonicMs(): number {
    return this.#nowMs
  }

  setTimeout(task: () => void, delayMs: number): Timer {
    return this.#plan(task, delayMs, null)
  }

  setInterval(task: () => void, intervalMs: number): Timer {
    return this.#plan(task, intervalMs, intervalMs)
  }

  clear(timer: Timer): void {
    this.#planned.delete(timer as Planned)
  }

  setImmediate(task: () => void): void {
    this.#immediates.push(task)
  }

  /** The event loop does nothing for so long: what falls due comes late, with the next `pass`. */
  block(ms: number): void {
    this.#nowMs += ms
  }

  /** Time passes, and what falls due comes when it is due. */
  async pass(ms: number): Promise<void> {
    const untilMs = this.#nowMs + ms
    await this.#settle()
    for (;;) {
      const [next] = [...this.#planned].toSorted((one, other) => one.atMs - other.atMs)
      if (next === undefined || next.atMs > untilMs) break
      this.#nowMs = Math.max(this.#nowMs, next.atMs)
      if (next.intervalMs === null) this.#planned.delete(next)
      else next.atMs = this.#nowMs + next.intervalMs
      next.task()
      await this.#settle()
    }
    this.#nowMs = untilMs
  }

  #plan(task: () => void, delayMs: number, intervalMs: number | null): Timer {
    const planned: Planned = { atMs: this.#nowMs + delayMs, task, intervalMs, unref: () => {} }
    this.#planned.add(planned)
    return planned
  }

  /** Each immediate belongs to a turn of its own, before which promises and sockets had theirs. */
  async #settle(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve))
    for (let task = this.#immediates.shift(); task !== undefined; task = this.#immediates.shift()) {
      task()
      await new Promise((resolve) => setImmediate(resolve))
    }
  }
}
