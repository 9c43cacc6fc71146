// Shows stored events to those who watch. With no watcher the path of a request finds null and goes on; with some, a
// bounded number of events a second is parsed, and the others are only counted.

import type { EventFilter } from '../../contract/admin/peers.ts'
import { eventsOf } from '../../contract/record/record-events.ts'
import type { Timers } from '../../lib/timers.ts'
import { WhileAny } from '../../lib/while-any.ts'
import type { StoredBatch } from '../../request/observer.ts'
import { filterKey, fits, mayHold, mayHoldText, needlesOf, textNeedleOf } from './event-filter.ts'
import type { Listener, LiveKind, LiveSource } from './live-list.ts'
import { recordJson, shownEvent } from './stored-events.ts'

/** Events that each filter shows. */
const EVENTS_PER_SECOND = 50
/** Over all filters: what is read byte by byte. Records beyond it are counted. */
const MAX_READ_BYTES_PER_SECOND = 1_048_576
/** Over all filters: records that are searched for a text, and their bytes. Either takes some ten milliseconds. */
const MAX_SEARCHES_PER_SECOND = 12_000
const MAX_SEARCHED_BYTES_PER_SECOND = 134_217_728
/** Of each of these, what those who watch on the portal have, apart from the operators' own. */
const SHARE_OF_PORTAL = 1 / 2

/** What may still be read and searched in this second. */
interface Left {
  readBytes: number
  searches: number
  searchedBytes: number
}

function leftOf(share: number): Left {
  return {
    readBytes: MAX_READ_BYTES_PER_SECOND * share,
    searches: MAX_SEARCHES_PER_SECOND * share,
    searchedBytes: MAX_SEARCHED_BYTES_PER_SECOND * share,
  }
}

/** A batch was stored. */
export type OnStored = (batch: StoredBatch) => void

export const EVENTS: LiveKind = {
  name: 'event',
  mostPerSecond: EVENTS_PER_SECOND,
  report(watcher, { seen, shown, unsearched }) {
    const rate = { seen_per_second: seen, shown_per_second: shown }
    return watcher.event(
      'rate',
      JSON.stringify(unsearched === 0 ? rate : { ...rate, unsearched_per_second: unsearched }),
    )
  },
}

interface Tap {
  readonly key: string
  readonly filter: EventFilter
  /** What the bytes of each event that fits may hold. */
  readonly needles: readonly Buffer[]
  /** The bytes of the name or user as characters, with the quotes that it has; empty: any fits. */
  readonly textNeedle: string
  readonly listeners: Set<Listener>
  readonly left: Left
  tokens: number
  filledAtMs: number
  seen: number
  shown: number
  unsearched: number
}

export class EventTaps implements LiveSource<EventFilter> {
  /** null: nobody watches. */
  onStored: OnStored | null = null
  readonly #node: string
  readonly #timers: Timers
  readonly #onFault: (error: unknown) => void
  readonly #taps: WhileAny<Tap>
  readonly #console = leftOf(1)
  readonly #portal = leftOf(SHARE_OF_PORTAL)
  /** The bytes of the record at hand as characters: a string is searched several times as fast as a buffer. */
  #text: string | null = null

  constructor(options: { node: string; timers: Timers; onFault: (error: unknown) => void }) {
    this.#node = options.node
    this.#timers = options.timers
    this.#onFault = options.onFault
    this.#taps = new WhileAny(options.timers, 1000, () => this.#tick())
  }

  /** Equal filters share one tap. */
  subscribe(filter: EventFilter, listener: Listener): () => void {
    const key = filterKey(filter)
    const tap = [...this.#taps.all].find((one) => one.key === key) ?? this.#newTap(key, filter)
    tap.listeners.add(listener)
    this.#taps.add(tap)
    this.onStored = this.#stored
    return () => {
      tap.listeners.delete(listener)
      if (tap.listeners.size === 0) this.#taps.delete(tap)
      if (this.#taps.all.size === 0) this.stop()
    }
  }

  stop(): void {
    this.#taps.clear()
    this.onStored = null
  }

  #newTap(key: string, filter: EventFilter): Tap {
    return {
      key,
      filter,
      needles: needlesOf(filter),
      textNeedle: textNeedleOf(filter),
      listeners: new Set(),
      left: filter.portal === true ? this.#portal : this.#console,
      tokens: EVENTS_PER_SECOND,
      filledAtMs: this.#timers.monotonicMs(),
      seen: 0,
      shown: 0,
      unsearched: 0,
    }
  }

  #tick(): void {
    Object.assign(this.#console, leftOf(1))
    Object.assign(this.#portal, leftOf(SHARE_OF_PORTAL))
    for (const tap of this.#taps.all) {
      const { seen, shown, unsearched, listeners } = tap
      tap.seen = 0
      tap.shown = 0
      tap.unsearched = 0
      for (const listener of listeners) listener.onRate({ seen, shown, unsearched })
    }
  }

  /** Never throws: the batch is stored, and its client waits for the answer. */
  readonly #stored: OnStored = ({ line, app: { appId }, track, screen, revenue }) => {
    this.#text = null
    try {
      for (const tap of this.#taps.all) {
        const { app, type } = tap.filter
        if (app !== null && app !== appId) continue
        const count = type === null ? track + screen + revenue : { track, screen, revenue }[type]
        if (count > 0) this.#offer(tap, line, count)
      }
    } catch (error) {
      this.#onFault(error)
    }
  }

  /** `count`: the record's events of the tap's app and type. */
  #offer(tap: Tap, line: Uint8Array, count: number): void {
    const { left } = tap
    // Without a text the counts by type are the answer.
    if (tap.textNeedle === '') {
      tap.seen += count
      if (this.#hasToken(tap) && line.length <= left.readBytes) this.#show(tap, view(line), false)
      return
    }
    if (left.searches <= 0 || line.length > Math.min(left.searchedBytes, left.readBytes)) {
      tap.unsearched += count
      return
    }
    left.searches -= 1
    left.searchedBytes -= line.length
    const bytes = view(line)
    const text = this.#text ?? bytes.toString('latin1')
    this.#text = text
    if (mayHoldText(text, tap.textNeedle)) this.#show(tap, bytes, true)
  }

  #hasToken(tap: Tap): boolean {
    const atMs = this.#timers.monotonicMs()
    const earned = ((atMs - tap.filledAtMs) * EVENTS_PER_SECOND) / 1000
    tap.tokens = Math.min(EVENTS_PER_SECOND, tap.tokens + earned)
    tap.filledAtMs = atMs
    return tap.tokens >= 1
  }

  /** Reads the record's events one after another. `isCounting`: all of them, since each may fit or not. */
  #show(tap: Tap, line: Buffer, isCounting: boolean): void {
    let head: string | null = null
    for (const { index, bytes } of eventsOf(line)) {
      tap.left.readBytes -= bytes.length
      if (!tap.needles.every((needle) => mayHold(bytes, needle))) continue
      const isShown = this.#hasToken(tap)
      if (!isShown && !isCounting) return
      const event = JSON.parse(bytes.toString()) as Record<string, unknown>
      if (!fits(tap.filter, event)) continue
      if (isCounting) tap.seen += 1
      if (!isShown) continue
      tap.tokens -= 1
      tap.shown += 1
      head ??= recordJson(line, this.#node)
      const json = `${head},"index":${index},"event":${shownEvent(event, bytes)}}`
      for (const listener of tap.listeners) listener.onItem(json)
    }
  }
}

function view(line: Uint8Array): Buffer {
  return Buffer.from(line.buffer, line.byteOffset, line.length)
}
