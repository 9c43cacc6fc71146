// @ts-check
// What a body deserves, found out beside the service: zlib, JSON.parse and a compiled schema decide whether it may be
// accepted at all, and the service's plain definition of the schema, apart from its scanner, what is said of it otherwise.

import { isUtf8 } from 'node:buffer'
import { brotliDecompressSync, gunzipSync, inflateRawSync, inflateSync } from 'node:zlib'
import { compileSchema } from '../bench/schema.js'
import { importBuilt } from '../shared/built.js'
import { APP_KEY, MAX_BODY_BYTES } from './requests.js'

/** @type {typeof import('../../src/decode/validator.ts')} */
const { validate } = await importBuilt('decode/validator.js')

const WORDS = 32
const BYTE_ORDER_MARK = Buffer.from('\ufeff')
let schemaNowMs = 0
const fitsSchema = compileSchema(() => schemaNowMs)

/** @typedef {{ status: number, error: string | null }} Deserved */

/** What a body that came whole, and not compressed, must be answered. Throws where two definitions differ. @param {Buffer} body @param {number} nowMs @returns {Deserved} */
export function deserved(body, nowMs) {
  const defined = validate(body, nowMs, new Int32Array(WORDS), 0)
  const parsed = parse(body)
  const isTooDeep = defined.kind === 'refused' && defined.message.includes('levels deep')
  const isInvalid = defined.kind === 'refused' && defined.code === 'invalid_json'
  if (!isTooDeep && isInvalid !== (parsed === undefined))
    throw new Error(`JSON.parse and the validator differ: ${JSON.stringify(defined)}`)
  if (defined.appKey !== null && defined.appKey !== APP_KEY) return { status: 401, error: 'invalid_app_key' }
  if (defined.kind === 'accepted' && !mayBeAccepted(body, nowMs))
    throw new Error('the validator takes what the compiled schema refuses')
  return defined.kind === 'accepted' ? { status: 202, error: null } : { status: 400, error: defined.code }
}

/** Whether JSON.parse and the compiled schema would take it. @param {Buffer} body @param {number} nowMs */
function mayBeAccepted(body, nowMs) {
  schemaNowMs = nowMs
  return fitsSchema(parse(body))
}

/** @param {Buffer} body @returns {unknown} undefined: not JSON */
function parse(body) {
  if (!isUtf8(body) || body.subarray(0, 3).equals(BYTE_ORDER_MARK)) return undefined
  try {
    return JSON.parse(body.toString())
  } catch {
    return undefined
  }
}

/** @typedef {(body: Buffer, options: { maxOutputLength: number }) => Buffer} Decompress */
/** What each name may stand for: `deflate` is the zlib format by its standard, and raw in what some clients send. */
const DECOMPRESS = /** @type {const} */ ({
  gzip: [gunzipSync],
  deflate: [inflateSync, inflateRawSync],
  br: [brotliDecompressSync],
})

/** All that a compressed body may stand for. @param {Buffer} body @param {import('./requests.js').Encoding} encoding @returns {Buffer[]} */
export function readings(body, encoding) {
  if (encoding === 'identity') return [body]
  const found = []
  for (const decompress of /** @type {readonly Decompress[]} */ (DECOMPRESS[encoding])) {
    try {
      found.push(decompress(body, { maxOutputLength: MAX_BODY_BYTES }))
    } catch {
      // Not in this form.
    }
  }
  return found
}
