// What somebody watches on this node: a filter that was asked for in the last seconds has a tap, which keeps what fits until
// whoever watches asks again. So a watcher that dies costs nothing after some seconds, and nobody watching costs nothing.

import type { Live, Pieces, Rate } from '../../contract/admin/peers.ts'
import type { Timers } from '../../lib/timers.ts'
import { WhileAny } from '../../lib/while-any.ts'
import type { Writable } from '../../lib/writable.ts'

const ASKED_MS = 5000
/** Whoever missed an answer asks again in less. */
const KEPT_MS = 3000
/** So many filters of consoles, and as many of portals. */
const MAX_TAPS = 200

interface Kept {
  readonly number: number
  readonly atMs: number
  readonly told: string | Rate
}

export interface Tap<Filter, More> {
  readonly filter: Filter
  /** Equal filters have equal ones. */
  readonly key: string
  readonly more: More
  /** In this second. */
  readonly counts: Writable<Rate>
  /** Oldest first. */
  kept: Kept[]
  askedAtMs: number
}

type Told = Pieces['live']['told'][number]

export interface TapsOptions<Filter, More> {
  /** What a tap has besides its filter. */
  readonly moreOf: (filter: Filter) => More
  /** false: nobody watches. */
  readonly onWatched: (isWatched: boolean) => void
  /** A second is over. */
  readonly onSecond?: () => void
  readonly timers: Timers
}

export class Taps<Filter extends { readonly portal?: true }, More> {
  readonly #options: TapsOptions<Filter, More>
  readonly #taps: WhileAny<Tap<Filter, More>>
  #number = 0

  constructor(options: TapsOptions<Filter, More>) {
    this.#options = options
    this.#taps = new WhileAny(options.timers, 1000, () => this.#endSecond())
  }

  get all(): Iterable<Tap<Filter, More>> {
    return this.#taps.all
  }

  /** What fits and came behind the number; undefined: only what comes from now on is wanted. */
  ask(filter: Filter, since: number | undefined): Told {
    const next = this.#number
    const tap = this.#tapOf(filter)
    if (tap === null) return { next, kept: [] }
    tap.askedAtMs = this.#options.timers.monotonicMs()
    // A number that is too high is that of a process before this one.
    const from = since !== undefined && since > next ? 0 : (since ?? next)
    return { next, kept: tap.kept.filter(({ number }) => number > from).map(({ told }) => told) }
  }

  keep({ kept }: Tap<Filter, More>, told: string | Rate): void {
    this.#number += 1
    kept.push({ number: this.#number, atMs: this.#options.timers.monotonicMs(), told })
  }

  stop(): void {
    this.#taps.clear()
    this.#options.onWatched(false)
  }

  #tapOf(filter: Filter): Tap<Filter, More> | null {
    const key = JSON.stringify(filter)
    const all = [...this.#taps.all]
    const known = all.find((tap) => tap.key === key)
    if (known !== undefined) return known
    if (all.filter((tap) => tap.filter.portal === filter.portal).length >= MAX_TAPS) return null
    const counts = { seen: 0, shown: 0, unsearched: 0 }
    const tap = { filter, key, more: this.#options.moreOf(filter), counts, kept: [], askedAtMs: 0 }
    this.#taps.add(tap)
    this.#options.onWatched(true)
    return tap
  }

  #endSecond(): void {
    this.#options.onSecond?.()
    const atMs = this.#options.timers.monotonicMs()
    for (const tap of this.#taps.all) {
      if (atMs - tap.askedAtMs > ASKED_MS) this.#taps.delete(tap)
      tap.kept = tap.kept.filter((one) => atMs - one.atMs < KEPT_MS)
      const { seen, unsearched } = tap.counts
      if (seen + unsearched > 0) this.keep(tap, { ...tap.counts })
      Object.assign(tap.counts, { seen: 0, shown: 0, unsearched: 0 })
    }
    if (this.#taps.all.size === 0) this.#options.onWatched(false)
  }
}

/** By kind. */
export type AllTaps = { readonly [Kind in Live['kind']]: Pick<Taps<FilterOf<Kind>, unknown>, 'ask' | 'stop'> }
export type FilterOf<Kind extends Live['kind']> = Extract<Live, { readonly kind: Kind }>['watches'][number]['filter']

export function answerLive(node: string, taps: AllTaps, { kind, watches }: Live): Pieces['live'] {
  // The filters are of this kind.
  const ofKind = taps[kind] as Taps<(typeof watches)[number]['filter'], unknown>
  const told = watches.map(({ filter, since }) =>
    ofKind.ask(filter, Object.hasOwn(since, node) ? since[node] : undefined),
  )
  return { node, kind, told }
}
