// Keyed records that go out together. Each is a message of its own, under its own id; a NATS server that syncs before it
// acknowledges would sync each of them. An atomic batch of messages is synced once, and costs a server a fixed time more, so
// few records go alone.

import type { Lane, Parcel } from './lanes.ts'

const MAX_ALONE = 16
/** Of one batch. By default a server takes 1,000. */
export const MAX_BATCH_MESSAGES = 128
const MAX_BYTES = 1024 * 1024
/** Larger records gain nothing from company. */
const MAX_RECORD_BYTES = 64 * 1024

/**
 * How many keyed records go alone, and how many may be in flight before further ones gather. `syncMs`: so long after its
 * acknowledgement a message may not be synced.
 */
export function keyedAlone(syncMs: number): number {
  return syncMs === 0 ? MAX_ALONE : Number.POSITIVE_INFINITY
}

export interface Member {
  readonly lane: Lane
  readonly parcel: Parcel
}

export class KeyedGroup {
  readonly #maxPayloadBytes: number
  #members: Member[] = []
  #bytes = 0

  /** `maxPayloadBytes`: of a message, with its headers. */
  constructor(maxPayloadBytes: number) {
    this.#maxPayloadBytes = maxPayloadBytes
  }

  get messages(): number {
    return this.#members.length
  }

  get bytes(): number {
    return this.#bytes
  }

  get isFull(): boolean {
    return this.#members.length === MAX_BATCH_MESSAGES || this.#bytes >= MAX_BYTES
  }

  has(lane: Lane): boolean {
    return this.#members.some((member) => member.lane === lane)
  }

  /** false: it has to go alone. */
  add(lane: Lane, parcel: Parcel): boolean {
    const maxBytes = Math.min(MAX_RECORD_BYTES, this.#maxPayloadBytes / 2)
    const { record, isAlone } = parcel.first
    if (!record.keyed || isAlone === true || parcel.bytes > maxBytes) return false
    this.#members.push({ lane, parcel })
    this.#bytes += parcel.bytes
    return true
  }

  /** Its members in the order in which they came, which it forgets. */
  takeAll(): readonly Member[] {
    const members = this.#members
    this.#members = []
    this.#bytes = 0
    return members
  }
}
