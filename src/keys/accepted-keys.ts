// Accepted keys: a circular log in order of acceptance, whose head expires first, and a hash table with open addressing
// that points into it. Only typed arrays: 28 to 32 bytes per place, and no object per key.

export const WORDS_PER_ID = 4
/** The id's four words, then the acceptance time and the number of events in one word, and the hash of the body. */
const WORDS_PER_PLACE = 6
const HASH_AT = WORDS_PER_ID + 1
const MIN_PLACES = 16
/** A load factor of at most 1/2 keeps probes short. */
const SLOTS_PER_PLACE = 2
/** With this many places, place + 1 does not fit into 16 bits. */
const PLACES_BEYOND_16_BITS = 65_536

/** MAX_EVENTS fits into 7 bits. */
const EVENT_BITS = 7
const EVENT_MASK = 0x7f
/** Times are stored as their low 25 bits (9 hours). Keys here differ by minutes, so their differences are exact. */
const TIME_MASK = 0x1ffffff

export class AcceptedKeys {
  readonly #seed: number
  readonly #windowMs: number
  #places = MIN_PLACES
  #log = new Uint32Array(MIN_PLACES * WORDS_PER_PLACE)
  /** A key's place + 1; 0: a free slot. */
  #index: Uint16Array | Uint32Array = new Uint16Array(MIN_PLACES * SLOTS_PER_PLACE)
  #head = 0
  #size = 0
  #newestMs = 0

  constructor(seed: number, windowMs: number) {
    this.#seed = seed
    this.#windowMs = windowMs
  }

  /** The number of events that the key was accepted with; -1: it was not accepted, or its window has ended. */
  find(id: Uint32Array, nowMs: number): number {
    const slot = this.#slotOf(id, 0)
    const entry = this.#index[slot]
    if (entry === 0 || this.#ageMs(entry - 1, nowMs) > this.#windowMs) return -1
    return this.#log[(entry - 1) * WORDS_PER_PLACE + WORDS_PER_ID] & EVENT_MASK
  }

  /** Of a key that `find` has found. undefined: not known. */
  eventsHash(id: Uint32Array): number | undefined {
    const place = this.#index[this.#slotOf(id, 0)] - 1
    const hash = this.#log[place * WORDS_PER_PLACE + HASH_AT]
    return hash === 0 ? undefined : hash
  }

  /**
   * Adds a key whose window begins at `acceptedAtMs`. An older entry of the same key stays in the log, unreachable.
   * `eventsHash` 0: not known.
   */
  add(id: Uint32Array, events: number, acceptedAtMs: number, eventsHash: number): void {
    if (this.#size === this.#places) this.#resize(this.#places * 2)
    const place = (this.#head + this.#size) & (this.#places - 1)
    const at = place * WORDS_PER_PLACE
    for (let word = 0; word < WORDS_PER_ID; word++) this.#log[at + word] = id[word]
    this.#log[at + WORDS_PER_ID] = ((acceptedAtMs & TIME_MASK) << EVENT_BITS) | events
    this.#log[at + HASH_AT] = eventsHash
    this.#index[this.#slotOf(id, 0)] = place + 1
    this.#size++
    if (acceptedAtMs > this.#newestMs) this.#newestMs = acceptedAtMs
  }

  /** Forgets expired keys, oldest first, up to `max` unless all have expired. Returns how many it forgot. */
  forget(nowMs: number, max: number): number {
    const sizeBefore = this.#size
    if (sizeBefore === 0) return 0
    if (nowMs - this.#newestMs > this.#windowMs) {
      this.#size = 0
      this.#resize(MIN_PLACES)
      return sizeBefore
    }
    let left = Math.min(max, sizeBefore)
    while (left > 0 && this.#ageMs(this.#head, nowMs) > this.#windowMs) {
      this.#dropFromIndex(this.#head)
      this.#head = (this.#head + 1) & (this.#places - 1)
      this.#size--
      left--
    }
    // At a quarter, not a half: a size that varies around a boundary must not copy the shard each time.
    if (this.#places > MIN_PLACES && this.#size <= this.#places / 4) this.#resize(this.#places / 2)
    return sizeBefore - this.#size
  }

  #ageMs(place: number, nowMs: number): number {
    const acceptedAt = this.#log[place * WORDS_PER_PLACE + WORDS_PER_ID] >>> EVENT_BITS
    // The shifts extend the sign of the 25-bit difference.
    return (((nowMs & TIME_MASK) - acceptedAt) << EVENT_BITS) >> EVENT_BITS
  }

  /** The slot of the key whose words begin at `from`: the one that points to it, or the free one to put it in. */
  #slotOf(words: Uint32Array, from: number): number {
    const index = this.#index
    const log = this.#log
    const mask = index.length - 1
    let slot = this.#hash(words[from]) & mask
    for (;;) {
      const entry = index[slot]
      if (entry === 0) return slot
      const at = (entry - 1) * WORDS_PER_PLACE
      let word = 0
      while (word < WORDS_PER_ID && log[at + word] === words[from + word]) word++
      if (word === WORDS_PER_ID) return slot
      slot = (slot + 1) & mask
    }
  }

  /** Frees the slot that points to `place`, if there is one, and moves later entries of its probe run into the gap. */
  #dropFromIndex(place: number): void {
    const index = this.#index
    const mask = index.length - 1
    let gap = this.#homeOf(place)
    while (index[gap] !== place + 1) {
      if (index[gap] === 0) return
      gap = (gap + 1) & mask
    }
    let slot = gap
    for (;;) {
      slot = (slot + 1) & mask
      const entry = index[slot]
      if (entry === 0) break
      // An entry whose home lies after the gap has to stay: a search for it never visits the gap.
      const fromHome = (slot - this.#homeOf(entry - 1)) & mask
      if (fromHome < ((slot - gap) & mask)) continue
      index[gap] = entry
      gap = slot
    }
    index[gap] = 0
  }

  /** The slot where the search for the key of a place begins. */
  #homeOf(place: number): number {
    return this.#hash(this.#log[place * WORDS_PER_PLACE]) & (this.#index.length - 1)
  }

  /** The finalizer of MurmurHash3, seeded so that clients cannot choose ids that collide. */
  #hash(word: number): number {
    let mixed = word ^ this.#seed
    mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b)
    mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35)
    return mixed ^ (mixed >>> 16)
  }

  /** Copies the log, from its head on, into one of `places`, and builds a new index. */
  #resize(places: number): void {
    const log = new Uint32Array(places * WORDS_PER_PLACE)
    const beforeWrap = Math.min(this.#size, this.#places - this.#head)
    const headAt = this.#head * WORDS_PER_PLACE
    log.set(this.#log.subarray(headAt, headAt + beforeWrap * WORDS_PER_PLACE))
    log.set(this.#log.subarray(0, (this.#size - beforeWrap) * WORDS_PER_PLACE), beforeWrap * WORDS_PER_PLACE)
    this.#log = log
    this.#places = places
    this.#head = 0
    const slots = places * SLOTS_PER_PLACE
    this.#index = places < PLACES_BEYOND_16_BITS ? new Uint16Array(slots) : new Uint32Array(slots)
    for (let place = 0; place < this.#size; place++) {
      this.#index[this.#slotOf(log, place * WORDS_PER_PLACE)] = place + 1
    }
  }
}
