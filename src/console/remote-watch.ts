// What other processes show live: one that is watched asks all for what fits a filter, again and again, and they send it
// until the last request is too old. So a watcher that dies costs them nothing after some seconds.

import type { Timer, Timers } from '../lib/timers.ts'
import type { Transport } from './cluster.ts'
import type { EventSource } from './event-feed.ts'
import type { EventFilter } from './event-filter.ts'
import type { EventRate, TapListener } from './event-tap.ts'
import { isFeed, isWatch } from './peer-checks.ts'
import { packed, unpack } from './peer-messages.ts'
import type { ShownRefusal } from './refusal.ts'
import type { LiveRefusals, RefusalListener } from './refusal-feed.ts'
import type { RefusalFilter } from './refusal-view.ts'

const WATCH = 'sluice.console.watch'
const FEED = 'sluice.console.feed.'
const RENEW_INTERVAL_MS = 5000
const LEASE_MS = 15_000
/** Of all processes together, by filter. */
const MAX_LEASES = 200
const IS_OBJECT_LINE = /^\{[^\r\n]*\}$/

type Wanted =
  | { readonly kind: 'events'; readonly filter: EventFilter }
  | { readonly kind: 'refusals'; readonly filter: RefusalFilter }

type WatchMessage = { readonly from: string; readonly id: string } & (Wanted | { readonly kind: 'end' })

/** A message of a feed; an event's JSON stands after it, as bytes. */
type FeedHead =
  | { readonly kind: 'event' }
  | { readonly kind: 'rate'; readonly rate: EventRate }
  | { readonly kind: 'refusal'; readonly refusal: ShownRefusal }
  | { readonly kind: 'skipped'; readonly count: number }

interface Watched {
  readonly id: string
  readonly wanted: Wanted
  readonly listeners: Set<(head: FeedHead, body: Buffer) => void>
  readonly end: () => void
}

export interface RemoteOptions {
  readonly peers: Transport
  /** Different in each process. */
  readonly id: string
  readonly timers: Timers
}

/** The asking side. */
export class RemoteWatches {
  readonly events: EventSource = { subscribe: (filter, listener) => this.#watchEvents(filter, listener) }
  readonly refusals: LiveRefusals = { subscribe: (filter, listener) => this.#watchRefusals(filter, listener) }
  readonly #options: RemoteOptions
  readonly #watched = new Map<string, Watched>()
  #count = 0
  #renewing: Timer | null = null

  constructor(options: RemoteOptions) {
    this.#options = options
  }

  #watchEvents(filter: EventFilter, listener: TapListener): () => void {
    return this.#watch({ kind: 'events', filter }, (head, body) => {
      // A line break would end the event in the stream of the one who watches.
      if (head.kind === 'event' && IS_OBJECT_LINE.test(body.toString())) listener.onEvent(body.toString())
      else if (head.kind === 'rate') listener.onRate(head.rate)
    })
  }

  #watchRefusals(filter: RefusalFilter, listener: RefusalListener): () => void {
    return this.#watch({ kind: 'refusals', filter }, (head) => {
      if (head.kind === 'refusal') listener.onRefusal(head.refusal)
      else if (head.kind === 'skipped') listener.onSkipped(head.count)
    })
  }

  #watch(wanted: Wanted, listener: (head: FeedHead, body: Buffer) => void): () => void {
    const key = JSON.stringify(wanted)
    const watched = this.#watched.get(key) ?? this.#begin(wanted)
    this.#watched.set(key, watched)
    watched.listeners.add(listener)
    this.#renewing ??= this.#options.timers.setInterval(() => this.#renew(), RENEW_INTERVAL_MS)
    return () => {
      watched.listeners.delete(listener)
      if (watched.listeners.size > 0) return
      this.#watched.delete(key)
      watched.end()
      this.#tell({ id: watched.id, kind: 'end' })
      if (this.#watched.size > 0 || this.#renewing === null) return
      this.#options.timers.clear(this.#renewing)
      this.#renewing = null
    }
  }

  #begin(wanted: Wanted): Watched {
    this.#count += 1
    const id = `${this.#options.id}-${this.#count}`
    const listeners: Watched['listeners'] = new Set()
    const end = this.#options.peers.on(FEED + id, ({ data }) => {
      const message = unpack(data, isFeed)
      if (message !== null) for (const listener of listeners) listener(message.head as FeedHead, message.body)
    })
    this.#tell({ id, ...wanted })
    return { id, wanted, listeners, end }
  }

  #renew(): void {
    for (const { id, wanted } of this.#watched.values()) this.#tell({ id, ...wanted })
  }

  #tell(message: object): void {
    const { peers, id } = this.#options
    peers.publish(WATCH, packed({ from: id, ...message }))
  }

  stop(): void {
    if (this.#renewing !== null) this.#options.timers.clear(this.#renewing)
    this.#renewing = null
    for (const { end } of this.#watched.values()) end()
    this.#watched.clear()
  }
}

interface Lease {
  expiresAtMs: number
  readonly end: () => void
}

export interface LeasesOptions extends RemoteOptions {
  readonly events: EventSource
  readonly refusals: LiveRefusals
}

/** The side that is watched. */
export class Leases {
  readonly #options: LeasesOptions
  readonly #leases = new Map<string, Lease>()
  readonly #stopHearing: () => void
  #sweeping: Timer | null = null

  constructor(options: LeasesOptions) {
    this.#options = options
    this.#stopHearing = options.peers.on(WATCH, ({ data }) => {
      const message = unpack(data, isWatch)?.head as WatchMessage | undefined
      if (message !== undefined && message.from !== options.id) this.#heard(message)
    })
  }

  get count(): number {
    return this.#leases.size
  }

  #heard(message: WatchMessage): void {
    const expiresAtMs = this.#options.timers.monotonicMs() + LEASE_MS
    const lease = this.#leases.get(message.id)
    if (message.kind === 'end') this.#drop(message.id)
    else if (lease !== undefined) lease.expiresAtMs = expiresAtMs
    else if (this.#leases.size < MAX_LEASES) {
      this.#leases.set(message.id, { expiresAtMs, end: this.#begin(message) })
      this.#sweeping ??= this.#options.timers.setInterval(() => this.#sweep(), RENEW_INTERVAL_MS)
    }
  }

  #begin(message: WatchMessage & Wanted): () => void {
    const { peers, events, refusals } = this.#options
    const subject = FEED + message.id
    const send = (head: FeedHead, json = ''): void => peers.publish(subject, packed(head, Buffer.from(json)))
    if (message.kind === 'events') {
      return events.subscribe(message.filter, {
        onEvent: (json) => send({ kind: 'event' }, json),
        onRate: (rate) => send({ kind: 'rate', rate }),
      })
    }
    return refusals.subscribe(message.filter, {
      onRefusal: (refusal) => send({ kind: 'refusal', refusal }),
      onSkipped: (count) => send({ kind: 'skipped', count }),
    })
  }

  #sweep(): void {
    const nowMs = this.#options.timers.monotonicMs()
    for (const [id, { expiresAtMs }] of this.#leases) if (expiresAtMs <= nowMs) this.#drop(id)
  }

  #drop(id: string): void {
    const lease = this.#leases.get(id)
    this.#leases.delete(id)
    lease?.end()
    if (this.#leases.size > 0 || this.#sweeping === null) return
    this.#options.timers.clear(this.#sweeping)
    this.#sweeping = null
  }

  stop(): void {
    this.#stopHearing()
    for (const id of this.#leases.keys()) this.#drop(id)
  }
}
