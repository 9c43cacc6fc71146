// The messages in flight, and how many more may be sent. A broken or silent connection begins a new window: the
// messages of the old one may still be answered, but they no longer count.

import { AckPace } from './ack-pace.ts'
import type { Entry, Lane, Parcel } from './lanes.ts'

export interface InFlight {
  readonly number: number
  /** Its Nats-Msg-Id. */
  readonly id: string
  readonly lane: Lane
  /** Its unacknowledged records, oldest first. */
  first: Entry | null
  readonly records: number
  readonly bytes: number
  readonly sentAtMs: number
  readonly window: number
  /** It holds records without a key, which wait for each other to share a message. */
  readonly isGathered: boolean
}

export class AckWindow {
  readonly pace = new AckPace()
  readonly #messages = new Map<number, InFlight>()
  #window = 0
  #lastNumber = 0
  #openMessages = 0
  #openBytes = 0
  #openKeyed = 0

  /**
   * Checked before a message is added, so that the last one may exceed the bound in bytes. `messages` and `bytes`: of those
   * that are about to be.
   */
  isOpen(messages = 0, bytes = 0): boolean {
    return this.#openMessages + messages < this.pace.maxMessages && this.#openBytes + bytes < this.pace.maxBytes
  }

  /**
   * The records of this lane keep gathering: one of its gathered messages is in flight, and they do not fill one yet.
   */
  holds(lane: Lane): boolean {
    return lane.gathered.window === this.#window && lane.gathered.messages > 0 && !lane.isFull
  }

  /** Messages in flight with a keyed record each. */
  get keyedMessages(): number {
    return this.#openKeyed
  }

  /** The number of the next message, which its acknowledgement carries. */
  get nextNumber(): number {
    return this.#lastNumber + 1
  }

  add(lane: Lane, parcel: Parcel, id: string, atMs: number): void {
    this.#lastNumber += 1
    this.#openMessages += 1
    this.#openBytes += parcel.bytes
    const isGathered = !parcel.first.record.keyed
    if (isGathered) this.#countGathered(lane)
    else this.#openKeyed += 1
    this.#messages.set(this.#lastNumber, {
      number: this.#lastNumber,
      id,
      lane,
      first: parcel.first,
      records: parcel.records,
      bytes: parcel.bytes,
      sentAtMs: atMs,
      window: this.#window,
      isGathered,
    })
  }

  /** Removes an answered message; null: all its records have expired. */
  take(number: number): InFlight | null {
    const message = this.#messages.get(number)
    if (message === undefined) return null
    this.#remove(message)
    return message
  }

  /** Removes the next expired entry and returns it with its message; null: there is none. */
  takeExpired(atMs: number): { entry: Entry; message: InFlight } | null {
    for (const message of this.#messages.values()) {
      const entry = message.first
      if (entry === null) throw new Error('a message in flight has nothing left to acknowledge')
      if (entry.deadlineMs > atMs) continue
      message.first = entry.next
      entry.next = null
      if (message.first === null) this.#remove(message)
      return { entry, message }
    }
    return null
  }

  /** The message belongs to the current window. */
  isCurrent(message: InFlight): boolean {
    return message.window === this.#window
  }

  /** Begins a new window: messages that were sent may still be answered, but take no room in it. */
  renew(): void {
    this.#window += 1
    this.pace.renew()
    this.#openMessages = 0
    this.#openBytes = 0
    this.#openKeyed = 0
  }

  #countGathered({ gathered }: Lane): void {
    // The messages of an earlier window no longer count.
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
    else this.#openKeyed -= 1
  }
}
