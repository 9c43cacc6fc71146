// Idempotency of one process: the keys in flight, with those who wait for them, and the keys accepted in the last
// 300 s, kept compactly in shards that forget as they are touched.

import { IDEMPOTENCY_WINDOW_SECONDS } from '../bounds.ts'
import { AcceptedKeys, WORDS_PER_ID } from './accepted-keys.ts'
import { type Claim } from './deduplicator.ts'

const WINDOW_MS = IDEMPOTENCY_WINDOW_SECONDS * 1000
const SHARDS = 256
/** A clock that steps back by less stands still here instead; by more, it was wrong before, and is believed now. */
const STEP_BACK_BELIEVED_MS = 60_000
/** Keys forgotten in one sweep, so that it never holds up requests for more than a few milliseconds. */
const MAX_FORGOTTEN_PER_SWEEP = 20_000
/** Events of a batch fit into 7 bits. */
const MAX_EVENTS = 100

const CLAIMED: Claim = { kind: 'claimed' }
const FULL: Claim = { kind: 'full' }

export interface MemoryDeduplicatorOptions {
  /** Most keys accepted in the last 300 s and in flight, together. */
  readonly maxKeys: number
  /** Any random number: it spreads the keys, so that a client cannot choose keys that fall on one place. */
  readonly seed?: number
}

/**
 * One key is held by one request at a time. `batchId` is the UUIDv5 of app and key in its
 * usual lower-case text: the scope of a key is its app, so the id alone names it.
 */
export interface MemoryDeduplicator {
  /** Answers at once where the key is new or was accepted; waits while another request holds it. */
  claim(batchId: string, nowMs: number): Claim | Promise<Claim>
  /** The request was accepted: remember it, and let those who wait replay it. */
  confirm(batchId: string, events: number, nowMs: number): void
  /** The request was not accepted: the first of those who wait has the key now. */
  release(batchId: string): void
  /** Remembers a key that was accepted before this start. Best called in order of acceptance. */
  restore(batchId: string, events: number, acceptedAtMs: number): void
  /** Forgets keys whose 300 s are over, and gives their memory back. To be called about once a second. */
  sweep(nowMs: number): void
  /** Accepted keys that are held. */
  readonly size: number
}

type Waiter = (claim: Claim) => void

/**
 * A key is remembered for 300,000 ms from its acceptance, that last millisecond included. `maxKeys` counts those
 * and the keys in flight, so that whoever has claimed a key can always confirm it.
 */
export function createMemoryDeduplicator(options: MemoryDeduplicatorOptions): MemoryDeduplicator {
  return new ShardedDeduplicator(options.maxKeys, options.seed ?? 0)
}

class ShardedDeduplicator implements MemoryDeduplicator {
  readonly #maxKeys: number
  readonly #shards: AcceptedKeys[]
  /** Those who wait for each key in flight, the oldest first; null: nobody waits. */
  readonly #inFlight = new Map<string, Waiter[] | null>()
  readonly #id = new Uint32Array(WORDS_PER_ID)
  #accepted = 0
  #newestMs = 0
  /** What is added to the caller's clock, after it was set back. */
  #clockOffsetMs = 0
  #sweepNext = 0

  constructor(maxKeys: number, seed: number) {
    this.#maxKeys = maxKeys
    this.#shards = Array.from({ length: SHARDS }, () => new AcceptedKeys(seed, WINDOW_MS))
  }

  get size(): number {
    return this.#accepted
  }

  claim(batchId: string, nowMs: number): Claim | Promise<Claim> {
    const waiters = this.#inFlight.get(batchId)
    if (waiters !== undefined) return this.#wait(batchId, waiters)
    const timeMs = this.#timeAt(nowMs)
    const shard = this.#shardOf(batchId)
    this.#accepted -= shard.forget(timeMs, MAX_FORGOTTEN_PER_SWEEP)
    const events = shard.find(this.#id, timeMs)
    if (events >= 0) return { kind: 'replay', events }
    if (this.#accepted + this.#inFlight.size >= this.#maxKeys && !this.#makeRoom(timeMs)) return FULL
    this.#inFlight.set(batchId, null)
    return CLAIMED
  }

  confirm(batchId: string, events: number, nowMs: number): void {
    const waiters = this.#leave(batchId)
    this.#remember(batchId, events, this.#timeAt(nowMs))
    if (waiters === null) return
    for (const resolve of waiters) resolve({ kind: 'replay', events })
  }

  release(batchId: string): void {
    const waiters = this.#leave(batchId)
    if (waiters === null) return
    // The key stays in flight: it passes to the one who has waited longest, and the others wait for that one.
    const next = waiters.shift() as Waiter
    this.#inFlight.set(batchId, waiters.length > 0 ? waiters : null)
    next(CLAIMED)
  }

  restore(batchId: string, events: number, acceptedAtMs: number): void {
    if (acceptedAtMs > this.#newestMs) this.#newestMs = acceptedAtMs
    if (this.#newestMs - acceptedAtMs <= WINDOW_MS) this.#remember(batchId, events, acceptedAtMs)
  }

  sweep(nowMs: number): void {
    const timeMs = this.#timeAt(nowMs)
    let forgettable = MAX_FORGOTTEN_PER_SWEEP
    for (let visited = 0; visited < SHARDS && forgettable > 0; visited++) {
      const forgotten = this.#shards[this.#sweepNext].forget(timeMs, forgettable)
      this.#accepted -= forgotten
      forgettable -= forgotten
      this.#sweepNext = (this.#sweepNext + 1) % SHARDS
    }
  }

  #wait(batchId: string, waiters: Waiter[] | null): Promise<Claim> {
    return new Promise((resolve) => {
      if (waiters === null) this.#inFlight.set(batchId, [resolve])
      else waiters.push(resolve)
    })
  }

  #leave(batchId: string): Waiter[] | null {
    const waiters = this.#inFlight.get(batchId)
    if (waiters === undefined) throw new Error(`${batchId} is not in flight`)
    this.#inFlight.delete(batchId)
    return waiters
  }

  #remember(batchId: string, events: number, acceptedAtMs: number): void {
    if (!(events >= 0 && events <= MAX_EVENTS)) throw new Error(`a batch cannot hold ${events} events`)
    const shard = this.#shardOf(batchId)
    this.#accepted -= shard.forget(this.#newestMs, MAX_FORGOTTEN_PER_SWEEP)
    shard.add(this.#id, events, acceptedAtMs)
    this.#accepted++
  }

  /** Forgets in every shard what is over; true: a place has become free. */
  #makeRoom(timeMs: number): boolean {
    for (const shard of this.#shards) this.#accepted -= shard.forget(timeMs, MAX_FORGOTTEN_PER_SWEEP / SHARDS)
    return this.#accepted + this.#inFlight.size < this.#maxKeys
  }

  /** Reads the id into `#id`; its last byte, which SHA-1 has spread, names the shard. */
  #shardOf(batchId: string): AcceptedKeys {
    readId(batchId, this.#id)
    return this.#shards[this.#id[3] % SHARDS]
  }

  /** The time that keys age by: it never goes back, or a key could be remembered for hours. */
  #timeAt(nowMs: number): number {
    const timeMs = nowMs + this.#clockOffsetMs
    if (timeMs > this.#newestMs) this.#newestMs = timeMs
    else if (timeMs <= this.#newestMs - STEP_BACK_BELIEVED_MS) this.#clockOffsetMs += this.#newestMs - timeMs
    return this.#newestMs
  }
}

/** Value of each ASCII code as a hexadecimal digit, in lower case; 0 for the others. */
const DIGIT_VALUES = Uint8Array.from({ length: 128 }, (_, code) =>
  Math.max(0, '0123456789abcdef'.indexOf(String.fromCharCode(code))),
)

/** Reads a UUID's text into four words; its dashes stand at 8, 13, 18 and 23. */
function readId(text: string, words: Uint32Array): void {
  words[0] = (readHalf(text, 0) << 16) | readHalf(text, 4)
  words[1] = (readHalf(text, 9) << 16) | readHalf(text, 14)
  words[2] = (readHalf(text, 19) << 16) | readHalf(text, 24)
  words[3] = (readHalf(text, 28) << 16) | readHalf(text, 32)
}

function readHalf(text: string, at: number): number {
  return (
    (DIGIT_VALUES[text.charCodeAt(at)] << 12) |
    (DIGIT_VALUES[text.charCodeAt(at + 1)] << 8) |
    (DIGIT_VALUES[text.charCodeAt(at + 2)] << 4) |
    DIGIT_VALUES[text.charCodeAt(at + 3)]
  )
}
