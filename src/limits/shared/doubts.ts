// Writes what is in doubt to Redis: a retry under its key then takes nothing that was taken before, and the audit settles it
// before it closes its minute. While Redis is away it waits here.

import type { Doubt } from '../../queue/stream/publisher-options.ts'
import { integer, listOf } from '../../redis/reply.ts'
import type { SharedContext } from './context.ts'
import { doubtsKey } from './take.ts'

/** As long as JetStream's duplicate window, in which a doubt can be settled, and a minute. */
const KEPT_SECONDS = 660
/** More than a node ever has in flight. Beyond, they are dropped. */
const MAX_UNWRITTEN = 100_000

export class Doubts {
  readonly #context: SharedContext
  /** By name. */
  readonly #unwritten = new Map<string, Doubt>()
  #isScheduled = false

  constructor(context: SharedContext) {
    this.#context = context
  }

  /** Written in this turn of the event loop, and so before the call that releases its key. */
  add(doubt: Doubt): void {
    if (this.#unwritten.size < MAX_UNWRITTEN) this.#unwritten.set(doubt.name, doubt)
    if (this.#isScheduled) return
    this.#isScheduled = true
    this.#context.timers.setImmediate(() => {
      this.#isScheduled = false
      this.write()
    })
  }

  /** The batch is stored: what it took is spent, and a use of its key long after takes anew. */
  settled(partition: number, name: string): void {
    const { link, onFault } = this.#context
    this.#unwritten.delete(name)
    link.call((client) => client.hdel(doubtsKey(partition), name), integer).catch(onFault)
  }

  /** Also to be called when Redis is back, and every second: what had no answer is written again. */
  write(): void {
    if (!this.#context.link.isUp || this.#unwritten.size === 0) return
    const doubts = [...this.#unwritten.values()]
    this.#unwritten.clear()
    for (const partition of new Set(doubts.map((doubt) => doubt.partition))) {
      void this.#writeOf(
        partition,
        doubts.filter((doubt) => doubt.partition === partition),
      )
    }
  }

  async #writeOf(partition: number, doubts: readonly Doubt[]): Promise<void> {
    const { link, onFault } = this.#context
    const key = doubtsKey(partition)
    const texts = doubts.flatMap(({ name, minute, events, messageId }) => [name, `${minute} ${events} ${messageId}`])
    try {
      const reply = await link.call(
        (client) => Promise.all([client.hset(key, ...texts), client.expire(key, KEPT_SECONDS)]),
        listOf(integer, 2),
      )
      if (reply !== 'away') return
      for (const doubt of doubts) if (this.#unwritten.size < MAX_UNWRITTEN) this.#unwritten.set(doubt.name, doubt)
    } catch (error) {
      onFault(error)
    }
  }
}
