// The second decoder: simdjson checks the grammar, and the validator the schema. The package is an optional peer, since
// its installation compiles it. Of its functions only `isValid` is used, and only its yes is trusted.

import { isUtf8 } from 'node:buffer'
import { createRequire } from 'node:module'
import { validate } from './validator.ts'
import type { Validation } from './verdict.ts'

interface Simdjson {
  isValid(text: string): boolean
}

/** The package, or null where it is not installed. */
export function loadSimdjson(): Simdjson | null {
  try {
    return createRequire(import.meta.url)('simdjson') as Simdjson
  } catch {
    return null
  }
}

/** Like `validate`, but also refuses a body that neither simdjson nor JSON.parse accepts. */
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
  return {
    kind: 'refused',
    code: 'invalid_json',
    appKey: null,
    sdkVersion: null,
    message: 'body: not valid JSON',
    errors: null,
  }
}

/**
 * simdjson refuses lone surrogate escapes, 1e999 and integers beyond 64 bits, which are JSON, so JSON.parse decides
 * then.
 */
export function isJson(simdjson: Simdjson, body: Uint8Array): boolean {
  // Before toString, which would replace invalid UTF-8 by U+FFFD.
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
