// The second engine: simdjson judges the grammar, the plain validator the schema. The package is optional, since
// it compiles when it is installed. Only its `isValid` can be relied on, and only its yes.

import { isUtf8 } from 'node:buffer'
import { createRequire } from 'node:module'
import { validate } from './validator.ts'
import type { Validation } from './verdict.ts'

interface Simdjson {
  isValid(text: string): boolean
}

/** The package, or null where it did not compile. */
export function loadSimdjson(): Simdjson | null {
  try {
    return createRequire(import.meta.url)('simdjson') as Simdjson
  } catch {
    return null
  }
}

/** As `validate`, but a body whose grammar neither simdjson nor JSON.parse takes is refused whatever our reader says. */
export function validateWithSimdjson(
  simdjson: Simdjson,
  body: Uint8Array,
  nowMs: number,
  words: Int32Array,
  at: number,
): Validation {
  const grammarHolds = isJson(simdjson, body)
  const validation = validate(body, nowMs, words, at)
  if (grammarHolds || (validation.kind === 'refused' && validation.code === 'invalid_json')) return validation
  return { kind: 'refused', code: 'invalid_json', appKey: null, message: 'body: not valid JSON' }
}

/** simdjson refuses lone surrogate escapes, 1e999 and integers beyond 64 bits, which are JSON: its no is asked again. */
export function isJson(simdjson: Simdjson, body: Uint8Array): boolean {
  // Bad UTF-8 is looked for first, since toString would hide it behind U+FFFD.
  if (!isUtf8(body)) return false
  const text = Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString('utf8')
  if (text.charCodeAt(0) === 0xfeff) return false
  if (simdjson.isValid(text)) return true
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}
