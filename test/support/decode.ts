// Both halves of a decoder in one call, as a body passes them: the scanner, and what explains where it is not sure.

import type { Decoder } from '../../src/decode/decoder.ts'
import type { Validation } from '../../src/decode/verdict.ts'

export function decodeWith(
  decoder: Decoder,
  start: number,
  end: number,
  nowMs: number,
  words: Int32Array,
  at: number,
): Validation | null {
  const verdict = decoder.scan(start, end, nowMs, words, at)
  return verdict === 'not sure' ? decoder.explain(start, end, nowMs, words, at) : verdict
}
