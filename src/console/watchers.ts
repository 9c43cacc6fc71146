// The open streams of this process. They are few, and one that does not read skips what comes meanwhile, so that no
// watcher costs memory or holds up another.

import type { Answer, EventSink } from '../http/admin-routes.ts'
import type { IdOf, Watcher } from '../inspect/live/live-list.ts'
import type { Timers } from '../lib/timers.ts'
import { WhileAny } from '../lib/while-any.ts'

/** Proxies close what is silent for longer; and it shows that a watcher has gone without a word. */
const PING_INTERVAL_MS = 15_000
/** Browsers connect again after this. */
const RETRY = 'retry: 2000\n\n'

/** Beyond this much that waits for a watcher which does not read, it gets no more. */
const MAX_SENT_BYTES = 262_144

export class SinkWatcher implements Watcher {
  readonly #sink: EventSink

  constructor(sink: EventSink) {
    this.#sink = sink
  }

  event(name: string, json: string, id?: string): boolean {
    return this.#send(messageOf(name, json, id))
  }

  /** Of more than the socket may hold, the last ones. */
  events(name: string, jsons: readonly string[], idOf?: IdOf): number {
    const messages = jsons.map((json) => messageOf(name, json, idOf?.(json)))
    let bytes = 0
    let from = messages.length
    while (from > 0 && bytes + Buffer.byteLength(messages[from - 1]) <= MAX_SENT_BYTES) {
      from -= 1
      bytes += Buffer.byteLength(messages[from])
    }
    const sent = messages.slice(from)
    return sent.length > 0 && this.#send(sent.join('')) ? sent.length : 0
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

function messageOf(name: string, json: string, id?: string): string {
  return `event: ${name}\ndata: ${json}\n${id === undefined ? '' : `id: ${id}\n`}\n`
}

interface Open {
  readonly watcher: SinkWatcher
  /** false: who watches may not any more. */
  readonly isAllowed: () => boolean
  readonly end: () => void
}

export class Watchers {
  readonly #open: WhileAny<Open>
  readonly #most: number
  readonly #refuse: (why: 'draining' | 'too_many_watchers') => Answer
  #isStopped = false

  constructor(timers: Timers, most: number, refuse: (why: 'draining' | 'too_many_watchers') => Answer) {
    this.#most = most
    this.#refuse = refuse
    this.#open = new WhileAny(timers, PING_INTERVAL_MS, (all) => {
      for (const open of all) {
        if (open.isAllowed()) open.watcher.ping()
        else this.#close(open)
      }
    })
  }

  /** `begin` returns what ends the watch. Returns what to call when the client has left, or the answer that refuses it. */
  open(sink: EventSink, begin: (watcher: Watcher) => () => void, isAllowed: () => boolean): (() => void) | Answer {
    if (this.#isStopped) return this.#refuse('draining')
    if (this.#open.all.size >= this.#most) return this.#refuse('too_many_watchers')
    sink.write(RETRY)
    const watcher = new SinkWatcher(sink)
    const open = { watcher, isAllowed, end: begin(watcher) }
    this.#open.add(open)
    return () => this.#left(open)
  }

  #left(open: Open): void {
    if (this.#open.delete(open)) open.end()
  }

  #close(open: Open): void {
    this.#left(open)
    open.watcher.end()
  }

  /** Ends all streams; new ones are refused. */
  stop(): void {
    this.#isStopped = true
    for (const open of this.#open.all) this.#close(open)
  }
}
