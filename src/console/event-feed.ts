// The streams of the view Events: what the taps of this process, and of others, show to each watcher.

import type { Timers } from '../lib/timers.ts'
import { EachSecond } from './each-second.ts'
import type { EventFilter } from './event-filter.ts'
import { EVENTS_PER_SECOND, type EventRate, type TapListener } from './event-tap.ts'
import type { Watcher } from './watchers.ts'

/** The taps of this process, or those of others. */
export interface EventSource {
  /** Returns what ends the watch. */
  subscribe(filter: EventFilter, listener: TapListener): () => void
}

interface Watch {
  readonly watcher: Watcher
  shown: number
  seen: number
  unsearched: number
}

export class EventFeed {
  readonly #sources: readonly EventSource[]
  readonly #watches: EachSecond<Watch>

  constructor(sources: readonly EventSource[], timers: Timers) {
    this.#sources = sources
    this.#watches = new EachSecond(timers, tellRate)
  }

  /** Returns what ends the watch. */
  add(watcher: Watcher, filter: EventFilter): () => void {
    const watch: Watch = { watcher, shown: 0, seen: 0, unsearched: 0 }
    const listener: TapListener = {
      onEvent: (json) => show(watch, json),
      onRate: (rate) => count(watch, rate),
    }
    const ends = this.#sources.map((source) => source.subscribe(filter, listener))
    this.#watches.add(watch)
    return () => {
      for (const end of ends) end()
      this.#watches.delete(watch)
    }
  }
}

function tellRate(watch: Watch): void {
  const { watcher, seen, shown, unsearched } = watch
  watch.seen = 0
  watch.shown = 0
  watch.unsearched = 0
  const rate = { seen_per_second: seen, shown_per_second: shown }
  watcher.event('rate', JSON.stringify(unsearched === 0 ? rate : { ...rate, unsearched_per_second: unsearched }))
}

/** Many processes may each show as many as one watcher gets. */
function show(watch: Watch, json: string): void {
  if (watch.shown < EVENTS_PER_SECOND && watch.watcher.event('event', json)) watch.shown += 1
}

function count(watch: Watch, { seen, unsearched }: EventRate): void {
  watch.seen += seen
  watch.unsearched += unsearched
}
