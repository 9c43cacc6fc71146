// @ts-check
// Whole requests, well made: bodies as SDKs send them, plain or compressed, with a length or in chunks of any size.

import { brotliCompressSync, constants, deflateRawSync, deflateSync, gzipSync } from 'node:zlib'
import { uniformBody, uuid, variedBody } from '../payloads.js'
import { emptyBrotli, emptyDeflate, emptyGzip, emptyZlib } from './empty-blocks.js'

/** @typedef {import('./random.js').Random} Random */
/** @typedef {'identity' | 'gzip' | 'deflate' | 'br'} Encoding */

export const PATH = '/api/v1/events'
export const APP_KEY = 'ak_fuzz'
/** In what is sent; it must stand in no answer. */
export const MARK = 'zq7mark'
export const MAX_BODY_BYTES = 524_288

/** @param {Random} random @param {number} nowMs */
export function makeBody(random, nowMs) {
  const make = random.chance(0.5) ? uniformBody : variedBody
  const events = random.pick([0, 1, 1, 1, 2, 3, 10, 100])
  const text = make({ rng: random.fraction, appKey: APP_KEY, events, nowMs })
  const body = random.chance(0.5) ? text : `{"mark":"${MARK}",${text.slice(1)}`
  return { body: Buffer.from(body), events }
}

/** Another one in each round: a client that is repeated must not find the keys of its last round taken. @param {Random} random @param {number} round */
export function makeKey(random, round) {
  const key = uuid(random.fraction)
  const end = (Number.parseInt(key.slice(-8), 16) ^ round) >>> 0
  return key.slice(0, -8) + end.toString(16).padStart(8, '0')
}

/** @param {Random} random @returns {Encoding} */
export function pickEncoding(random) {
  return random.weighted({ identity: 6, gzip: 2, deflate: 1, br: 1 })
}

/** @param {Random} random @param {Encoding} encoding @param {Buffer} body */
export function compress(random, encoding, body) {
  switch (encoding) {
    case 'identity':
      return body
    case 'gzip':
      return gzipSync(body, { level: 1 })
    case 'deflate':
      return random.chance(0.5) ? deflateSync(body, { level: 1 }) : deflateRawSync(body, { level: 1 })
    case 'br':
      return brotliCompressSync(body, { params: { [constants.BROTLI_PARAM_QUALITY]: 2 } })
  }
}

/**
 * @typedef {object} Wishes
 * @property {Encoding} [encoding]
 * @property {string | null} [key]
 * @property {boolean} [chunked]
 */

/** A POST with these bytes as its body. @param {Random} random @param {Buffer} body @param {Wishes} [wishes] */
export function postOf(random, body, { encoding = 'identity', key = null, chunked = random.chance(0.4) } = {}) {
  const headers = [
    random.pick([
      'Content-Type: application/json',
      'content-type: application/json; charset=utf-8',
      'CONTENT-TYPE:application/json',
    ]),
    chunked
      ? random.pick(['Transfer-Encoding: chunked', 'transfer-encoding:chunked'])
      : `Content-Length: ${body.length}`,
  ]
  if (encoding !== 'identity' || random.chance(0.1)) headers.push(`Content-Encoding: ${encoding}`)
  if (key !== null) headers.push(`Idempotency-Key: ${random.chance(0.5) ? key : key.toUpperCase()}`)
  while (random.chance(0.3)) headers.push(`X-Extra-${random.below(100)}: ${'v'.repeat(random.below(60))}`)
  const lines = [`POST ${PATH} HTTP/1.1`, 'Host: sluice.test', ...shuffled(random, headers), '', '']
  return Buffer.concat([Buffer.from(lines.join('\r\n')), chunked ? chunksOf(random, body) : body])
}

/** A request that its head alone decides. @param {Random} random */
export function refusedByHead(random) {
  const start = random.pick([
    'GET /x',
    `GET ${PATH}`,
    `HEAD ${PATH}`,
    `OPTIONS ${PATH}`,
    `POST ${PATH}`,
    'DELETE /api/v1/events/1',
  ])
  return requestLine(start, start.startsWith('POST') ? ['Content-Type: text/plain', 'Content-Length: 0'] : [])
}

/** @param {string} start method and path @param {readonly string[]} [headers] */
export function requestLine(start, headers = []) {
  return Buffer.from([`${start} HTTP/1.1`, 'Host: sluice.test', ...headers, '', ''].join('\r\n'))
}

const SPACES = Buffer.alloc(20 * MAX_BODY_BYTES, 0x20)
const BOMBS = /** @type {const} */ ([
  ['gzip', gzipSync(SPACES)],
  ['deflate', deflateSync(SPACES)],
  ['br', brotliCompressSync(SPACES, { params: { [constants.BROTLI_PARAM_QUALITY]: 5 } })],
])

const EMPTY_BLOCKS = /** @type {const} */ ([
  ['gzip', emptyGzip],
  ['deflate', emptyZlib],
  ['deflate', emptyDeflate],
  ['br', emptyBrotli],
])

/** Much that unfolds to next to nothing. @param {Random} random */
export function emptyBlocks(random) {
  const [encoding, make] = random.pick(EMPTY_BLOCKS)
  return { encoding, bytes: make(random.pick([100, 1000, 16_384, 60_000, 520_000])) }
}

/** Ten MiB of spaces in a few hundred bytes or thousand. @param {Random} random */
export function bomb(random) {
  const [encoding, bytes] = random.pick(BOMBS)
  return { encoding, bytes }
}

/** @param {Random} random @param {Buffer} body */
function chunksOf(random, body) {
  const most = random.pick([1, 7, 100, 5000, 70_000])
  /** @type {Buffer[]} */
  const pieces = []
  // Few chunks of one byte: each costs more to make than it tells.
  for (let at = 0; at < body.length; ) {
    const size = Math.min(body.length - at, pieces.length > 300 ? body.length : random.between(1, most))
    const digits = random.chance(0.5) ? size.toString(16) : size.toString(16).toUpperCase()
    pieces.push(
      Buffer.from(`${random.chance(0.1) ? '0' : ''}${digits}\r\n`),
      body.subarray(at, at + size),
      Buffer.from('\r\n'),
    )
    at += size
  }
  return Buffer.concat([...pieces, Buffer.from('0\r\n\r\n')])
}

/** @template T @param {Random} random @param {T[]} list */
function shuffled(random, list) {
  return list
    .map((item) => ({ item, place: random.fraction() }))
    .toSorted((one, other) => one.place - other.place)
    .map(({ item }) => item)
}
