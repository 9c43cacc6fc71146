// Reads the words that a pool thread wrote for a slot, and the parts of the body that they point at.

import { FIELD, HEADROOM_BYTES } from './layout.ts'
import type { Ring } from './ring.ts'

/** Only for an accepted body, and before its record is built, which overwrites these bytes. */
export function appKeyIn(ring: Ring, slot: number): string {
  const at = ring.decodedAt(slot)
  const start = ring.offset(slot)
  return ring.bytes.toString(
    'latin1',
    start + ring.words[at + FIELD.appKeyStart],
    start + ring.words[at + FIELD.appKeyEnd],
  )
}

/** JSON text with its quotes; empty where the request has none. */
export function sdkVersionIn(ring: Ring, slot: number): string {
  const at = ring.decodedAt(slot)
  const end = ring.words[at + FIELD.sdkVersionEnd]
  if (end === 0) return ''
  const start = ring.offset(slot)
  return ring.bytes.toString('utf8', start + ring.words[at + FIELD.sdkVersionStart], start + end)
}

export function eventsIn(ring: Ring, slot: number): { track: number; screen: number; revenue: number } {
  const at = ring.decodedAt(slot)
  return {
    track: ring.words[at + FIELD.track],
    screen: ring.words[at + FIELD.screen],
    revenue: ring.words[at + FIELD.revenue],
  }
}

/** Where the events lie in the ring, and from where on a record may be written before them. */
export function recordPlaceIn(ring: Ring, slot: number): { from: number; eventsStart: number; eventsEnd: number } {
  const at = ring.decodedAt(slot)
  const start = ring.offset(slot)
  return {
    from: start - HEADROOM_BYTES,
    eventsStart: start + ring.words[at + FIELD.eventsStart],
    eventsEnd: start + ring.words[at + FIELD.eventsEnd],
  }
}
