// Rings and their decoders, reused by one run after the other: each needs its own WebAssembly memory, which is slow to
// create.

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

/** Also releases the slots that a killed node left in use. */
export function putRing(used: RingAndDecoder): void {
  const { ring } = used
  for (let slot = 0; slot < ring.slots && ring.requests > 0; slot++) {
    if (ring.words[slot * SLOT_WORDS + WORD.STATE] !== STATE.FREE) ring.release(slot)
  }
  free.push(used)
}
