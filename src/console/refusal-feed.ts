// The streams of refusals, of this process and of others.

import type { Timers } from '../lib/timers.ts'
import { EachSecond } from './each-second.ts'
import type { ShownRefusal } from './refusal.ts'
import type { RefusalFilter } from './refusal-view.ts'
import type { Watcher } from './watchers.ts'

/** In an overload there are thousands. Those beyond are counted. */
export const MAX_REFUSALS_PER_SECOND = 200

export interface RefusalListener {
  readonly onRefusal: (refusal: ShownRefusal) => void
  /** So many were left out on the way. */
  readonly onSkipped: (count: number) => void
}

export interface LiveRefusals {
  /** Returns what ends the watch. */
  subscribe(filter: RefusalFilter, listener: RefusalListener): () => void
}

interface Watch {
  readonly watcher: Watcher
  sent: number
  skipped: number
}

export class RefusalFeed {
  readonly #sources: readonly LiveRefusals[]
  readonly #watches: EachSecond<Watch>

  constructor(sources: readonly LiveRefusals[], timers: Timers) {
    this.#sources = sources
    this.#watches = new EachSecond(timers, tellSkipped)
  }

  /** `earlier`: those that are sent first, oldest first. Returns what ends the watch. */
  add(watcher: Watcher, filter: RefusalFilter, earlier: Promise<readonly ShownRefusal[]>): () => void {
    const watch: Watch = { watcher, sent: 0, skipped: 0 }
    /** What comes before the earlier ones are sent. null: they are. */
    let waiting: ShownRefusal[] | null = []
    const send = (refusal: ShownRefusal): void => {
      if (watch.sent < MAX_REFUSALS_PER_SECOND && watcher.event('refusal', JSON.stringify(refusal))) watch.sent += 1
      else watch.skipped += 1
    }
    const ends = this.#sources.map((source) =>
      source.subscribe(filter, {
        onRefusal: (refusal) => {
          if (waiting === null) send(refusal)
          else if (waiting.length < MAX_REFUSALS_PER_SECOND) waiting.push(refusal)
          else watch.skipped += 1
        },
        onSkipped: (count) => {
          watch.skipped += count
        },
      }),
    )
    const sendEarlier = async (): Promise<void> => {
      const first = await earlier
      const known = new Set(first.map(({ request_id }) => request_id))
      const late = (waiting ?? []).filter(({ request_id }) => !known.has(request_id))
      waiting = null
      const all = [...first, ...late].map((refusal) => JSON.stringify(refusal))
      watch.skipped += all.length - watcher.events('refusal', all)
    }
    void sendEarlier()
    this.#watches.add(watch)
    return () => {
      for (const end of ends) end()
      this.#watches.delete(watch)
    }
  }
}

function tellSkipped(watch: Watch): void {
  if (watch.skipped > 0 && watch.watcher.event('skipped', JSON.stringify({ count: watch.skipped }))) watch.skipped = 0
  watch.sent = 0
}
