// The open streams of this process. They are few, and one that does not read skips what comes meanwhile, so that no
// watcher costs memory or holds up another.

import { type Answer, type EventSink, problem } from '../http/admin-routes.ts'
import type { Timers } from '../lib/timers.ts'
import { WhileAny } from '../lib/while-any.ts'

export const MAX_WATCHERS = 50
/** Proxies close what is silent for longer; and it shows that a watcher has gone without a word. */
const PING_INTERVAL_MS = 15_000
/** Browsers connect again after this. */
const RETRY = 'retry: 2000\n\n'

/** Beyond this much that waits for a watcher which does not read, it gets no more. */
const MAX_SENT_BYTES = 262_144
/** Of `event: `, `data: ` and the line feeds. */
const FRAME_BYTES = 16

export class Watcher {
  readonly #sink: EventSink

  constructor(sink: EventSink) {
    this.#sink = sink
  }

  /** false: the watcher reads too slowly or has left, and this event is skipped. */
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
    const { destroyed, writableEnded, writableLength } = this.#sink
    if (destroyed || writableEnded || writableLength > MAX_SENT_BYTES) return false
    this.#sink.write(text)
    return true
  }

  end(): void {
    this.#sink.end()
  }
}

interface Open {
  readonly watcher: Watcher
  readonly end: () => void
}

export class Watchers {
  readonly #open: WhileAny<Open>
  #isStopped = false

  constructor(timers: Timers) {
    this.#open = new WhileAny(timers, PING_INTERVAL_MS, (all) => {
      for (const { watcher } of all) watcher.ping()
    })
  }

  /** `begin` returns what ends the watch. Returns what to call when the client has left, or the answer that refuses it. */
  open(sink: EventSink, begin: (watcher: Watcher) => () => void): (() => void) | Answer {
    if (this.#isStopped) return problem(503, 'draining', 'this node is ending: ask another one')
    if (this.#open.all.size >= MAX_WATCHERS) {
      return problem(503, 'too_many_watchers', `this node has its ${MAX_WATCHERS} watchers already`)
    }
    sink.write(RETRY)
    const watcher = new Watcher(sink)
    const open = { watcher, end: begin(watcher) }
    this.#open.add(open)
    return () => this.#left(open)
  }

  #left(open: Open): void {
    if (this.#open.delete(open)) open.end()
  }

  /** Ends all streams; new ones are refused. */
  stop(): void {
    this.#isStopped = true
    for (const open of this.#open.all) {
      this.#left(open)
      open.watcher.end()
    }
  }
}
