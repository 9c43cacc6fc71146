// Reads the words that a pool thread wrote for a slot, and the parts of the body that they point at.

import { MAX_SDK_VERSION_CHARACTERS } from '../contract/bounds.ts'
import { FIELD, HEADROOM_BYTES } from './layout.ts'
import type { Ring } from './ring.ts'
import { ShortTexts } from './short-texts.ts'

/** Of all rings. */
const texts = new ShortTexts()

/** Only for an accepted body, and before its record is built, which overwrites these bytes. */
export function appKeyIn(ring: Ring, slot: number): string {
  const at = ring.decodedAt(slot)
  const start = ring.offset(slot)
  const { bytes, words } = ring
  return texts.latin1(bytes, start + words[at + FIELD.appKeyStart], start + words[at + FIELD.appKeyEnd])
}

/**
 * JSON text with its quotes; empty where the request has none. 'latin1': one character for each byte, for who writes it
 * back as it was.
 */
export function sdkVersionIn(ring: Ring, slot: number, encoding: 'latin1' | 'utf8'): string {
  const at = ring.decodedAt(slot)
  const end = ring.words[at + FIELD.sdkVersionEnd]
  if (end === 0) return ''
  const bodyStart = ring.offset(slot)
  const start = bodyStart + ring.words[at + FIELD.sdkVersionStart]
  if (encoding === 'latin1') return texts.latin1(ring.bytes, start, bodyStart + end)
  return ring.bytes.toString(encoding, start, bodyStart + end)
}

/** In quotes, with each character as an escape. */
const MAX_VERSION_BYTES = 2 + 6 * MAX_SDK_VERSION_CHARACTERS

/** Decoded; null: the request has none, or a longer one than is shown to the people who run the service. */
export function shownSdkVersionIn(ring: Ring, slot: number): string | null {
  const at = ring.decodedAt(slot)
  const lengthBytes = sdkVersionBytesIn(ring, at)
  if (lengthBytes === 0 || lengthBytes > MAX_VERSION_BYTES) return null
  const version = JSON.parse(sdkVersionIn(ring, slot, 'utf8')) as string
  return version.length <= MAX_SDK_VERSION_CHARACTERS ? version : null
}

export function eventsIn(ring: Ring, slot: number): { track: number; screen: number; revenue: number } {
  const at = ring.decodedAt(slot)
  return {
    track: ring.words[at + FIELD.track],
    screen: ring.words[at + FIELD.screen],
    revenue: ring.words[at + FIELD.revenue],
  }
}

/** Of their JSON text. */
export function eventsBytesIn({ words }: Ring, at: number): number {
  return words[at + FIELD.eventsEnd] - words[at + FIELD.eventsStart]
}

/** Of its JSON text with quotes; 0: the request has none. */
export function sdkVersionBytesIn({ words }: Ring, at: number): number {
  return words[at + FIELD.sdkVersionEnd] - words[at + FIELD.sdkVersionStart]
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
