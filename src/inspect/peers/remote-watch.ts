// What other processes show live: one that is watched asks all for what fits a filter, again and again, and they send it
// until the last request is too old. So a watcher that dies costs them nothing after some seconds.

import type { AlertFilter, EventFilter, Feed, RefusalFilter, Watch } from '../../contract/admin/peers.ts'
import type { Timers } from '../../lib/timers.ts'
import { WhileAny } from '../../lib/while-any.ts'
import type { Listener, LiveSource } from '../live/live-list.ts'
import type { Transport } from './cluster.ts'
import { isFeed, isItem, isWatch } from './peer-checks.ts'
import { packed, unpack } from './peer-messages.ts'

const WATCH = 'sluice.console.watch'
const FEED = 'sluice.console.feed.'
const RENEW_INTERVAL_MS = 5000
const LEASE_MS = 15_000
/** Of all processes together, by filter: so many for consoles, and as many for portals. */
const MAX_LEASES = 200

/** What is watched. */
export interface LiveSources {
  readonly events: LiveSource<EventFilter>
  readonly refusals: LiveSource<RefusalFilter>
  readonly alerts: LiveSource<AlertFilter>
}

interface Wanted {
  readonly kind: keyof LiveSources
  readonly filter: EventFilter | RefusalFilter | AlertFilter
}

interface Watched {
  readonly id: string
  readonly wanted: Wanted
  readonly listeners: Set<Listener>
  readonly end: () => void
}

export interface RemoteOptions {
  readonly peers: Transport
  /** Different in each process. */
  readonly id: string
  readonly timers: Timers
}

/** The asking side. */
export class RemoteWatches implements LiveSources {
  readonly events: LiveSource<EventFilter> = {
    subscribe: (filter, listener) => this.#watch({ kind: 'events', filter }, listener),
  }
  readonly refusals: LiveSource<RefusalFilter> = {
    subscribe: (filter, listener) => this.#watch({ kind: 'refusals', filter }, listener),
  }
  readonly alerts: LiveSource<AlertFilter> = {
    subscribe: (filter, listener) => this.#watch({ kind: 'alerts', filter }, listener),
  }
  readonly #options: RemoteOptions
  readonly #watched: WhileAny<Watched>
  #count = 0

  constructor(options: RemoteOptions) {
    this.#options = options
    this.#watched = new WhileAny(options.timers, RENEW_INTERVAL_MS, (all) => {
      for (const { id, wanted } of all) this.#send({ id, ...wanted })
    })
  }

  #watch(wanted: Wanted, listener: Listener): () => void {
    const key = JSON.stringify(wanted)
    const watched = [...this.#watched.all].find((one) => JSON.stringify(one.wanted) === key) ?? this.#begin(wanted)
    this.#watched.add(watched)
    watched.listeners.add(listener)
    return () => {
      watched.listeners.delete(listener)
      if (watched.listeners.size > 0) return
      this.#watched.delete(watched)
      watched.end()
      this.#send({ id: watched.id, kind: 'end' })
    }
  }

  #begin(wanted: Wanted): Watched {
    this.#count += 1
    const id = `${this.#options.id}-${this.#count}`
    const listeners: Watched['listeners'] = new Set()
    const end = this.#options.peers.on(FEED + id, ({ data }) => {
      const message = unpack(data, isFeed)
      if (message === null) return
      const { head, body } = message
      const json = body.toString()
      if (head.kind === 'item' && !isItem(wanted.kind, json)) return
      for (const listener of listeners) {
        if (head.kind === 'rate') listener.onRate(head.rate)
        else listener.onItem(json)
      }
    })
    this.#send({ id, ...wanted })
    return { id, wanted, listeners, end }
  }

  #send(message: object): void {
    const { peers, id } = this.#options
    peers.publish(WATCH, packed({ from: id, ...message }))
  }

  stop(): void {
    for (const { end } of this.#watched.all) end()
    this.#watched.clear()
  }
}

interface Lease {
  readonly id: string
  readonly isOfPortal: boolean
  expiresAtMs: number
  readonly end: () => void
}

/** The side that is watched. */
export class Leases {
  readonly #options: RemoteOptions & LiveSources
  readonly #leases: WhileAny<Lease>
  readonly #unsubscribe: () => void

  constructor(options: RemoteOptions & LiveSources) {
    this.#options = options
    this.#leases = new WhileAny(options.timers, RENEW_INTERVAL_MS, (leases) => {
      const atMs = options.timers.monotonicMs()
      for (const lease of leases) if (lease.expiresAtMs <= atMs) this.#drop(lease)
    })
    this.#unsubscribe = options.peers.on(WATCH, ({ data }) => {
      const message = unpack(data, isWatch)?.head
      if (message !== undefined && message.from !== options.id) this.#take(message)
    })
  }

  get count(): number {
    return this.#leases.all.size
  }

  #take(message: Watch): void {
    const expiresAtMs = this.#options.timers.monotonicMs() + LEASE_MS
    const lease = [...this.#leases.all].find(({ id }) => id === message.id)
    if (message.kind !== 'end') {
      const isOfPortal = message.filter.portal === true
      const taken = [...this.#leases.all].filter((one) => one.isOfPortal === isOfPortal).length
      if (lease !== undefined) lease.expiresAtMs = expiresAtMs
      else if (taken < MAX_LEASES)
        this.#leases.add({ id: message.id, isOfPortal, expiresAtMs, end: this.#begin(message) })
    } else if (lease !== undefined) this.#drop(lease)
  }

  #begin({ id, kind, filter }: { readonly id: string } & Wanted): () => void {
    const send = (head: Feed, json = ''): void =>
      this.#options.peers.publish(FEED + id, packed(head, Buffer.from(json)))
    // The filter was checked to be one of this kind.
    return (this.#options[kind] as LiveSource<Wanted['filter']>).subscribe(filter, {
      onItem: (json) => send({ kind: 'item' }, json),
      onRate: (rate) => send({ kind: 'rate', rate }),
    })
  }

  #drop(lease: Lease): void {
    this.#leases.delete(lease)
    lease.end()
  }

  stop(): void {
    this.#unsubscribe()
    for (const lease of this.#leases.all) this.#drop(lease)
  }
}
