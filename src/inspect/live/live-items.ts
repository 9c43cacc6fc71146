// What this process shows live, one item after the other, to those who watch. In an overload there are thousands: the ones
// beyond a rate are only counted.

import type { Timers } from '../../lib/timers.ts'
import { WhileAny } from '../../lib/while-any.ts'
import type { Listener, LiveSource } from './live-list.ts'

export interface LiveItemsOptions<Filter, Item> {
  readonly mostPerSecond: number
  readonly fits: (filter: Filter, item: Item) => boolean
  /** As JSON on one line. */
  readonly shown: (item: Item) => string
  /** `offer`: where items go from now on; null: nobody watches. */
  readonly onWatched: (offer: ((item: Item) => void) | null) => void
  readonly timers: Timers
}

interface Watch<Filter> {
  readonly filter: Filter
  readonly listener: Listener
  seen: number
}

export class LiveItems<Filter, Item> implements LiveSource<Filter> {
  readonly #options: LiveItemsOptions<Filter, Item>
  readonly #watches: WhileAny<Watch<Filter>>

  constructor(options: LiveItemsOptions<Filter, Item>) {
    this.#options = options
    this.#watches = new WhileAny(options.timers, 1000, (watches) => {
      for (const watch of watches) this.#reportRate(watch)
    })
  }

  subscribe(filter: Filter, listener: Listener): () => void {
    const watch: Watch<Filter> = { filter, listener, seen: 0 }
    this.#watches.add(watch)
    this.#options.onWatched(this.#offer)
    return () => {
      this.#watches.delete(watch)
      if (this.#watches.all.size === 0) this.#options.onWatched(null)
    }
  }

  readonly #offer = (item: Item): void => {
    const { fits, shown, mostPerSecond } = this.#options
    for (const watch of this.#watches.all) {
      if (!fits(watch.filter, item)) continue
      watch.seen += 1
      if (watch.seen <= mostPerSecond) watch.listener.onItem(shown(item))
    }
  }

  #reportRate(watch: Watch<Filter>): void {
    const { seen, listener } = watch
    watch.seen = 0
    if (seen > 0) listener.onRate({ seen, shown: Math.min(seen, this.#options.mostPerSecond), unsearched: 0 })
  }
}
