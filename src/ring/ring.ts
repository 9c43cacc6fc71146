// The ring: bounded shared memory that holds each body from its arrival until its events are durable. Allocation wraps
// around and skips bodies that are still in use, so that a body which waits for long blocks no others. It wraps around in
// the first part of the memory as long as bodies find room there, since memory that was never written is not resident.

import { FreeSlots } from './free-slots.ts'
import { footprintBytes, HEADROOM_BYTES, type SharedMemory, SLOT_WORDS, STATE, WORD } from './layout.ts'
import { createMemory } from './memory.ts'

/** One slot for each 4 KiB: smaller bodies run out of slots before they run out of bytes. */
const BYTES_PER_SLOT = 4096

/** From this size on a plain copy saves more than its call costs, wherever the bytes lie. */
const MIN_PLAIN_COPY_BYTES = 192

/** What is enough under a small load. */
const FIRST_REACH_BYTES = 1024 * 1024
const FIRST_REACH_SLOTS = 512
const NONE = -1

/**
 * Only the acceptor's thread claims, fills and releases slots. The pool's threads read bodies and write decoded words.
 */
export class Ring {
  readonly memory: SharedMemory
  readonly bytes: Buffer
  readonly words: Int32Array
  readonly slots: number
  readonly sizeBytes: number

  readonly #freeSlots: FreeSlots
  readonly #firstReachBytes: number
  /** Bodies lie below this offset. It doubles when one finds no room, and is the first one again when the ring is empty. */
  #reachBytes: number
  /** No gap is larger: a full ring refuses at once. */
  #maxGapBytes: number
  #requests = 0
  #usedBytes = 0
  /** The list of bodies in the order of memory is a circle: this entry, beside those of the slots, is its start and end. */
  readonly #origin: number
  readonly #previous: Int32Array
  readonly #next: Int32Array
  /** Free bytes behind each body, and behind the origin before all bodies. */
  readonly #gapBytes: Int32Array
  /** The search for room starts behind this body. */
  #cursor: number

  constructor(sizeBytes: number, firstReachBytes = FIRST_REACH_BYTES, firstReachSlots = FIRST_REACH_SLOTS) {
    this.sizeBytes = sizeBytes
    this.#firstReachBytes = Math.min(firstReachBytes, sizeBytes)
    this.#reachBytes = this.#firstReachBytes
    this.#maxGapBytes = this.#reachBytes
    this.slots = Math.max(16, Math.floor(sizeBytes / BYTES_PER_SLOT))
    this.memory = {
      bytes: createMemory(sizeBytes),
      table: new SharedArrayBuffer(this.slots * SLOT_WORDS * Int32Array.BYTES_PER_ELEMENT),
    }
    this.bytes = Buffer.from(this.memory.bytes.buffer, 0, sizeBytes)
    this.words = new Int32Array(this.memory.table)
    this.#freeSlots = new FreeSlots(this.slots, firstReachSlots)
    this.#origin = this.slots
    this.#cursor = this.#origin
    this.#previous = new Int32Array(this.slots + 1).fill(this.#origin)
    this.#next = new Int32Array(this.slots + 1).fill(this.#origin)
    this.#gapBytes = new Int32Array(this.slots + 1)
    this.#gapBytes[this.#origin] = this.#reachBytes
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
    const slot = this.#freeSlots.take()
    const start = this.#cursor === this.#origin ? 0 : this.words[this.#cursor * SLOT_WORDS + WORD.END]
    const at = slot * SLOT_WORDS
    this.words[at + WORD.STATE] = STATE.CLAIMED
    this.words[at + WORD.OFFSET] = start + HEADROOM_BYTES
    this.words[at + WORD.LENGTH] = lengthBytes
    this.words[at + WORD.END] = start + footprint
    this.#link(slot, footprint)
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
    this.words[at + WORD.EVENTS_HASH] = 0
    // Orders the writes of the body before the state that lets a pool thread read it.
    Atomics.store(this.words, at + WORD.STATE, STATE.ARRIVED)
  }

  /** Frees the slot and its room at once, whatever lies before and after it. */
  release(slot: number): void {
    const at = slot * SLOT_WORDS
    if (this.words[at + WORD.STATE] === STATE.FREE) throw new Error(`slot ${slot} was released twice`)
    this.words[at + WORD.STATE] = STATE.FREE
    this.#freeSlots.give(slot)
    this.#requests--
    const footprint = footprintBytes(this.words[at + WORD.LENGTH])
    this.#usedBytes -= footprint
    this.#unlink(slot, footprint)
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
  eventsHash(slot: number): number {
    return this.words[slot * SLOT_WORDS + WORD.EVENTS_HASH] >>> 0
  }

  /** Index in `words` of a slot's decoded words. */
  decodedAt(slot: number): number {
    return slot * SLOT_WORDS + WORD.DECODED
  }

  /** Moves the cursor to a gap of `footprint` bytes. false: there is none. */
  #findRoom(footprint: number): boolean {
    if (this.#requests === this.slots || this.#usedBytes + footprint > this.sizeBytes) return false
    return (footprint <= this.#maxGapBytes && this.#search(footprint)) || this.#reachFurther(footprint)
  }

  /** Goes round all gaps once, from the cursor on. */
  #search(footprint: number): boolean {
    let maxGapBytes = 0
    for (let gaps = this.#requests + 1; gaps > 0; gaps--) {
      const gapBytes = this.#gapBytes[this.#cursor]
      if (gapBytes >= footprint) return true
      if (gapBytes > maxGapBytes) maxGapBytes = gapBytes
      this.#cursor = this.#next[this.#cursor]
    }
    this.#maxGapBytes = maxGapBytes
    return false
  }

  /** Doubles the reach until there is room behind the last body. */
  #reachFurther(footprint: number): boolean {
    const last = this.#previous[this.#origin]
    const fromBytes = this.#reachBytes
    const wantedBytes = fromBytes - this.#gapBytes[last] + footprint
    if (wantedBytes > this.sizeBytes) return false
    while (this.#reachBytes < wantedBytes) this.#reachBytes = Math.min(2 * this.#reachBytes, this.sizeBytes)
    this.#gapBytes[last] += this.#reachBytes - fromBytes
    this.#maxGapBytes = this.#gapBytes[last]
    this.#cursor = last
    return true
  }

  /** Inserts a body behind the cursor's, and moves the cursor to it. */
  #link(slot: number, footprint: number): void {
    const previous = this.#cursor
    const next = this.#next[previous]
    this.#previous[slot] = previous
    this.#next[slot] = next
    this.#next[previous] = slot
    this.#previous[next] = slot
    this.#gapBytes[slot] = this.#gapBytes[previous] - footprint
    this.#gapBytes[previous] = 0
    this.#cursor = slot
  }

  #unlink(slot: number, footprint: number): void {
    const previous = this.#previous[slot]
    const next = this.#next[slot]
    this.#next[previous] = next
    this.#previous[next] = previous
    this.#gapBytes[previous] += footprint + this.#gapBytes[slot]
    if (this.#cursor === slot) this.#cursor = previous
    if (this.#requests === 0) {
      this.#reachBytes = this.#firstReachBytes
      this.#gapBytes[this.#origin] = this.#reachBytes
    }
    if (this.#gapBytes[previous] <= this.#maxGapBytes) return
    // The ring was crowded: no search needs to go round for the one large gap.
    this.#maxGapBytes = this.#gapBytes[previous]
    this.#cursor = previous
  }
}
