// Idempotency of one process: the keys in flight, with the requests that wait for them, and the keys accepted in the
// last 300 s, in shards that forget expired keys whenever they are used.

import { IDEMPOTENCY_WINDOW_SECONDS, MAX_EVENTS } from '../contract/bounds.ts'
import { AcceptedKeys, WORDS_PER_ID } from './accepted-keys.ts'
import { type Claim } from './deduplicator.ts'

const WINDOW_MS = IDEMPOTENCY_WINDOW_SECONDS * 1000
const SHARDS = 256
/** After a smaller step back of the clock, time stands still here until it has caught up; after a larger, it goes on. */
const CLOCK_RESET_MS = 60_000
/** So that one sweep blocks the event loop for a few milliseconds at most. */
const MAX_FORGOTTEN_PER_SWEEP = 20_000

const CLAIMED: Claim = { kind: 'claimed' }
const FULL: Claim = { kind: 'full' }

export interface MemoryDeduplicatorOptions {
  /** Most keys accepted in the last 300 s and in flight, together. */
  readonly maxKeys: number
  /** A random number, so that a client cannot choose keys that collide in the hash table. */
  readonly seed?: number
}

/**
 * One request at a time holds a key. `batchId` is the UUIDv5 of app and key, in lower case: the scope of a key is its
 * app, so the id identifies it.
 */
export interface MemoryDeduplicator {
  /** Returns at once if the key is new or was accepted; waits while another request holds it. */
  claim(batchId: string, nowMs: number): Claim | Promise<Claim>
  /** The request was accepted: remembers the key, and the waiting requests replay it. `eventsHash` 0: not known. */
  confirm(batchId: string, events: number, nowMs: number, eventsHash?: number): void
  /** The request was not accepted: the key passes to the request that has waited longest. */
  release(batchId: string): void
  /** Remembers a key accepted before this start. To be called in order of acceptance: keys are forgotten in that order. */
  restore(batchId: string, events: number, acceptedAtMs: number): void
  /** Forgets expired keys and frees their memory. To be called about once a second. */
  sweep(nowMs: number): void
  /** Accepted keys in memory. */
  readonly size: number
}

type Waiter = (claim: Claim) => void

/**
 * A key is remembered for 300,000 ms from its acceptance, the last millisecond included. `maxKeys` counts these keys and
 * those in flight, so that a claimed key can always be confirmed.
 */
export function createMemoryDeduplicator(options: MemoryDeduplicatorOptions): MemoryDeduplicator {
  return new ShardedDeduplicator(options.maxKeys, options.seed ?? 0)
}

class ShardedDeduplicator implements MemoryDeduplicator {
  readonly #maxKeys: number
  readonly #shards: AcceptedKeys[]
  /** The requests that wait for each key in flight, oldest first; null: none waits. */
  readonly #inFlight = new Map<string, Waiter[] | null>()
  readonly #id = new Uint32Array(WORDS_PER_ID)
  #accepted = 0
  #newestMs = 0
  /** Added to the caller's clock, which was set back. */
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
    if (events >= 0) return { kind: 'replay', events, eventsHash: shard.eventsHash(this.#id) }
    if (this.#accepted + this.#inFlight.size >= this.#maxKeys && !this.#forgetExpired(timeMs)) return FULL
    this.#inFlight.set(batchId, null)
    return CLAIMED
  }

  confirm(batchId: string, events: number, nowMs: number, eventsHash = 0): void {
    const waiters = this.#removeInFlight(batchId)
    this.#remember(batchId, events, this.#timeAt(nowMs), eventsHash)
    if (waiters === null) return
    for (const resolve of waiters) resolve({ kind: 'replay', events, eventsHash: eventsHash || undefined })
  }

  release(batchId: string): void {
    const waiters = this.#removeInFlight(batchId)
    if (waiters === null) return
    // The key stays in flight: the others now wait for the next holder.
    const next = waiters.shift() as Waiter
    this.#inFlight.set(batchId, waiters.length > 0 ? waiters : null)
    next(CLAIMED)
  }

  restore(batchId: string, events: number, acceptedAtMs: number): void {
    if (acceptedAtMs > this.#newestMs) this.#newestMs = acceptedAtMs
    if (this.#newestMs - acceptedAtMs <= WINDOW_MS) this.#remember(batchId, events, acceptedAtMs, 0)
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

  #removeInFlight(batchId: string): Waiter[] | null {
    const waiters = this.#inFlight.get(batchId)
    if (waiters === undefined) throw new Error(`${batchId} is not in flight`)
    this.#inFlight.delete(batchId)
    return waiters
  }

  #remember(batchId: string, events: number, acceptedAtMs: number, eventsHash: number): void {
    if (!(events >= 0 && events <= MAX_EVENTS)) throw new Error(`a batch cannot hold ${events} events`)
    const shard = this.#shardOf(batchId)
    this.#accepted -= shard.forget(this.#newestMs, MAX_FORGOTTEN_PER_SWEEP)
    shard.add(this.#id, events, acceptedAtMs, eventsHash)
    this.#accepted++
  }

  /** In every shard. true: there is room for another key. */
  #forgetExpired(timeMs: number): boolean {
    for (const shard of this.#shards) this.#accepted -= shard.forget(timeMs, MAX_FORGOTTEN_PER_SWEEP / SHARDS)
    return this.#accepted + this.#inFlight.size < this.#maxKeys
  }

  /** Parses the id into `#id`. Its last byte selects the shard: the bits of a UUIDv5 come from SHA-1, so they spread. */
  #shardOf(batchId: string): AcceptedKeys {
    readId(batchId, this.#id)
    return this.#shards[this.#id[3] % SHARDS]
  }

  /** A time that never goes back; otherwise a step back of the clock would keep keys for hours. */
  #timeAt(nowMs: number): number {
    const timeMs = nowMs + this.#clockOffsetMs
    if (timeMs > this.#newestMs) this.#newestMs = timeMs
    else if (timeMs <= this.#newestMs - CLOCK_RESET_MS) this.#clockOffsetMs += this.#newestMs - timeMs
    return this.#newestMs
  }
}

/** The value of each lower-case hexadecimal digit by its ASCII code; 0 for other codes. */
const DIGIT_VALUES = Uint8Array.from({ length: 128 }, (_, code) =>
  Math.max(0, '0123456789abcdef'.indexOf(String.fromCharCode(code))),
)

/** Parses a UUID into four 32-bit words. Its dashes are at 8, 13, 18 and 23. */
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
