// Messages between their sending and their acknowledgement, and how many more may go. What counts is the window: after a
// broken connection, or one that went silent, a new one begins, and those of the old are waited for without counting.

import { AckPace } from './ack-pace.ts'
import type { Entry, Lane, Parcel } from './lanes.ts'

export interface InFlight {
  readonly number: number
  readonly lane: Lane
  /** Those that are not settled yet, oldest first. */
  first: Entry | null
  readonly records: number
  readonly bytes: number
  readonly sentAtMs: number
  readonly window: number
  readonly isGathered: boolean
}

export class AckWindow {
  readonly pace = new AckPace()
  readonly #messages = new Map<number, InFlight>()
  #window = 0
  #lastNumber = 0
  #openMessages = 0
  #openBytes = 0

  /** The message that reaches the bound in bytes is the last, so that one more than this may be under way. */
  get isOpen(): boolean {
    return this.#openMessages < this.pace.maxMessages && this.#openBytes < this.pace.maxBytes
  }

  /** What waits in this lane goes on gathering: a message of gathered records is in flight, and there is room for more. */
  holds(lane: Lane): boolean {
    return lane.gathered.window === this.#window && lane.gathered.messages > 0 && !lane.isFull
  }

  /** The number that the next message's acknowledgement will bear. */
  get nextNumber(): number {
    return this.#lastNumber + 1
  }

  add(lane: Lane, parcel: Parcel, nowMs: number): void {
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
    this.pace.renew()
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
