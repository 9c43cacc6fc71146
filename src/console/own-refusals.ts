// The refusals of this process, live, for those who watch. In an overload the ones beyond a rate are only counted.

import type { Timer, Timers } from '../lib/timers.ts'
import type { Refusal } from './refusal.ts'
import { type LiveRefusals, MAX_REFUSALS_PER_SECOND, type RefusalListener } from './refusal-feed.ts'
import { fitsRefusal, type RefusalFilter, shownRefusal } from './refusal-view.ts'

/** What this process refuses. */
export interface RefusalOutlet {
  onRefused: ((refusal: Refusal) => void) | null
}

interface Watch {
  readonly filter: RefusalFilter
  readonly listener: RefusalListener
  sent: number
  skipped: number
}

export class OwnRefusals implements LiveRefusals {
  readonly #source: RefusalOutlet
  readonly #node: string
  readonly #timers: Timers
  readonly #watches = new Set<Watch>()
  #ticking: Timer | null = null

  constructor(source: RefusalOutlet, { node, timers }: { node: string; timers: Timers }) {
    this.#source = source
    this.#node = node
    this.#timers = timers
  }

  subscribe(filter: RefusalFilter, listener: RefusalListener): () => void {
    const watch: Watch = { filter, listener, sent: 0, skipped: 0 }
    this.#watches.add(watch)
    this.#source.onRefused = this.#refused
    this.#ticking ??= this.#timers.setInterval(() => this.#tick(), 1000)
    return () => {
      this.#watches.delete(watch)
      if (this.#watches.size > 0) return
      this.#source.onRefused = null
      if (this.#ticking !== null) this.#timers.clear(this.#ticking)
      this.#ticking = null
    }
  }

  readonly #refused = (refusal: Refusal): void => {
    for (const watch of this.#watches) {
      if (!fitsRefusal(watch.filter, refusal)) continue
      if (watch.sent >= MAX_REFUSALS_PER_SECOND) watch.skipped += 1
      else {
        watch.sent += 1
        watch.listener.onRefusal(shownRefusal(refusal, this.#node))
      }
    }
  }

  #tick(): void {
    for (const watch of this.#watches) {
      if (watch.skipped > 0) watch.listener.onSkipped(watch.skipped)
      watch.skipped = 0
      watch.sent = 0
    }
  }
}
