// NATS away for as long as a request waits for it: requests wait no more, but for one a second that tries it.

import type { NatsLink } from '../../nats/connection.ts'
import type { QueueRefusal } from '../queue.ts'
import { askAck } from './probe.ts'
import type { StreamState } from './stream-state.ts'

/** Between two records that try it. */
const TRY_INTERVAL_MS = 1000
/** Between two choices of a request for that: one that was chosen may be a replay, or over a limit. */
const CHOICE_INTERVAL_MS = 10

export class LongOutage {
  readonly #state: StreamState
  readonly #afterMs: number
  #triedAtMs = Number.NEGATIVE_INFINITY
  #chosenAtMs = Number.NEGATIVE_INFINITY

  constructor(state: StreamState, afterMs: number) {
    this.#state = state
    this.#afterMs = afterMs
  }

  /** Of a request that comes at `atMs`; null: it is tried. */
  refusalAt(atMs: number): QueueRefusal | null {
    if (atMs - this.#state.awaySinceMs < this.#afterMs) return null
    if (atMs - this.#triedAtMs < TRY_INTERVAL_MS || atMs - this.#chosenAtMs < CHOICE_INTERVAL_MS) return 'nats_away'
    this.#chosenAtMs = atMs
    return null
  }

  /** A record was published: if NATS is away, it tries it. */
  published(atMs: number): void {
    this.#triedAtMs = atMs
  }

  /** NATS answers. Asks for an acknowledgement where it owes one: only that ends a silence, and perhaps no client sends a batch. */
  async isOver(link: Pick<NatsLink, 'connection'>): Promise<boolean> {
    const { connection } = link
    if (connection === null || this.#state.isAcknowledging) return true
    const ack = await askAck(connection)
    if (ack !== null && connection === link.connection) this.#state.answered(ack)
    return this.#state.isAcknowledging
  }
}
