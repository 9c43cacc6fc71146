// The stream of the view Now: one report a second for all who watch, and none while nobody does.

import type { Now } from '../../contract/admin/now.ts'
import type { Range } from '../../contract/admin/words.ts'
import type { Timers } from '../../lib/timers.ts'
import { WhileAny } from '../../lib/while-any.ts'
import type { Watcher } from './live-list.ts'

const INTERVAL_MS = 1000

export interface NowFeedOptions {
  readonly read: (range: Range | null) => Promise<Now>
  readonly timers: Timers
  readonly onFault: (error: unknown) => void
}

export class NowFeed {
  readonly #options: NowFeedOptions
  readonly #watchers: WhileAny<Watcher>
  #isReading = false

  constructor(options: NowFeedOptions) {
    this.#options = options
    this.#watchers = new WhileAny(options.timers, INTERVAL_MS, (watchers) => void this.#tick(watchers))
  }

  /** Returns what ends the watch. */
  add(watcher: Watcher): () => void {
    let isOver = false
    const first = async (): Promise<void> => {
      const now = await this.#read('15m')
      if (isOver) return
      if (now !== null) watcher.event('now', now)
      this.#watchers.add(watcher)
    }
    void first()
    return () => {
      isOver = true
      this.#watchers.delete(watcher)
    }
  }

  async #tick(watchers: ReadonlySet<Watcher>): Promise<void> {
    // Other nodes may take longer to answer than an interval.
    if (this.#isReading) return
    this.#isReading = true
    const now = await this.#read(null)
    this.#isReading = false
    if (now !== null) for (const watcher of watchers) watcher.event('now', now)
  }

  /** As JSON; null: it failed, and the next second tries again. */
  async #read(range: Range | null): Promise<string | null> {
    try {
      return JSON.stringify(await this.#options.read(range))
    } catch (error) {
      this.#options.onFault(error)
      return null
    }
  }
}
