// The live streams of events, refusals and alerts: all nodes are asked again and again for what fits the filters that are
// watched. Bounded in items a second; the others are counted.

import type { Live, Rate } from '../../contract/admin/peers.ts'
import { MAX_NODES } from '../../contract/admin/words.ts'
import type { Alert } from '../../contract/alert.ts'
import type { Timers } from '../../lib/timers.ts'
import { WhileAny } from '../../lib/while-any.ts'
import type { Writable } from '../../lib/writable.ts'
import type { Ask } from '../question.ts'
import type { FilterOf } from './taps.ts'

/** A page draws twice as often at most. */
const ASK_INTERVAL_MS = 500

/** Of an item's JSON: the id of its message, from which a watcher goes on after a break. */
export type IdOf = (json: string) => string

/** Who watches. It is sent what it has room for, and nothing waits for it. */
export interface Watcher {
  /** false: the watcher reads too slowly or has left, and this event is skipped. */
  event(name: string, json: string, id?: string): boolean
  /** Several at once; where they are too many, the last ones. Returns how many were sent. */
  events(name: string, jsons: readonly string[], idOf?: IdOf): number
}

/** Since the last message that has them. `skipped`: items that fit and were not sent. */
type LiveCounts = Rate & { readonly skipped: number }

interface KindOfList {
  /** Of an item's message. */
  readonly name: string
  /** Each process may show as many as one watcher gets. */
  readonly mostPerSecond: number
  /** Once a second. false: the watcher did not get what was skipped, which is added to what the next one says. */
  readonly report: (watcher: Watcher, counts: LiveCounts) => boolean
  /** Absent: its messages have no ids. */
  readonly idOf?: IdOf
}

export const KINDS = {
  events: {
    name: 'event',
    mostPerSecond: 50,
    report(watcher, { seen, shown, unsearched }) {
      const rate = { seen_per_second: seen, shown_per_second: shown }
      return watcher.event(
        'rate',
        JSON.stringify(unsearched === 0 ? rate : { ...rate, unsearched_per_second: unsearched }),
      )
    },
  },
  refusals: { name: 'refusal', mostPerSecond: 200, report: reportSkipped },
  alerts: {
    name: 'alert',
    mostPerSecond: 200,
    report: reportSkipped,
    idOf: (json) => (JSON.parse(json) as Alert).id,
  },
} as const satisfies Readonly<Record<Live['kind'], KindOfList>>

/** Says no more than what was left out. */
function reportSkipped(watcher: Watcher, { skipped: count }: LiveCounts): boolean {
  return count === 0 || watcher.event('skipped', JSON.stringify({ count }))
}

export interface HowShown {
  /** Reads items that are sent first, oldest first. */
  readonly earlier?: () => Promise<readonly string[]>
  /** Of an item's JSON what the watcher gets; by default all. */
  readonly show?: (json: string) => string
}

interface Watch {
  readonly watcher: Watcher
  readonly show: (json: string) => string
  readonly counts: Writable<LiveCounts>
  /** What comes before the earlier ones are sent. null: they are. */
  waiting: string[] | null
}

/** Those who watch by one filter. */
interface Group<Filter> {
  readonly filter: Filter
  readonly key: string
  readonly watches: Set<Watch>
  /** By node, that was heard last at the end: up to which number it has told. */
  readonly since: Map<string, number>
  /** Ends with the answers. null: nobody is asked. */
  asking: Promise<void> | null
}

export interface LiveListOptions {
  readonly ask: Pick<Ask, 'all'>
  readonly timers: Timers
  readonly onFault: (error: unknown) => void
}

export class LiveList<Kind extends Live['kind']> {
  readonly #name: Kind
  readonly #kind: KindOfList
  readonly #options: LiveListOptions
  readonly #groups: WhileAny<Group<FilterOf<Kind>>>
  readonly #watches: WhileAny<Watch>

  constructor(name: Kind, options: LiveListOptions) {
    this.#name = name
    this.#kind = KINDS[name]
    this.#options = options
    this.#groups = new WhileAny(options.timers, ASK_INTERVAL_MS, (all) => void this.#ask([...all]))
    this.#watches = new WhileAny(options.timers, 1000, (watches) => {
      for (const { watcher, counts } of watches) {
        if (this.#kind.report(watcher, counts)) counts.skipped = 0
        Object.assign(counts, { seen: 0, shown: 0, unsearched: 0 })
      }
    })
  }

  /** Returns what ends the watch. */
  add(watcher: Watcher, filter: FilterOf<Kind>, { earlier, show = (json) => json }: HowShown = {}): () => void {
    const key = JSON.stringify(filter)
    const known = [...this.#groups.all].find((group) => group.key === key)
    const group = known ?? { filter, key, watches: new Set<Watch>(), since: new Map<string, number>(), asking: null }
    const counts = { seen: 0, shown: 0, unsearched: 0, skipped: 0 }
    const watch: Watch = { watcher, show, counts, waiting: earlier === undefined ? null : [] }
    group.watches.add(watch)
    this.#groups.add(group)
    this.#watches.add(watch)
    void this.#begin(group, watch, earlier)
    return () => {
      group.watches.delete(watch)
      if (group.watches.size === 0) this.#groups.delete(group)
      this.#watches.delete(watch)
    }
  }

  async #begin(group: Group<FilterOf<Kind>>, watch: Watch, earlier: HowShown['earlier']): Promise<void> {
    // Every node keeps what fits before what is earlier is read, so that nothing is missed between.
    await (group.asking ?? this.#ask([group]))
    if (earlier === undefined) return
    const { name, idOf } = this.#kind
    const known = await earlier()
    // What came meanwhile may be among the earlier ones, and is all there then.
    await group.asking
    await this.#ask([group])
    const all = [...new Set([...known, ...(watch.waiting ?? [])])].map(watch.show)
    watch.waiting = null
    watch.counts.skipped += all.length - watch.watcher.events(name, all, idOf)
  }

  /** Those that are not asked for now. */
  #ask(groups: readonly Group<FilterOf<Kind>>[]): Promise<void> {
    const due = groups.filter(({ asking }) => asking === null)
    if (due.length === 0) return Promise.resolve()
    const asking = this.#askNow(due).finally(() => {
      for (const group of due) group.asking = null
    })
    for (const group of due) group.asking = asking
    return asking
  }

  /** Never rejects. */
  async #askNow(due: readonly Group<FilterOf<Kind>>[]): Promise<void> {
    const { ask, onFault } = this.#options
    try {
      const watches = due.map(({ filter, since }) => ({ filter, since: Object.fromEntries(since) }))
      const body = Buffer.from(JSON.stringify({ kind: this.#name, watches }))
      const { pieces } = await ask.all({ name: 'live', scope: 'all', query: '', body })
      for (const { node, kind, told } of pieces) {
        if (kind !== this.#name) continue
        for (const [at, { next, kept }] of told.slice(0, due.length).entries()) {
          noteSince(due[at].since, node, next)
          for (const one of kept) for (const watch of due[at].watches) this.#tell(watch, one)
        }
      }
    } catch (error) {
      onFault(error)
    }
  }

  #tell({ watcher, show, counts, waiting }: Watch, told: string | Rate): void {
    const { name, mostPerSecond, idOf } = this.#kind
    if (typeof told !== 'string') {
      counts.seen += told.seen
      counts.unsearched += told.unsearched
      counts.skipped += told.seen - told.shown
    } else if (waiting !== null && waiting.length < mostPerSecond) waiting.push(told)
    else if (waiting === null && counts.shown < mostPerSecond && watcher.event(name, show(told), idOf?.(told)))
      counts.shown += 1
    else counts.skipped += 1
  }
}

/** Nodes come and go while somebody watches. */
function noteSince(since: Map<string, number>, node: string, next: number): void {
  since.delete(node)
  since.set(node, next)
  for (const oldest of since.keys()) if (since.size > MAX_NODES) since.delete(oldest)
}
