// @ts-check
// Clients that k6 cannot be, over bare sockets: heads and bodies that trickle or never end, lengths that lie, bombs, silence.

import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'

const PATH = '/api/v1/events'
const CAP_BYTES = 524_288
const BOMB_BYTES = 100 * CAP_BYTES
const HUGE_LENGTH_BYTES = 10_737_418_240
const HUGE_HEADER_BYTES = 200_000
const PIECES = 20
const PIECE_GAP_MS = 100
const SILENCE_MS = 3000
/** A service that has not answered by then is not going to. */
const ANSWER_TIMEOUT_MS = 10_000

/** A status; that the service ended the connection without one; that nothing came until the client left. @typedef {number | 'closed' | 'nothing'} Ending */
/**
 * What a client does, as its socket sees it: pieces with a pause before each. `leaves`: it does not wait for its answer.
 * @typedef {{ expected: readonly Ending[], pieces: (body: string) => readonly (string | Buffer)[], gapMs?: number, leaves?: 'at once' | 'after silence' }} RawClient
 */

const SPACES = Buffer.alloc(BOMB_BYTES, 0x20)
const BOMBS = {
  gzip: gzipSync(SPACES),
  br: brotliCompressSync(SPACES, { params: { [constants.BROTLI_PARAM_QUALITY]: 5 } }),
}
/** Nothing is answered to a request that is not whole; a service may also lose patience. */
const UNANSWERED = /** @type {const} */ (['nothing', 'closed'])

/** @param {readonly string[]} headers */
function head(headers) {
  const lines = [`POST ${PATH} HTTP/1.1`, 'Host: sluice', 'Content-Type: application/json', ...headers]
  return `${lines.join('\r\n')}\r\n\r\n`
}

/** @param {string} body */
function whole(body) {
  return `${head([`Content-Length: ${Buffer.byteLength(body)}`])}${body}`
}

/** @param {string} text @param {number} pieces @returns {string[]} */
function cut(text, pieces) {
  const length = Math.ceil(text.length / pieces)
  return Array.from({ length: pieces }, (_, index) => text.slice(index * length, (index + 1) * length))
}

/** @param {Buffer} bytes @returns {Buffer[]} */
function chunked(bytes) {
  const pieces = []
  for (let at = 0; at < bytes.length; at += 65_536) {
    const piece = bytes.subarray(at, at + 65_536)
    pieces.push(Buffer.concat([Buffer.from(`${piece.length.toString(16)}\r\n`), piece, Buffer.from('\r\n')]))
  }
  return pieces
}

export const RAW_CLIENTS = /** @type {Readonly<Record<string, RawClient>>} */ ({
  'body that trickles': {
    expected: [202],
    pieces: (body) => [head([`Content-Length: ${Buffer.byteLength(body)}`]), ...cut(body, PIECES)],
    gapMs: PIECE_GAP_MS,
  },
  // Its first piece holds the whole request line, which uWebSockets.js on Node 20 wants in one.
  'head that trickles': { expected: [202], pieces: (body) => cut(whole(body), PIECES), gapMs: PIECE_GAP_MS },
  'body that never ends': {
    expected: UNANSWERED,
    pieces: (body) => [whole(body).slice(0, -10)],
    leaves: 'after silence',
  },
  'head that never ends': {
    expected: UNANSWERED,
    pieces: (body) => [whole(body).slice(0, 40)],
    leaves: 'after silence',
  },
  'silent connection': { expected: UNANSWERED, pieces: () => [], leaves: 'after silence' },
  'leaves in its body': { expected: UNANSWERED, pieces: (body) => [whole(body).slice(0, -10)], leaves: 'at once' },
  'declares 10 GiB': { expected: [413], pieces: () => [head([`Content-Length: ${HUGE_LENGTH_BYTES}`])] },
  'chunks beyond the cap': {
    expected: [413],
    pieces: () => [head(['Transfer-Encoding: chunked']), ...chunked(SPACES.subarray(0, CAP_BYTES + 1)), '0\r\n\r\n'],
  },
  'gzip of 50 MiB': { expected: [413, 503], pieces: () => bomb('gzip') },
  'brotli of 50 MiB': { expected: [413, 503], pieces: () => bomb('br') },
  'two lengths': {
    expected: [400],
    pieces: (body) => [head([`Content-Length: ${Buffer.byteLength(body)}`, 'Content-Length: 5']), body],
  },
  'a header of 200 KB': { expected: [431], pieces: () => [head([`X-Padding: ${'x'.repeat(HUGE_HEADER_BYTES)}`])] },
  'not HTTP': {
    expected: [400, 505, 'closed'],
    pieces: () => [Buffer.from('16030100c8010000c40303', 'hex'), '\r\n\r\n'],
  },
})

/** @param {'gzip' | 'br'} encoding @returns {Buffer[]} */
function bomb(encoding) {
  const body = BOMBS[encoding]
  return [Buffer.from(head([`Content-Encoding: ${encoding}`, `Content-Length: ${body.length}`])), body]
}

/**
 * One client, from its connection to its end.
 * @param {RawClient} client @param {{ host: string, port: number, body: string }} options @returns {Promise<Ending>}
 */
export async function runRawClient({ pieces, gapMs = 0, leaves }, { host, port, body }) {
  const socket = connect({ host, port })
  const ending = new Promise((/** @type {(ending: Ending) => void} */ done) => {
    let text = ''
    socket.setEncoding('latin1').on('data', (piece) => {
      text += piece
      const found = /^HTTP\/1\.1 (\d{3}) /.exec(text)
      if (found !== null) done(Number(found[1]))
    })
    // A service that answers before it has read all may reset what is still being sent.
    socket.on('error', () => {})
    socket.once('close', () => done('closed'))
  })
  try {
    for (const piece of pieces(body)) {
      if (gapMs > 0) await sleep(gapMs)
      if (socket.destroyed) break
      socket.write(piece)
    }
    const patienceMs = leaves === undefined ? ANSWER_TIMEOUT_MS : leaves === 'at once' ? 1 : SILENCE_MS
    return await Promise.race([ending, sleep(patienceMs).then(() => /** @type {const} */ ('nothing'))])
  } finally {
    socket.destroy()
  }
}
