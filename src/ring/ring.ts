// The ring: bounded shared memory that holds each body from its arrival until its events are durable. Allocation wraps
// around and skips bodies that are still in use, so that a body which waits for long blocks no others.

import { footprintBytes, HEADROOM_BYTES, type SharedMemory, SLOT_WORDS, STATE, WORD } from './layout.ts'
import { createMemory } from './memory.ts'

/** One slot for each 4 KiB: smaller bodies run out of slots before they run out of bytes. */
const BYTES_PER_SLOT = 4096

/** From this size on a plain copy saves more than its call costs, wherever the bytes lie. */
const MIN_PLAIN_COPY_BYTES = 192

/** Places that one search tries, so that a full ring refuses quickly. The next search continues from there. */
const MAX_LOOKS = 512
const NONE = -1

/**
 * Only the front end's thread claims, fills and releases slots. The pool's threads read bodies and write decoded words.
 */
export class Ring {
  readonly memory: SharedMemory
  readonly bytes: Buffer
  readonly words: Int32Array
  readonly slots: number
  readonly sizeBytes: number

  /** The slot that the next claim tries first. */
  #nextSlot = 0
  #requests = 0
  #usedBytes = 0
  /** For each body the slots of its neighbours in memory; NONE: there is none. */
  readonly #previous: Int32Array
  readonly #next: Int32Array
  /** Slot of the body with the lowest offset. */
  #first = NONE
  /** The search for room starts after the body of this slot; NONE: before all bodies. */
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
    this.#previous = new Int32Array(this.slots)
    this.#next = new Int32Array(this.slots)
  }

  /** Bodies in the ring. */
  get requests(): number {
    return this.#requests
  }

  /** Including headroom and sentinels. */
  get usedBytes(): number {
    return this.#usedBytes
  }

  hasRoomFor(lengthBytes: number): boolean {
    return this.#findRoom(footprintBytes(lengthBytes))
  }

  /** Allocates a slot for a body, which the caller fills and commits at once; -1: there is no room. */
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

  /** Copies a body into its slot. The pieces have exactly the claimed length together. */
  fill(slot: number, pieces: readonly Uint8Array[]): void {
    let offset = this.offset(slot)
    for (const piece of pieces) {
      // `set` copies to shared memory word by word, for the sake of threads that read at the same time, and byte by byte
      // where source and target are not aligned alike, which takes ten times as long as the plain copy of `fill`. No
      // thread reads before the commit, so the plain copy is enough.
      if (piece.length < MIN_PLAIN_COPY_BYTES) this.bytes.set(piece, offset)
      else this.bytes.fill(piece, offset, offset + piece.length)
      offset += piece.length
    }
  }

  /** The body is complete: the pool owns the slot now. `isKeyed`: it hashes the body. */
  commit(slot: number, isKeyed = false): void {
    const at = slot * SLOT_WORDS
    this.words[at + WORD.KEYED] = Number(isKeyed)
    this.words[at + WORD.BODY_HASH] = 0
    // Orders the writes of the body before the state that lets a pool thread read it.
    Atomics.store(this.words, at + WORD.STATE, STATE.ARRIVED)
  }

  /** Frees the slot and its room at once, whatever lies before and after it. */
  release(slot: number): void {
    const at = slot * SLOT_WORDS
    if (this.words[at + WORD.STATE] === STATE.FREE) throw new Error(`slot ${slot} was released twice`)
    this.words[at + WORD.STATE] = STATE.FREE
    this.#unlink(slot)
    this.#requests--
    this.#usedBytes -= this.words[at + WORD.END] - this.#startOf(slot)
  }

  /** Whether the pool has decoded the slot. */
  isDecoded(slot: number): boolean {
    // Orders a pool thread's writes of the decoded words, made before it stored the state, before our reads of them.
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

  /** Of a keyed body that the pool has hashed; 0: not known. */
  bodyHash(slot: number): number {
    return this.words[slot * SLOT_WORDS + WORD.BODY_HASH] >>> 0
  }

  /** Index in `words` of a slot's decoded words. */
  decodedAt(slot: number): number {
    return slot * SLOT_WORDS + WORD.DECODED
  }

  /** Moves the cursor to a gap of `footprint` bytes. false: the search found none. */
  #findRoom(footprint: number): boolean {
    if (this.#requests === this.slots || this.#usedBytes + footprint > this.sizeBytes) return false
    for (let looks = 0; looks < MAX_LOOKS; looks++) {
      const next = this.#cursor === NONE ? this.#first : this.#next[this.#cursor]
      const end = next === NONE ? this.sizeBytes : this.#startOf(next)
      if (end - this.#gapStart() >= footprint) return true
      // After the last body this is NONE, the start of the ring.
      this.#cursor = next
    }
    return false
  }

  /** The next free slot; slots in use are skipped. */
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

  /** Inserts a body after the cursor's, and moves the cursor to it. */
  #link(slot: number): void {
    const previous = this.#cursor
    const next = previous === NONE ? this.#first : this.#next[previous]
    this.#previous[slot] = previous
    this.#next[slot] = next
    if (previous === NONE) this.#first = slot
    else this.#next[previous] = slot
    if (next !== NONE) this.#previous[next] = slot
    this.#cursor = slot
  }

  #unlink(slot: number): void {
    const previous = this.#previous[slot]
    const next = this.#next[slot]
    if (previous === NONE) this.#first = next
    else this.#next[previous] = next
    if (next !== NONE) this.#previous[next] = previous
    if (this.#cursor === slot) this.#cursor = previous
  }
}
