// The refusals of this process, live, for those who watch. In an overload there are thousands: the ones beyond a rate are
// only counted.

import type { Timers } from '../lib/timers.ts'
import { WhileAny } from '../lib/while-any.ts'
import type { Listener, LiveKind, LiveSource } from './live-list.ts'
import type { Refusal } from './refusal.ts'
import { fitsRefusal, type RefusalFilter, shownRefusal } from './refusal-view.ts'

const MAX_REFUSALS_PER_SECOND = 200

export const REFUSALS: LiveKind = {
  name: 'refusal',
  mostPerSecond: MAX_REFUSALS_PER_SECOND,
  report: (watcher, { skipped: count }) => count === 0 || watcher.event('skipped', JSON.stringify({ count })),
}

/** What this process refuses. */
export interface RefusalOutlet {
  onRefused: ((refusal: Refusal) => void) | null
}

interface Watch {
  readonly filter: RefusalFilter
  readonly listener: Listener
  seen: number
}

export class LiveRefusals implements LiveSource<RefusalFilter> {
  readonly #outlet: RefusalOutlet
  readonly #node: string
  readonly #watches: WhileAny<Watch>

  constructor(outlet: RefusalOutlet, { node, timers }: { node: string; timers: Timers }) {
    this.#outlet = outlet
    this.#node = node
    this.#watches = new WhileAny(timers, 1000, (watches) => {
      for (const watch of watches) reportRate(watch)
    })
  }

  subscribe(filter: RefusalFilter, listener: Listener): () => void {
    const watch: Watch = { filter, listener, seen: 0 }
    this.#watches.add(watch)
    this.#outlet.onRefused = this.#refused
    return () => {
      this.#watches.delete(watch)
      if (this.#watches.all.size === 0) this.#outlet.onRefused = null
    }
  }

  readonly #refused = (refusal: Refusal): void => {
    for (const watch of this.#watches.all) {
      if (!fitsRefusal(watch.filter, refusal)) continue
      watch.seen += 1
      if (watch.seen > MAX_REFUSALS_PER_SECOND) continue
      watch.listener.onItem(JSON.stringify(shownRefusal(refusal, this.#node)))
    }
  }
}

function reportRate(watch: Watch): void {
  const { seen, listener } = watch
  watch.seen = 0
  if (seen > 0) listener.onRate({ seen, shown: Math.min(seen, MAX_REFUSALS_PER_SECOND), unsearched: 0 })
}
