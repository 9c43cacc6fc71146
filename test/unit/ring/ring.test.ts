import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { footprintBytes, HEADROOM_BYTES, SLOT_WORDS, STATE, WORD } from '../../../src/ring/layout.ts'
import { Ring } from '../../../src/ring/ring.ts'

const KIB = 1024

/** The naive model: an owner, or none, for every byte of the ring. */
class Model {
  readonly owners: Int32Array
  readonly live = new Map<number, { start: number; end: number }>()
  constructor(sizeBytes: number) {
    this.owners = new Int32Array(sizeBytes).fill(-1)
  }
  get usedBytes(): number {
    return [...this.live.values()].reduce((sum, { start, end }) => sum + end - start, 0)
  }
  largestGap(): number {
    let largest = 0
    let from = 0
    for (const { start, end } of [...this.live.values()].toSorted((one, other) => one.start - other.start)) {
      largest = Math.max(largest, start - from)
      from = end
    }
    return Math.max(largest, this.owners.length - from)
  }
  take(slot: number, start: number, end: number): void {
    for (let at = start; at < end; at++) {
      if (this.owners[at] !== -1) throw new Error(`byte ${at} belongs to slot ${this.owners[at]}`)
      this.owners[at] = slot
    }
    this.live.set(slot, { start, end })
  }
  drop(slot: number): void {
    const place = this.live.get(slot)
    if (place === undefined) throw new Error('the model holds no such slot')
    this.owners.fill(-1, place.start, place.end)
    this.live.delete(slot)
  }
}

function commitBody(ring: Ring, slot: number, fill: number): void {
  ring.bytes.fill(fill, ring.offset(slot), ring.offset(slot) + ring.length(slot))
  ring.commit(slot)
}

describe('the ring', () => {
  it('never gives a byte to two bodies, keeps bodies intact, and becomes empty again, whatever the order of releases', () => {
    const step = fc.oneof(
      // More claims than releases, so that most of them meet a ring that is full of gaps.
      {
        weight: 3,
        arbitrary: fc.record({ kind: fc.constant('claim' as const), length: fc.integer({ min: 0, max: 20 * KIB }) }),
      },
      { weight: 2, arbitrary: fc.record({ kind: fc.constant('release' as const), pick: fc.nat() }) },
    )
    fc.assert(
      fc.property(fc.array(step, { minLength: 50, maxLength: 200 }), (steps) => {
        // Bodies begin in a part of the memory and of the slots, and outgrow both.
        const ring = new Ring(64 * KIB, 8 * KIB, 3)
        const model = new Model(64 * KIB)
        const order: number[] = []
        const expected = new Map<number, number>()
        let fill = 0
        for (const { kind, ...args } of steps) {
          if (kind === 'claim') {
            const { length } = args as { length: number }
            const room = ring.hasRoomFor(length)
            const slot = ring.claim(length)
            expect(slot >= 0).toBe(room)
            // A refused body fits nowhere.
            expect(room).toBe(order.length < ring.slots && footprintBytes(length) <= model.largestGap())
            if (slot < 0) continue
            const start = ring.offset(slot) - HEADROOM_BYTES
            expect(ring.offset(slot) % 8).toBe(0)
            expect(start + footprintBytes(length)).toBeLessThanOrEqual(ring.sizeBytes)
            model.take(slot, start, start + footprintBytes(length))
            fill = (fill + 1) % 251
            commitBody(ring, slot, fill)
            expected.set(slot, fill)
            order.push(slot)
          } else if (order.length > 0) {
            const [slot] = order.splice((args as { pick: number }).pick % order.length, 1)
            const body = ring.bytes.subarray(ring.offset(slot), ring.offset(slot) + ring.length(slot))
            expect(Buffer.alloc(body.length, expected.get(slot)).equals(body)).toBe(true)
            model.drop(slot)
            ring.release(slot)
          }
          expect(ring.usedBytes).toBe(model.usedBytes)
          expect(ring.requests).toBe(order.length)
        }
        for (const slot of order) ring.release(slot)
        expect([ring.requests, ring.usedBytes]).toEqual([0, 0])
        expect(ring.hasRoomFor(63 * KIB)).toBe(true)
      }),
      { numRuns: 300 },
    )
  })

  it.each([0, 1, 191, 192, 193, 4095, 4096, 20_000])('keeps a body of pieces of up to %i bytes unchanged', (length) => {
    const ring = new Ring(256 * KIB)
    // Each piece begins at another alignment, and no two of its words are alike.
    const source = Buffer.from(Uint32Array.from({ length: 8 * KIB }, (_, n) => n * 2_654_435_761).buffer)
    const pieces = [length, 7, length].map((bytes, n) => source.subarray(n, n + bytes))
    const slot = ring.claim(2 * length + 7)
    const beyond = ring.offset(slot) + ring.length(slot)
    ring.fill(slot, pieces)
    expect(ring.bytes.subarray(ring.offset(slot), beyond)).toEqual(Buffer.concat(pieces))
    expect(ring.bytes.subarray(beyond).every((byte) => byte === 0)).toBe(true)
    expect(ring.bytes.subarray(0, ring.offset(slot)).every((byte) => byte === 0)).toBe(true)
  })

  it('allocates consecutive slots, so that a run is a first slot and a count', () => {
    const ring = new Ring(64 * KIB)
    for (let round = 0; round < 100; round++) {
      const slot = ring.claim(10)
      expect(slot).toBe(round % ring.slots)
      ring.commit(slot)
      ring.release(slot)
    }
  })

  it('refuses when it is out of slots, even with bytes left', () => {
    const ring = new Ring(64 * KIB)
    const slots = Array.from({ length: ring.slots }, () => ring.claim(0))
    expect(slots.every((slot) => slot >= 0)).toBe(true)
    expect(ring.claim(0)).toBe(-1)
    ring.commit(slots[0])
    ring.release(slots[0])
    expect(ring.claim(0)).toBe(slots[0])
  })

  it('skips a body that stays, however many come and go meanwhile', () => {
    const ring = new Ring(256 * KIB)
    ring.claim(30 * KIB)
    const stays = ring.claim(10 * KIB)
    ring.release(0)
    for (let round = 0; round < 1000; round++) {
      const slots = Array.from({ length: 5 }, () => ring.claim(30 * KIB))
      expect(slots.every((slot) => slot >= 0 && slot !== stays)).toBe(true)
      for (const slot of slots) ring.release(slot)
    }
    expect([ring.requests, ring.usedBytes]).toEqual([1, footprintBytes(10 * KIB)])
  })

  it('uses the room between bodies that stay, where it is large enough', () => {
    const ring = new Ring(128 * KIB)
    const slots = Array.from({ length: 12 }, () => ring.claim(10 * KIB))
    for (const slot of [3, 4, 8]) ring.release(slots[slot])
    expect(ring.hasRoomFor(21 * KIB)).toBe(false)
    const between = ring.claim(20 * KIB)
    expect(ring.offset(between)).toBe(ring.offset(slots[3]))
    expect(ring.claim(10 * KIB)).toBeGreaterThanOrEqual(0)
    expect(ring.hasRoomFor(10 * KIB)).toBe(false)
  })

  it('finds room again at once when it was full, wherever it is', () => {
    const ring = new Ring(4096 * KIB)
    const slots = Array.from({ length: ring.slots }, () => ring.claim(3700))
    expect(slots.every((slot) => slot >= 0)).toBe(true)
    expect(ring.claim(3700)).toBe(-1)
    for (const slot of [slots[777], slots[3], slots[1022]]) {
      ring.release(slot)
      expect(ring.hasRoomFor(3700)).toBe(true)
      expect(ring.claim(3700)).toBe(slot)
      expect(ring.claim(3700)).toBe(-1)
    }
  })

  it('has room again as soon as a body leaves a larger gap than the one that was too small', () => {
    const ring = new Ring(64 * KIB)
    const slots = Array.from({ length: 6 }, () => ring.claim(10_000))
    for (const at of [1, 3]) ring.release(slots[at])
    expect(ring.hasRoomFor(20_000)).toBe(false)
    ring.release(slots[2])
    expect(ring.hasRoomFor(20_000)).toBe(true)
    expect(ring.offset(ring.claim(20_000))).toBe(ring.offset(slots[1]))
  })

  it('finds the one gap that is large enough, behind more than a thousand that are not', () => {
    const ring = new Ring(16_384 * KIB)
    const slots = Array.from({ length: 3000 }, () => ring.claim(5000))
    // What is left after the last body.
    while (ring.claim(5000) >= 0);
    for (let at = 0; at < 2600; at += 2) ring.release(slots[at])
    for (const at of [2997, 2998]) ring.release(slots[at])
    expect(ring.hasRoomFor(10_000)).toBe(true)
    expect(ring.offset(ring.claim(10_000))).toBe(ring.offset(slots[2996]) + footprintBytes(5000))
    expect(ring.hasRoomFor(10_000)).toBe(false)
    expect(ring.hasRoomFor(5000)).toBe(true)
  })

  it('finds a free slot behind more than a thousand in use', () => {
    const ring = new Ring(8192 * KIB)
    const slots = Array.from({ length: ring.slots }, () => ring.claim(0))
    expect(slots.every((slot) => slot >= 0)).toBe(true)
    for (const freed of [1800, 40, 2047]) {
      ring.release(freed)
      expect(ring.claim(0)).toBe(freed)
    }
  })

  it('stays in its first 1 MiB and 512 slots while these are enough, since memory that was never written costs none', () => {
    const ring = new Ring(64 * 1024 * KIB)
    const live: number[] = []
    for (let round = 0; round < 20_000; round++) {
      const slot = ring.claim(600 + (round % 7) * 100)
      expect(slot).toBeLessThan(512)
      expect(ring.offset(slot) + ring.length(slot)).toBeLessThanOrEqual(1024 * KIB)
      live.push(slot)
      // They leave in another order than they came.
      if (live.length > 400) for (const at of [350, 10]) ring.release(live.splice(at, 1)[0])
    }
  })

  it('goes beyond its first part only as far as bodies need it, and back when it is empty', () => {
    const ring = new Ring(64 * 1024 * KIB)
    const endOf = (slot: number): number => ring.offset(slot) - HEADROOM_BYTES + footprintBytes(ring.length(slot))
    for (let round = 0; round < 3; round++) {
      const slots = Array.from({ length: 1500 }, () => ring.claim(5000))
      expect(Math.max(...slots)).toBeLessThan(2048)
      expect(Math.max(...slots.map(endOf))).toBeLessThanOrEqual(8192 * KIB)
      for (const slot of slots) ring.release(slot)
      expect(ring.claim(0)).toBeLessThan(512)
      const [small, large] = [ring.claim(5000), ring.claim(500 * KIB)]
      expect([small, large].map(endOf).every((end) => end <= 1024 * KIB)).toBe(true)
      for (let slot = 0; slot < 512; slot++)
        if (ring.words[slot * SLOT_WORDS + WORD.STATE] !== STATE.FREE) ring.release(slot)
      expect([ring.requests, ring.usedBytes]).toEqual([0, 0])
    }
  })

  it('takes a body that is larger than its first part', () => {
    const ring = new Ring(8192 * KIB, 64 * KIB)
    const slot = ring.claim(3000 * KIB)
    expect(ring.offset(slot)).toBe(HEADROOM_BYTES)
    expect(ring.hasRoomFor(5000 * KIB)).toBe(true)
    expect(ring.hasRoomFor(6000 * KIB)).toBe(false)
  })

  it('counts claimed bytes and requests until they are released', () => {
    const ring = new Ring(64 * KIB)
    const slot = ring.claim(100)
    expect([ring.requests, ring.usedBytes]).toEqual([1, footprintBytes(100)])
    ring.commit(slot)
    ring.release(slot)
    expect([ring.requests, ring.usedBytes]).toEqual([0, 0])
  })

  it('throws when a slot is released twice: a slot has one owner at a time', () => {
    const ring = new Ring(64 * KIB)
    const first = ring.claim(1)
    const second = ring.claim(1)
    ring.commit(first)
    ring.commit(second)
    ring.release(second)
    expect(() => ring.release(second)).toThrow(/released twice/)
  })

  it('passes through its states in order: arrived by commit, decoded by the pool, free after release', () => {
    const ring = new Ring(64 * KIB)
    const slot = ring.claim(1)
    const at = slot * SLOT_WORDS + WORD.STATE
    ring.commit(slot)
    expect(ring.words[at]).toBe(STATE.ARRIVED)
    expect(ring.isDecoded(slot)).toBe(false)
    Atomics.store(ring.words, at, STATE.DECODED)
    expect(ring.isDecoded(slot)).toBe(true)
    ring.release(slot)
    expect(ring.words[at]).toBe(STATE.FREE)
  })
})
