// Messages between their sending and their acknowledgement, and how many more may go. What counts is the window: after a
// broken connection, or one that went silent, a new one begins, and those of the old are waited for without counting.

import type { Entry, Lane, Parcel } from './nats-lanes.ts'

/** A wider window only adds queueing: 64 messages of 1 KB, or 16 of 64 KB, keep the server busy. */
const MAX_MESSAGES = 64
/** The message that reaches it is the last, so that one more than this may be under way. */
const MAX_BYTES = 1024 * 1024

export interface InFlight {
  readonly number: number
  readonly lane: Lane
  /** Those that are not settled yet, oldest first. */
  first: Entry | null
  readonly records: number
  readonly bytes: number
  readonly sentAtMs: number
  /** The highest sequence that was acknowledged when it was sent: in the same stream its own is higher. */
  readonly afterSequence: number
  readonly window: number
  readonly isGathered: boolean
}

export class AckWindow {
  readonly #messages = new Map<number, InFlight>()
  #window = 0
  #lastNumber = 0
  #openMessages = 0
  #openBytes = 0

  get isOpen(): boolean {
    return this.#openMessages < MAX_MESSAGES && this.#openBytes < MAX_BYTES
  }

  /** What waits in this lane goes on gathering: a message of gathered records is in flight, and there is room for more. */
  holds(lane: Lane): boolean {
    return lane.gathered.window === this.#window && lane.gathered.messages > 0 && !lane.isFull
  }

  /** The number that the next message's acknowledgement will bear. */
  get nextNumber(): number {
    return this.#lastNumber + 1
  }

  add(lane: Lane, parcel: Parcel, nowMs: number, afterSequence: number): void {
    this.#lastNumber += 1
    this.#openMessages += 1
    this.#openBytes += parcel.bytes
    const isGathered = !parcel.first.record.keyed
    if (isGathered) this.#countGathered(lane)
    this.#messages.set(this.#lastNumber, {
      number: this.#lastNumber,
      lane,
      first: parcel.first,
      records: parcel.records,
      bytes: parcel.bytes,
      sentAtMs: nowMs,
      afterSequence,
      window: this.#window,
      isGathered,
    })
  }

  /** Takes a message out that was answered; null: nobody waits for it any more. */
  take(number: number): InFlight | null {
    const message = this.#messages.get(number)
    if (message === undefined) return null
    this.#remove(message)
    return message
  }

  /** Hands out the next entry whose time is over, with its message; null: there is none. */
  takeExpired(nowMs: number): { entry: Entry; message: InFlight } | null {
    for (const message of this.#messages.values()) {
      const entry = message.first
      if (entry === null) throw new Error('a message in flight has nothing left to settle')
      if (entry.deadlineMs > nowMs) continue
      message.first = entry.next
      entry.next = null
      if (message.first === null) this.#remove(message)
      return { entry, message }
    }
    return null
  }

  /** It was sent in the window that is open now, and nothing has broken since. */
  isCurrent(message: InFlight): boolean {
    return message.window === this.#window
  }

  /** Begins anew: what was sent may still be answered, and holds nothing up. */
  renew(): void {
    this.#window += 1
    this.#openMessages = 0
    this.#openBytes = 0
  }

  #countGathered({ gathered }: Lane): void {
    // Those of a window before it are not waited for.
    if (gathered.window !== this.#window) gathered.messages = 0
    gathered.window = this.#window
    gathered.messages += 1
  }

  #remove(message: InFlight): void {
    this.#messages.delete(message.number)
    if (message.window !== this.#window) return
    this.#openMessages -= 1
    this.#openBytes -= message.bytes
    if (message.isGathered) message.lane.gathered.messages -= 1
  }
}
