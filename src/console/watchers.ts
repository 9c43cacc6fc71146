// The open streams of this process. They are few, and one that does not read skips what comes meanwhile, so that no
// watcher costs memory or holds up another.

import { type Answer, type EventSink, problem } from '../http/admin-routes.ts'
import type { Timer, Timers } from '../lib/timers.ts'

export const MAX_WATCHERS = 50
/** Proxies close what is silent for longer; and it shows that a watcher has gone without a word. */
const PING_INTERVAL_MS = 15_000
/** Browsers connect again after this. */
const RETRY = 'retry: 2000\n\n'

/** What waits for one watcher that does not read. */
const MAX_SENT_BYTES = 262_144
/** Of `event: `, `data: ` and the line feeds. */
const FRAME_BYTES = 16

export class Watcher {
  readonly #sink: EventSink

  constructor(sink: EventSink) {
    this.#sink = sink
  }

  /** false: the watcher reads too slowly, and this event is skipped. */
  event(name: string, json: string): boolean {
    return this.#send(`event: ${name}\ndata: ${json}\n\n`)
  }

  /** Several at once; of more than the socket may hold, the last ones. Returns how many were sent. */
  events(name: string, jsons: readonly string[]): number {
    let bytes = 0
    let from = jsons.length
    while (from > 0 && bytes + Buffer.byteLength(jsons[from - 1]) + name.length + FRAME_BYTES <= MAX_SENT_BYTES) {
      from -= 1
      bytes += Buffer.byteLength(jsons[from]) + name.length + FRAME_BYTES
    }
    const sent = jsons.slice(from)
    if (sent.length === 0) return 0
    return this.#send(sent.map((json) => `event: ${name}\ndata: ${json}\n\n`).join('')) ? sent.length : 0
  }

  ping(): void {
    this.#send(': ping\n\n')
  }

  #send(text: string): boolean {
    if (!this.#sink.isDrained) return false
    this.#sink.send(text)
    return true
  }

  end(): void {
    this.#sink.end()
  }
}

export class Watchers {
  readonly #timers: Timers
  readonly #open = new Map<Watcher, () => void>()
  #pinging: Timer | null = null
  #isStopped = false

  constructor(timers: Timers) {
    this.#timers = timers
  }

  get count(): number {
    return this.#open.size
  }

  /** `begin` returns what ends the watch. Returns what to call when the client has left, or the answer that refuses it. */
  open(sink: EventSink, begin: (watcher: Watcher) => () => void): (() => void) | Answer {
    if (this.#isStopped) return problem('503 Service Unavailable', 'draining', 'this node is ending: ask another one')
    if (this.#open.size >= MAX_WATCHERS) {
      return problem(
        '503 Service Unavailable',
        'too_many_watchers',
        `this node has its ${MAX_WATCHERS} watchers already`,
      )
    }
    sink.send(RETRY)
    const watcher = new Watcher(sink)
    this.#open.set(watcher, begin(watcher))
    this.#pinging ??= this.#timers.setInterval(() => this.#ping(), PING_INTERVAL_MS)
    return () => this.#left(watcher)
  }

  #left(watcher: Watcher): void {
    const end = this.#open.get(watcher)
    this.#open.delete(watcher)
    end?.()
    if (this.#open.size > 0 || this.#pinging === null) return
    this.#timers.clear(this.#pinging)
    this.#pinging = null
  }

  #ping(): void {
    for (const watcher of this.#open.keys()) watcher.ping()
  }

  /** Ends all streams; new ones are refused. */
  stop(): void {
    this.#isStopped = true
    for (const watcher of this.#open.keys()) {
      this.#left(watcher)
      watcher.end()
    }
  }
}
