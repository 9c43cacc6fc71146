// Rings and their decoders, used by one run after the other: each takes a WebAssembly memory of its own, which is dear
// to make.

import { createDecoder, type Decoder } from '../../src/decode/decoder.ts'
import { SLOT_WORDS, STATE, WORD } from '../../src/ring/layout.ts'
import { Ring } from '../../src/ring/ring.ts'

const RING_BYTES = 1024 * 1024

export interface RingAndDecoder {
  readonly ring: Ring
  readonly decoder: Decoder
}

const free: RingAndDecoder[] = []

export function takeRing(): RingAndDecoder {
  const pooled = free.pop()
  if (pooled !== undefined) return pooled
  const ring = new Ring(RING_BYTES)
  return { ring, decoder: createDecoder('scanner', ring.memory.bytes) }
}

/** A node that was killed leaves bodies in it. */
export function putRing(used: RingAndDecoder): void {
  const { ring } = used
  for (let slot = 0; slot < ring.slots && ring.requests > 0; slot++) {
    if (ring.words[slot * SLOT_WORDS + WORD.STATE] !== STATE.FREE) ring.release(slot)
  }
  free.push(used)
}
