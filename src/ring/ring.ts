// The ring: bounded shared memory in which a body lies from its arrival until its events are durable. Room is handed
// out round and round, and past bodies that stay: one that waits for long, for its twin or the queue, holds up nobody.

import { footprintBytes, HEADROOM_BYTES, type SharedMemory, SLOT_WORDS, STATE, WORD } from './layout.ts'
import { createMemory } from './memory.ts'

/** One slot for so many bytes: bodies smaller than this run out of slots before they run out of bytes. */
const BYTES_PER_SLOT = 4096

/** From here on one plain copy is cheaper than the call that makes it. */
const MIN_PLAIN_COPY_BYTES = 4096

/** Places that one search looks at; the next goes on from there, so that a full ring refuses quickly. */
const MAX_LOOKS = 512
const NONE = -1

/** Written and released by the front end's thread alone; the pool's threads read bodies and write decoded words. */
export class Ring {
  readonly memory: SharedMemory
  readonly bytes: Buffer
  readonly words: Int32Array
  readonly slots: number
  readonly sizeBytes: number

  /** The slot that is looked at first by the next claim. */
  #nextSlot = 0
  #requests = 0
  #usedBytes = 0
  /** Slots of the bodies before and behind each body, by where they lie; NONE: there is none. */
  readonly #before: Int32Array
  readonly #behind: Int32Array
  /** Slot of the body that lies first. */
  #first = NONE
  /** Slot of the body behind which room is looked for first; NONE: before all of them. */
  #cursor = NONE

  constructor(sizeBytes: number) {
    this.sizeBytes = sizeBytes
    this.slots = Math.max(16, Math.floor(sizeBytes / BYTES_PER_SLOT))
    this.memory = {
      bytes: createMemory(sizeBytes),
      table: new SharedArrayBuffer(this.slots * SLOT_WORDS * Int32Array.BYTES_PER_ELEMENT),
    }
    this.bytes = Buffer.from(this.memory.bytes.buffer, 0, sizeBytes)
    this.words = new Int32Array(this.memory.table)
    this.#before = new Int32Array(this.slots)
    this.#behind = new Int32Array(this.slots)
  }

  /** Bodies in the ring. */
  get requests(): number {
    return this.#requests
  }

  /** Bytes taken, headroom and sentinels included. */
  get usedBytes(): number {
    return this.#usedBytes
  }

  hasRoomFor(lengthBytes: number): boolean {
    return this.#findRoom(footprintBytes(lengthBytes))
  }

  /** A place for a body of so many bytes: its slot, which the caller fills and commits at once; -1 where there is none. */
  claim(lengthBytes: number): number {
    const footprint = footprintBytes(lengthBytes)
    if (!this.#findRoom(footprint)) return NONE
    const slot = this.#findSlot()
    if (slot === NONE) return NONE
    const start = this.#gapStart()
    const at = slot * SLOT_WORDS
    this.words[at + WORD.STATE] = STATE.CLAIMED
    this.words[at + WORD.OFFSET] = start + HEADROOM_BYTES
    this.words[at + WORD.LENGTH] = lengthBytes
    this.words[at + WORD.END] = start + footprint
    this.#link(slot)
    this.#requests++
    this.#usedBytes += footprint
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

  /** The slot's body is not needed any more: its room is free at once, whatever still lies before and behind it. */
  release(slot: number): void {
    const at = slot * SLOT_WORDS
    if (this.words[at + WORD.STATE] === STATE.FREE) throw new Error(`slot ${slot} was released twice`)
    this.words[at + WORD.STATE] = STATE.FREE
    this.#unlink(slot)
    this.#requests--
    this.#usedBytes -= this.words[at + WORD.END] - this.#startOf(slot)
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

  /** Moves the cursor to where so many bytes are free. false: there is no such place, or not within the next few. */
  #findRoom(footprint: number): boolean {
    if (this.#requests === this.slots || this.#usedBytes + footprint > this.sizeBytes) return false
    for (let looks = 0; looks < MAX_LOOKS; looks++) {
      const behind = this.#cursor === NONE ? this.#first : this.#behind[this.#cursor]
      const end = behind === NONE ? this.sizeBytes : this.#startOf(behind)
      if (end - this.#gapStart() >= footprint) return true
      // Behind the last body it goes on at the start of the ring.
      this.#cursor = behind
    }
    return false
  }

  /** The next slot that is free; those of bodies that stay longer than others are passed over. */
  #findSlot(): number {
    for (let looks = 0; looks < MAX_LOOKS; looks++) {
      const slot = this.#nextSlot
      this.#nextSlot = slot + 1 === this.slots ? 0 : slot + 1
      if (this.words[slot * SLOT_WORDS + WORD.STATE] === STATE.FREE) return slot
    }
    return NONE
  }

  #gapStart(): number {
    return this.#cursor === NONE ? 0 : this.words[this.#cursor * SLOT_WORDS + WORD.END]
  }

  #startOf(slot: number): number {
    return this.words[slot * SLOT_WORDS + WORD.OFFSET] - HEADROOM_BYTES
  }

  /** Puts a body behind the cursor's, and the cursor on it. */
  #link(slot: number): void {
    const before = this.#cursor
    const behind = before === NONE ? this.#first : this.#behind[before]
    this.#before[slot] = before
    this.#behind[slot] = behind
    if (before === NONE) this.#first = slot
    else this.#behind[before] = slot
    if (behind !== NONE) this.#before[behind] = slot
    this.#cursor = slot
  }

  #unlink(slot: number): void {
    const before = this.#before[slot]
    const behind = this.#behind[slot]
    if (before === NONE) this.#first = behind
    else this.#behind[before] = behind
    if (behind !== NONE) this.#before[behind] = before
    if (this.#cursor === slot) this.#cursor = before
  }
}
