// Finds out from the stream which batches of the spool it has: those that were sent without an acknowledgement, and those whose
// key another node may have taken while Redis did not answer.

import type { NatsConnection } from '@nats-io/transport-node'
import { IDEMPOTENCY_WINDOW_SECONDS } from '../../contract/bounds.ts'
import { partitionOf } from '../../contract/partition.ts'
import type { Timers } from '../../lib/timers.ts'
import { probe } from '../stream/probe.ts'
import { type FoundMessage, IdIndex } from '../stream/read/id-index.ts'
import { isForgotten, recordIn } from '../stream/read/stream-original.ts'
import type { SpooledRecord } from './spool-records.ts'

const WINDOW_MS = IDEMPOTENCY_WINDOW_SECONDS * 1000
/**
 * Half of the duplicate window: what is younger, and has its id still, the window decides when it is sent again. Less what a message
 * may take on its way.
 */
const DECIDED_BY_WINDOW_MS = WINDOW_MS - 10_000
/** Asked about at one time. */
const MAX_AT_ONCE = 32

export interface Settled {
  /** Of the message in which the stream has it; null: it does not, and what was sent before never comes. */
  readonly sequence: number | null
  /** With which the id of that message begins. */
  readonly messageId: string
  /**
   * Until when it can be sent, where the stream does not have it; Unix ms: so that the duplicate window still has what was
   * stored of it since the stream was read, or since it was sent first.
   */
  readonly untilMs: number
}

export class Settler {
  readonly #partitions: number
  readonly #timers: Timers
  readonly #indexes: readonly IdIndex[]
  #connection: NatsConnection | null = null

  constructor(partitions: number, timers: Timers) {
    this.#partitions = partitions
    this.#timers = timers
    this.#indexes = Array.from({ length: partitions }, (_, at) => new IdIndex(at, timers))
  }

  /** NATS may have lost messages. */
  forget(): void {
    for (const index of this.#indexes) index.forget()
  }

  /** In the order of `records`. Rejects where NATS does not answer, or cannot tell. */
  async settle(records: readonly SpooledRecord[], connection: NatsConnection): Promise<Settled[]> {
    if (this.#connection !== connection) this.forget()
    this.#connection = connection
    const nowMs = this.#timers.nowMs()
    // First, so that nothing comes in behind the reading.
    const probed: (number | null)[] = []
    for (let at = 0; at < records.length; at += MAX_AT_ONCE) {
      const some = records.slice(at, at + MAX_AT_ONCE)
      probed.push(...(await Promise.all(some.map((record) => probeOf(record, connection)))))
    }
    const isAsked = ({ head }: SpooledRecord, place: number): boolean =>
      probed[place] === null && isOld(head.receivedAtMs, nowMs)
    // For all of them at once, since a partition with very many messages is read again for each question.
    const readAtMs = await this.#readIds(records.filter(isAsked), connection)
    const settled: Settled[] = []
    for (const [place, record] of records.entries()) {
      const sinceMs = isAsked(record, place) ? readAtMs[this.#partitionOf(record)] : record.head.receivedAtMs
      const messageId = record.messageId ?? record.head.batchId
      const found = isAsked(record, place)
        ? await this.#find(record, connection)
        : { sequence: probed[place], messageId }
      settled.push({ ...found, untilMs: sinceMs + DECIDED_BY_WINDOW_MS })
    }
    return settled
  }

  /** Returns when the end of each partition was read. */
  async #readIds(records: readonly SpooledRecord[], connection: NatsConnection): Promise<number[]> {
    const readAtMs: number[] = []
    for (const [partition, index] of this.#indexes.entries()) {
      const ours = records.filter((record) => this.#partitionOf(record) === partition)
      if (ours.length === 0) continue
      const ids = new Set(ours.flatMap(idsOf))
      // Another node may have taken the key before this one.
      const fromMs = Math.min(...ours.map(({ head }) => head.receivedAtMs)) - WINDOW_MS
      await index.read(connection, ids, fromMs)
      readAtMs[partition] = this.#timers.nowMs()
    }
    return readAtMs
  }

  async #find(record: SpooledRecord, connection: NatsConnection): Promise<Omit<Settled, 'untilMs'>> {
    const index = this.#indexes[this.#partitionOf(record)]
    for (const id of idsOf(record)) {
      for (const message of await index.find(connection, id)) {
        if (holds(message, record)) return { sequence: message.sequence, messageId: id }
      }
    }
    return { sequence: null, messageId: record.head.batchId }
  }

  #partitionOf({ head }: SpooledRecord): number {
    return partitionOf(head.appId, this.#partitions)
  }
}

/** Whether a message has this batch. A key that is used again after five minutes is another batch with the same id. */
export function holds({ data }: Pick<FoundMessage, 'data'>, { head }: SpooledRecord): boolean {
  const found = recordIn(data, head.batchId)
  return found !== undefined && !isForgotten(found.head.receivedAtMs, head.receivedAtMs)
}

function idsOf({ head, messageId }: SpooledRecord): string[] {
  return messageId === null || messageId.startsWith(head.batchId) ? [head.batchId] : [head.batchId, messageId]
}

/**
 * The one rule: until when a record that waits may be sent without a question, by the clock. What may have been sent before is asked
 * for first. Of a keyed one the duplicate window decides, wherever else it was taken, and forgets. One without a key is nowhere else.
 */
export function sureUntilMs({ head }: SpooledRecord, mayBeSent: boolean, nowMs: number): number {
  if (mayBeSent) return Number.NEGATIVE_INFINITY
  if (!head.keyed) return Number.POSITIVE_INFINITY
  return isOld(head.receivedAtMs, nowMs) ? Number.NEGATIVE_INFINITY : head.receivedAtMs + DECIDED_BY_WINDOW_MS
}

/** The duplicate window may have forgotten it, by this clock, which may be wrong either way. */
function isOld(receivedAtMs: number, nowMs: number): boolean {
  return Math.abs(nowMs - receivedAtMs) > DECIDED_BY_WINDOW_MS
}

/** Of a record that shared a message with others: its id cannot be used again, so the stream has to drop it. */
async function probeOf(record: SpooledRecord, connection: NatsConnection): Promise<number | null> {
  const { messageId, head } = record
  if (messageId === null || messageId.startsWith(head.batchId)) return null
  const probed = await probe(connection, messageId)
  if (probed === 'unknown') throw new Error('the stream does not say what became of a message')
  return probed === 'burnt' || !holds(probed, record) ? null : probed.sequence
}
