// The ring: bounded shared memory in which a body lies from its arrival until its events are durable. Slots and
// bytes are handed out in order and become free in order, so that a place is found by two comparisons.

import { createMemory } from '../decode/memory.ts'
import { footprintBytes, HEADROOM_BYTES, type SharedMemory, SLOT_WORDS, STATE, WORD } from './layout.ts'

/** One slot for so many bytes: bodies smaller than this run out of slots before they run out of bytes. */
const BYTES_PER_SLOT = 4096

/** From here on one plain copy is cheaper than the call that makes it. */
const MIN_PLAIN_COPY_BYTES = 4096

/** Written and released by the front end's thread alone; the pool's threads read bodies and write decoded words. */
export class Ring {
  readonly memory: SharedMemory
  readonly bytes: Buffer
  readonly words: Int32Array
  readonly slots: number
  readonly sizeBytes: number

  /** Count of claims so far: the next claim gets slot `#claimed % slots`. */
  #claimed = 0
  /** Count of slots that are free again, in order of their claim. */
  #freed = 0
  /** Where the next body's room begins, and where the oldest body's does. Equal: empty, or full when slots are out. */
  #head = 0
  #tail = 0
  #usedBytes = 0

  constructor(sizeBytes: number) {
    this.sizeBytes = sizeBytes
    this.slots = Math.max(16, Math.floor(sizeBytes / BYTES_PER_SLOT))
    this.memory = {
      bytes: createMemory(sizeBytes),
      table: new SharedArrayBuffer(this.slots * SLOT_WORDS * Int32Array.BYTES_PER_ELEMENT),
    }
    this.bytes = Buffer.from(this.memory.bytes.buffer, 0, sizeBytes)
    this.words = new Int32Array(this.memory.table)
  }

  /** Bodies in the ring. */
  get requests(): number {
    return this.#claimed - this.#freed
  }

  /** Bytes taken, headroom, sentinels and the skipped end of the ring included. */
  get usedBytes(): number {
    return this.#usedBytes
  }

  hasRoomFor(lengthBytes: number): boolean {
    return this.#place(footprintBytes(lengthBytes)) >= 0
  }

  /** A place for a body of so many bytes: its slot, which the caller fills and commits at once; -1 where there is none. */
  claim(lengthBytes: number): number {
    const footprint = footprintBytes(lengthBytes)
    const start = this.#place(footprint)
    if (start < 0) return -1
    const skipped = start < this.#head ? this.sizeBytes - this.#head : 0
    const slot = this.#claimed % this.slots
    const at = slot * SLOT_WORDS
    this.words[at + WORD.OFFSET] = start + HEADROOM_BYTES
    this.words[at + WORD.LENGTH] = lengthBytes
    this.words[at + WORD.END] = start + footprint
    this.#claimed++
    this.#head = start + footprint
    this.#usedBytes += footprint + skipped
    return slot
  }

  /** Copies a body into its slot. The pieces make up exactly the length that was claimed. */
  fill(slot: number, pieces: readonly Uint8Array[]): void {
    let offset = this.offset(slot)
    for (const piece of pieces) {
      // `set` copies to shared memory word by word, as other threads could look on: five times slower for large
      // pieces. Nobody does before the commit, and `fill` is one plain copy.
      if (piece.length < MIN_PLAIN_COPY_BYTES) this.bytes.set(piece, offset)
      else this.bytes.fill(piece, offset, offset + piece.length)
      offset += piece.length
    }
  }

  /** The body is whole: the slot is the pool's now. */
  commit(slot: number): void {
    // Orders the body's bytes, written above, before the state that lets another thread read them.
    Atomics.store(this.words, slot * SLOT_WORDS + WORD.STATE, STATE.ARRIVED)
  }

  /** The slot's body is not needed any more. Its room is free once all that came before it is released too. */
  release(slot: number): void {
    const at = slot * SLOT_WORDS
    if (this.words[at + WORD.STATE] === STATE.FREE || this.words[at + WORD.STATE] === STATE.RELEASED) {
      throw new Error(`slot ${slot} was released twice`)
    }
    this.words[at + WORD.STATE] = STATE.RELEASED
    while (this.#freed < this.#claimed) {
      const oldest = (this.#freed % this.slots) * SLOT_WORDS
      if (this.words[oldest + WORD.STATE] !== STATE.RELEASED) return
      this.words[oldest + WORD.STATE] = STATE.FREE
      this.#free(this.words[oldest + WORD.END])
      this.#freed++
    }
    this.#head = 0
    this.#tail = 0
    this.#usedBytes = 0
  }

  /** Whether the pool is done with a slot. */
  isDecoded(slot: number): boolean {
    // Orders the decoded words, written by a pool thread before it stored the state, before our reads of them.
    return Atomics.load(this.words, slot * SLOT_WORDS + WORD.STATE) === STATE.DECODED
  }

  /** Byte offset of a slot's body. */
  offset(slot: number): number {
    return this.words[slot * SLOT_WORDS + WORD.OFFSET]
  }

  /** Length in bytes of a slot's body. */
  length(slot: number): number {
    return this.words[slot * SLOT_WORDS + WORD.LENGTH]
  }

  /** Index in `words` of a slot's decoded numbers. */
  decodedAt(slot: number): number {
    return slot * SLOT_WORDS + WORD.DECODED
  }

  /** Where a footprint fits: behind the head, else from the start again; -1: nowhere. */
  #place(footprint: number): number {
    if (this.requests === this.slots) return -1
    const inUse = this.requests > 0
    if (inUse && this.#head <= this.#tail) return footprint <= this.#tail - this.#head ? this.#head : -1
    if (footprint <= this.sizeBytes - this.#head) return this.#head
    return footprint <= this.#tail ? 0 : -1
  }

  /** Moves the tail past a body that ends at `end`, and past the end of the ring that it was wrapped around. */
  #free(end: number): void {
    const wrapped = end <= this.#tail
    this.#usedBytes -= wrapped ? this.sizeBytes - this.#tail + end : end - this.#tail
    this.#tail = end
  }
}
