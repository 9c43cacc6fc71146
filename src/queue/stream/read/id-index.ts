// The ids of the messages that one partition has stored since a time: whether a batch is among them, at any age. The duplicate
// window answers that for ten minutes only.

import type { NatsConnection } from '@nats-io/transport-node'
import type { Timers } from '../../../lib/timers.ts'
import { API_TIMEOUT_MS } from '../../../nats/api.ts'
import { ID_HEADER } from '../stream.ts'
import { CostReader } from './cost-reader.ts'
import { getFromLeader } from './stream-message.ts'

/** About 120 bytes each. With more, only the ids that are asked for are kept, and the next question reads again. */
const MAX_IDS = 200_000
/** The clocks of a node and of NATS may differ by so much. */
const SKEW_MS = 60_000
/** Where others were used up, a batch id is followed by a number (Entry.burntIds). */
const NUMBER = /\.\d+$/

export interface FoundMessage {
  readonly sequence: number
  readonly data: Uint8Array
}

export class IdIndex {
  readonly #partition: number
  readonly #timers: Timers
  readonly #sequences = new Map<string, number[]>()
  #fromMs = Number.POSITIVE_INFINITY
  #nextSequence = 0

  constructor(partition: number, timers: Timers) {
    this.#partition = partition
    this.#timers = timers
  }

  /** Reads what is new. `ids`: those that will be asked for, of messages that nobody stored before `fromMs`. Rejects where NATS does not answer. */
  async read(connection: NatsConnection, ids: ReadonlySet<string>, fromMs: number): Promise<void> {
    if (fromMs < this.#fromMs) this.forget()
    const from = this.#nextSequence > 0 ? { sequence: this.#nextSequence } : { timeMs: fromMs - SKEW_MS }
    const reader = await CostReader.open(connection, this.#partition, from, this.#timers)
    let wanted: ReadonlySet<string> | null = null
    try {
      const end = await reader.askEnd()
      for (let isOver = false; !isOver; ) {
        const { messages, isEnd } = await reader.read()
        for (const { id, sequence } of messages) {
          this.#note(id.replace(NUMBER, ''), sequence, wanted)
          this.#nextSequence = sequence + 1
        }
        if (wanted === null && this.#sequences.size > MAX_IDS) {
          wanted = ids
          // Also where this reading fails: the next one may not go on from here.
          this.#fromMs = Number.POSITIVE_INFINITY
          for (const id of this.#sequences.keys()) if (!ids.has(id)) this.#sequences.delete(id)
        }
        if (isEnd && !reader.hasPassed(end)) throw new Error("a NATS server is behind the stream's leader")
        isOver = isEnd
      }
    } finally {
      reader.close()
    }
    if (wanted === null) this.#fromMs = Math.min(fromMs, this.#fromMs)
  }

  #note(id: string, sequence: number, wanted: ReadonlySet<string> | null): void {
    if (id === '' || (wanted !== null && !wanted.has(id))) return
    const known = this.#sequences.get(id)
    if (known === undefined) this.#sequences.set(id, [sequence])
    else known.push(sequence)
  }

  /** The connection is another one, or NATS has lost messages. */
  forget(): void {
    this.#sequences.clear()
    this.#fromMs = Number.POSITIVE_INFINITY
    this.#nextSequence = 0
  }

  /** The messages with this id, that are there still. Rejects where NATS does not answer. */
  async find(connection: NatsConnection, id: string): Promise<FoundMessage[]> {
    const found: FoundMessage[] = []
    for (const sequence of this.#sequences.get(id) ?? []) {
      const message = await getFromLeader(connection, sequence, API_TIMEOUT_MS)
      if (message?.header.get(ID_HEADER).replace(NUMBER, '') === id) found.push({ sequence, data: message.data })
    }
    return found
  }
}
