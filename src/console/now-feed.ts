// The stream of the view Now: one report a second for all who watch, and none while nobody does.

import type { Timer, Timers } from '../lib/timers.ts'
import type { Now } from './now-answer.ts'
import type { Watcher } from './watchers.ts'

const INTERVAL_MS = 1000

export interface NowFeedOptions {
  readonly read: (options: { withHistory: boolean }) => Promise<Now>
  readonly timers: Timers
  readonly onFault: (error: unknown) => void
}

export class NowFeed {
  readonly #options: NowFeedOptions
  readonly #watchers = new Set<Watcher>()
  #timer: Timer | null = null
  #isReading = false

  constructor(options: NowFeedOptions) {
    this.#options = options
  }

  /** Returns what ends the watch. */
  add(watcher: Watcher): () => void {
    let isOver = false
    const first = async (): Promise<void> => {
      const now = await this.#read({ withHistory: true })
      if (isOver) return
      if (now !== null) watcher.event('now', now)
      this.#watchers.add(watcher)
      this.#timer ??= this.#options.timers.setInterval(() => void this.#tick(), INTERVAL_MS)
    }
    void first()
    return () => {
      isOver = true
      this.#watchers.delete(watcher)
      if (this.#watchers.size > 0 || this.#timer === null) return
      this.#options.timers.clear(this.#timer)
      this.#timer = null
    }
  }

  async #tick(): Promise<void> {
    // Other nodes may take longer to answer than an interval.
    if (this.#isReading) return
    this.#isReading = true
    const now = await this.#read({ withHistory: false })
    this.#isReading = false
    if (now !== null) for (const watcher of this.#watchers) watcher.event('now', now)
  }

  /** As JSON; null: it failed, and the next second tries again. */
  async #read(options: { withHistory: boolean }): Promise<string | null> {
    try {
      return JSON.stringify(await this.#options.read(options))
    } catch (error) {
      this.#options.onFault(error)
      return null
    }
  }
}
