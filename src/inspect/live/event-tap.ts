// Shows stored events to those who watch. With no watcher the path of a request finds null and goes on; with some, a
// bounded number of events a second is parsed, and the others are only counted.

import type { EventFilter } from '../../contract/admin/peers.ts'
import { eventsOf } from '../../contract/record/record-events.ts'
import type { Timers } from '../../lib/timers.ts'
import type { StoredBatch } from '../../request/observer.ts'
import { fits, mayHold, mayHoldText, needlesOf, textNeedleOf } from './event-filter.ts'
import { KINDS } from './live-list.ts'
import { recordJson, shownEvent } from './stored-events.ts'
import { type Tap as AnyTap, Taps } from './taps.ts'

/** That each filter shows. */
const EVENTS_PER_SECOND = KINDS.events.mostPerSecond
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

/** What of a record is looked at for a filter. */
interface Sought {
  /** What the bytes of each event that fits may hold. */
  readonly needles: readonly Buffer[]
  /** The bytes of the name or user as characters, with the quotes that it has; empty: any fits. */
  readonly textNeedle: string
  readonly left: Left
  tokens: number
  filledAtMs: number
}

type Tap = AnyTap<EventFilter, Sought>

export class EventTaps {
  /** null: nobody watches. */
  onStored: OnStored | null = null
  readonly taps: Taps<EventFilter, Sought>
  readonly #node: string
  readonly #timers: Timers
  readonly #onFault: (error: unknown) => void
  readonly #console = leftOf(1)
  readonly #portal = leftOf(SHARE_OF_PORTAL)
  /** The bytes of the record at hand as characters: a string is searched several times as fast as a buffer. */
  #text: string | null = null

  constructor(options: { node: string; timers: Timers; onFault: (error: unknown) => void }) {
    const { timers } = options
    this.#node = options.node
    this.#timers = timers
    this.#onFault = options.onFault
    this.taps = new Taps<EventFilter, Sought>({
      moreOf: (filter) => ({
        needles: needlesOf(filter),
        textNeedle: textNeedleOf(filter),
        left: filter.portal === true ? this.#portal : this.#console,
        tokens: EVENTS_PER_SECOND,
        filledAtMs: timers.monotonicMs(),
      }),
      onWatched: (isWatched) => {
        this.onStored = isWatched ? this.#stored : null
      },
      onSecond: () => {
        Object.assign(this.#console, leftOf(1))
        Object.assign(this.#portal, leftOf(SHARE_OF_PORTAL))
      },
      timers,
    })
  }

  /** Never throws: the batch is stored, and its client waits for the answer. */
  readonly #stored: OnStored = ({ line, app: { appId }, track, screen, revenue }) => {
    this.#text = null
    try {
      for (const tap of this.taps.all) {
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
    const { left, textNeedle } = tap.more
    // Without a text the counts by type are the answer.
    if (textNeedle === '') {
      tap.counts.seen += count
      if (this.#hasToken(tap.more) && line.length <= left.readBytes) this.#show(tap, view(line), false)
      return
    }
    if (left.searches <= 0 || line.length > Math.min(left.searchedBytes, left.readBytes)) {
      tap.counts.unsearched += count
      return
    }
    left.searches -= 1
    left.searchedBytes -= line.length
    const bytes = view(line)
    const text = this.#text ?? bytes.toString('latin1')
    this.#text = text
    if (mayHoldText(text, textNeedle)) this.#show(tap, bytes, true)
  }

  #hasToken(sought: Sought): boolean {
    const atMs = this.#timers.monotonicMs()
    const earned = ((atMs - sought.filledAtMs) * EVENTS_PER_SECOND) / 1000
    sought.tokens = Math.min(EVENTS_PER_SECOND, sought.tokens + earned)
    sought.filledAtMs = atMs
    return sought.tokens >= 1
  }

  /** Reads the record's events one after another. `isCounting`: all of them, since each may fit or not. */
  #show(tap: Tap, line: Buffer, isCounting: boolean): void {
    const { counts, filter, more } = tap
    let head: string | null = null
    for (const { index, bytes } of eventsOf(line)) {
      more.left.readBytes -= bytes.length
      if (!more.needles.every((needle) => mayHold(bytes, needle))) continue
      const isShown = this.#hasToken(more)
      if (!isShown && !isCounting) return
      const event = JSON.parse(bytes.toString()) as Record<string, unknown>
      if (!fits(filter, event)) continue
      if (isCounting) counts.seen += 1
      if (!isShown) continue
      more.tokens -= 1
      counts.shown += 1
      head ??= recordJson(line, this.#node)
      this.taps.keep(tap, `${head},"index":${index},"event":${shownEvent(event, bytes)}}`)
    }
  }
}

function view(line: Uint8Array): Buffer {
  return Buffer.from(line.buffer, line.byteOffset, line.length)
}
