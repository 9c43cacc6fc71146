// The live streams of events, refusals and alerts: what fits a filter, as it comes, in this process and in others. Bounded in
// items a second; the others are counted.

import type { Rate } from '../../contract/admin/peers.ts'
import type { Timers } from '../../lib/timers.ts'
import { WhileAny } from '../../lib/while-any.ts'
import type { Writable } from '../../lib/writable.ts'

/** Of an item's JSON: the id of its message, from which a watcher goes on after a break. */
export type IdOf = (json: string) => string

/** Who watches. It is sent what it has room for, and nothing waits for it. */
export interface Watcher {
  /** false: the watcher reads too slowly or has left, and this event is skipped. */
  event(name: string, json: string, id?: string): boolean
  /** Several at once; where they are too many, the last ones. Returns how many were sent. */
  events(name: string, jsons: readonly string[], idOf?: IdOf): number
}

export interface Listener {
  /** JSON on one line. The same item has the same text wherever it is written. */
  readonly onItem: (json: string) => void
  /** Once a second, or less often where nothing is to say. */
  readonly onRate: (rate: Rate) => void
}

/** This process, or the others. */
export interface LiveSource<Filter> {
  /** Returns what ends the watch. */
  subscribe(filter: Filter, listener: Listener): () => void
}

/** Since the last message that has them. `skipped`: items that fit and were not sent. */
export type LiveCounts = Rate & { readonly skipped: number }

export interface LiveKind {
  /** Of an item's message. */
  readonly name: string
  /** Each process may show as many as one watcher gets. */
  readonly mostPerSecond: number
  /** Once a second. false: the watcher did not get what was skipped, which is added to what the next one says. */
  report(watcher: Watcher, counts: LiveCounts): boolean
  /** Absent: its messages have no ids. */
  readonly idOf?: IdOf
}

/** Says no more than what was left out. */
export function reportSkipped(watcher: Watcher, { skipped: count }: LiveCounts): boolean {
  return count === 0 || watcher.event('skipped', JSON.stringify({ count }))
}

export interface HowShown {
  /** Items that are sent first, oldest first. */
  readonly earlier?: Promise<readonly string[]>
  /** Of an item's JSON what the watcher gets; by default all. */
  readonly show?: (json: string) => string
}

function asItIs(json: string): string {
  return json
}

interface Watch {
  readonly watcher: Watcher
  readonly counts: Writable<LiveCounts>
}

export class LiveList<Filter> {
  readonly #kind: LiveKind
  readonly #sources: readonly LiveSource<Filter>[]
  readonly #watches: WhileAny<Watch>

  constructor(kind: LiveKind, sources: readonly LiveSource<Filter>[], timers: Timers) {
    this.#kind = kind
    this.#sources = sources
    this.#watches = new WhileAny(timers, 1000, (watches) => {
      for (const { watcher, counts } of watches) {
        if (kind.report(watcher, counts)) counts.skipped = 0
        counts.seen = 0
        counts.shown = 0
        counts.unsearched = 0
      }
    })
  }

  /** Returns what ends the watch. */
  add(watcher: Watcher, filter: Filter, { earlier, show = asItIs }: HowShown = {}): () => void {
    const { name, mostPerSecond, idOf } = this.#kind
    const counts = { seen: 0, shown: 0, unsearched: 0, skipped: 0 }
    const watch: Watch = { watcher, counts }
    /** What comes before the earlier ones are sent. null: they are. */
    let waiting: string[] | null = earlier === undefined ? null : []
    const listener: Listener = {
      onItem: (json) => {
        if (waiting !== null && waiting.length < mostPerSecond) waiting.push(json)
        else if (waiting === null && counts.shown < mostPerSecond && watcher.event(name, show(json), idOf?.(json)))
          counts.shown += 1
        else counts.skipped += 1
      },
      onRate: ({ seen, shown, unsearched }) => {
        counts.seen += seen
        counts.unsearched += unsearched
        counts.skipped += seen - shown
      },
    }
    const ends = this.#sources.map((source) => source.subscribe(filter, listener))
    const sendEarlier = async (first: Promise<readonly string[]>): Promise<void> => {
      const known = await first
      // What came meanwhile may be among the earlier ones.
      const all = [...new Set([...known, ...(waiting ?? [])])].map(show)
      waiting = null
      counts.skipped += all.length - watcher.events(name, all, idOf)
    }
    if (earlier !== undefined) void sendEarlier(earlier)
    this.#watches.add(watch)
    return () => {
      for (const end of ends) end()
      this.#watches.delete(watch)
    }
  }
}
