// The checks of a request's head, in the order of the contract.

import { EVENTS_PATH, MAX_BODY_BYTES } from '../contract/bounds.ts'
import { type Outcome, overloaded, refused } from '../contract/outcome.ts'
import type { Ring } from '../ring/ring.ts'
import { contentEncodingOf, isTextMediaType, jsonOf, type RequestHead } from './head.ts'

/** null: the head is accepted. */
export function screen(head: RequestHead, ring: Pick<Ring, 'hasRoomFor'>): Outcome | null {
  const lengthBytes = head.contentLengthBytes ?? 0
  // First of all, and the connection is closed after this answer, since the bytes that follow are ambiguous.
  if (head.framingFault !== null) return refused('validation_failed', head.framingFault)
  if (head.path !== EVENTS_PATH) return refused('not_found')
  const isFromPage = head.corsHeaders !== ''
  if (head.method === 'OPTIONS' && isFromPage) return { kind: 'preflight' }
  // What a browser asks before it sends for a page of another origin.
  if (head.method === 'OPTIONS') return refused('method_not_allowed', null, null, head.foreignOrigin)
  if (head.method !== 'POST') return refused('method_not_allowed')
  if (!ring.hasRoomFor(Math.min(lengthBytes, MAX_BODY_BYTES))) return overloaded('ring_full')
  const json = jsonOf(head.contentType)
  if (json === 'other charset') return refused('unsupported_media_type', 'Content-Type: charset must be utf-8')
  // What a page sends without that question.
  if (json === 'none' && !(isFromPage && isTextMediaType(head.contentType))) {
    const origin = isTextMediaType(head.contentType) ? head.foreignOrigin : null
    return refused('unsupported_media_type', null, null, origin)
  }
  if (contentEncodingOf(head.contentEncoding) === null) {
    return refused('unsupported_media_type', 'Content-Encoding: must be identity, gzip, deflate or br')
  }
  if (lengthBytes > MAX_BODY_BYTES) return refused('payload_too_large')
  return null
}
