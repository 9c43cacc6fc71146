// Shows stored events to those who watch. With no watcher the path of a request finds null and goes on; with some, a
// bounded number of events a second is parsed, and the others are only counted.

import type { Timer, Timers } from '../lib/timers.ts'
import { type EventFilter, filterKey, fits, mayHold, mayHoldName, nameNeedleOf, needlesOf } from './event-filter.ts'
import { eventsAt, nextEvent, recordMembers } from './stored-events.ts'

/** Events that each filter shows. */
export const EVENTS_PER_SECOND = 50
/** Over all filters: what is read byte by byte. Records beyond it are counted. */
const MAX_READ_BYTES_PER_SECOND = 1_048_576
/** Over all filters: records that are searched for a name, and their bytes. Either takes some ten milliseconds. */
const MAX_SEARCHES_PER_SECOND = 12_000
const MAX_SEARCHED_BYTES_PER_SECOND = 134_217_728
/** A larger event is shown without its large members. */
const MAX_EVENT_BYTES = 65_536
const LINE_FEED = 10
const CARRIAGE_RETURN = 13
const HEAD_MEMBERS = ['type', 'name', 'timestamp', 'session_id', 'hashed_daily_id', 'hashed_monthly_id'] as const

/**
 * A batch was stored. `line` is its record, valid only during the call; the counts are of its events by type. null:
 * nobody watches.
 */
export type OnStored = (line: Uint8Array, appId: string, track: number, screen: number, revenue: number) => void

export interface EventRate {
  readonly seen: number
  readonly shown: number
  /** Events of records that were not searched, since too many came. */
  readonly unsearched: number
}

export interface TapListener {
  /** The event with its batch, as JSON. */
  readonly onEvent: (json: string) => void
  /** Each second. */
  readonly onRate: (rate: EventRate) => void
}

interface Tap {
  readonly filter: EventFilter
  /** What the bytes of each event that fits may hold. */
  readonly needles: readonly Buffer[]
  /** The bytes of the name as characters, with the quotes that it has. */
  readonly nameNeedle: string
  readonly listeners: Set<TapListener>
  tokens: number
  filledAtMs: number
  seen: number
  shown: number
  unsearched: number
}

export class EventTaps {
  onStored: OnStored | null = null
  readonly #node: string
  readonly #timers: Timers
  readonly #onFault: (error: unknown) => void
  readonly #taps = new Map<string, Tap>()
  #ticking: Timer | null = null
  #readBytesLeft = MAX_READ_BYTES_PER_SECOND
  #searchesLeft = MAX_SEARCHES_PER_SECOND
  #searchedBytesLeft = MAX_SEARCHED_BYTES_PER_SECOND
  /** The bytes of the record at hand as characters: a string is searched several times as fast as a buffer. */
  #text: string | null = null

  constructor(options: { node: string; timers: Timers; onFault: (error: unknown) => void }) {
    this.#node = options.node
    this.#timers = options.timers
    this.#onFault = options.onFault
  }

  /** Equal filters share one tap. Returns what ends the watch. */
  subscribe(filter: EventFilter, listener: TapListener): () => void {
    const key = filterKey(filter)
    const tap = this.#taps.get(key) ?? this.#newTap(filter)
    tap.listeners.add(listener)
    this.#taps.set(key, tap)
    this.onStored = this.#stored
    this.#ticking ??= this.#timers.setInterval(() => this.#tick(), 1000)
    return () => {
      tap.listeners.delete(listener)
      if (tap.listeners.size === 0) this.#taps.delete(key)
      if (this.#taps.size === 0) this.stop()
    }
  }

  stop(): void {
    this.#taps.clear()
    this.onStored = null
    if (this.#ticking !== null) this.#timers.clear(this.#ticking)
    this.#ticking = null
  }

  #newTap(filter: EventFilter): Tap {
    return {
      filter,
      needles: needlesOf(filter),
      nameNeedle: nameNeedleOf(filter),
      listeners: new Set(),
      tokens: EVENTS_PER_SECOND,
      filledAtMs: this.#timers.monotonicMs(),
      seen: 0,
      shown: 0,
      unsearched: 0,
    }
  }

  #tick(): void {
    this.#readBytesLeft = MAX_READ_BYTES_PER_SECOND
    this.#searchesLeft = MAX_SEARCHES_PER_SECOND
    this.#searchedBytesLeft = MAX_SEARCHED_BYTES_PER_SECOND
    for (const tap of this.#taps.values()) {
      const { seen, shown, unsearched, listeners } = tap
      tap.seen = 0
      tap.shown = 0
      tap.unsearched = 0
      for (const listener of listeners) listener.onRate({ seen, shown, unsearched })
    }
  }

  /** Never throws: the batch is stored, and its client waits for the answer. */
  readonly #stored: OnStored = (line, appId, track, screen, revenue) => {
    this.#text = null
    try {
      for (const tap of this.#taps.values()) {
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
    // Without a name the counts by type are the answer.
    if (tap.filter.name === null) {
      tap.seen += count
      if (this.#hasToken(tap) && line.length <= this.#readBytesLeft) this.#show(tap, view(line), false)
      return
    }
    if (this.#searchesLeft <= 0 || line.length > Math.min(this.#searchedBytesLeft, this.#readBytesLeft)) {
      tap.unsearched += count
      return
    }
    this.#searchesLeft -= 1
    this.#searchedBytesLeft -= line.length
    const bytes = view(line)
    const text = this.#text ?? bytes.toString('latin1')
    this.#text = text
    if (mayHoldName(text, tap.nameNeedle)) this.#show(tap, bytes, true)
  }

  #hasToken(tap: Tap): boolean {
    const nowMs = this.#timers.monotonicMs()
    const earned = ((nowMs - tap.filledAtMs) * EVENTS_PER_SECOND) / 1000
    tap.tokens = Math.min(EVENTS_PER_SECOND, tap.tokens + earned)
    tap.filledAtMs = nowMs
    return tap.tokens >= 1
  }

  /** Reads the record's events one after another. `isCounting`: all of them, since each may fit or not. */
  #show(tap: Tap, line: Buffer, isCounting: boolean): void {
    const start = eventsAt(line)
    if (start < 0) return
    let head: string | null = null
    let at = start
    for (let place = nextEvent(line, at); place !== null; place = nextEvent(line, at)) {
      this.#readBytesLeft -= place.end - at
      at = place.end
      const bytes = line.subarray(place.start, place.end)
      if (!tap.needles.every((needle) => mayHold(bytes, needle))) continue
      const isShown = this.#hasToken(tap)
      if (!isShown && !isCounting) return
      const event = JSON.parse(bytes.toString()) as Record<string, unknown>
      if (!fits(tap.filter, event)) continue
      if (isCounting) tap.seen += 1
      if (!isShown) continue
      tap.tokens -= 1
      tap.shown += 1
      head ??= JSON.stringify({ ...membersOf(line, start), node: this.#node }).slice(0, -1)
      const json = `${head},"event":${shownEvent(event, bytes)}}`
      for (const listener of tap.listeners) listener.onEvent(json)
    }
  }
}

function membersOf(line: Buffer, start: number): object {
  const { batch_id, app_id, received_at, sdk_version, trace } = recordMembers(line, start)
  return {
    batch_id,
    app_id,
    received_at,
    sdk_version: sdk_version ?? null,
    ...(trace === undefined ? {} : { trace }),
  }
}

/** As it was sent; a very large one as its head members, with a note. */
function shownEvent(event: Readonly<Record<string, unknown>>, bytes: Buffer): string {
  // A line break inside the event would end the line of the stream.
  if (bytes.length <= MAX_EVENT_BYTES)
    return bytes.includes(LINE_FEED) || bytes.includes(CARRIAGE_RETURN) ? JSON.stringify(event) : bytes.toString()
  const members = HEAD_MEMBERS.filter((name) => name in event).map((name) => [name, event[name]])
  const kept = JSON.stringify({
    ...Object.fromEntries(members),
    note: `this event has ${bytes.length} bytes: only its head is shown`,
  })
  return Buffer.byteLength(kept) <= MAX_EVENT_BYTES ? kept : '{"note":"this event is too large to be shown"}'
}

function view(line: Uint8Array): Buffer {
  return Buffer.from(line.buffer, line.byteOffset, line.length)
}
