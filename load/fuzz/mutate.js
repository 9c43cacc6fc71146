// @ts-check
// Small harm to bytes: bits turned, pieces lost, doubled or swapped, and words put in that parsers stumble over.

/** @typedef {import('./random.js').Random} Random */

const HTTP_WORDS = [
  '\r\n|\n|\r|\r\n\r\n|\0| |\t|:|,|0\r\n\r\n|ffffffffffffffff\r\n|00000000000000001\r\n|-1|+5|5, 5|0x10',
  ';ext=1|GET / HTTP/1.1\r\n|POST /api/v1/events HTTP/1.1\r\nHost: x\r\n|HTTP/0.9|HTTP/1.0|HTTP/2.0',
  'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n|Content-Length: 0\r\n|Content-Length: 18446744073709551616\r\n',
  'Content-Length:\r\n|Transfer-Encoding: chunked\r\n|Transfer-Encoding: xchunked\r\n',
  'Transfer-Encoding: chunked, chunked\r\n|Trailer: X\r\n|Expect: 100-continue\r\n|Connection: close\r\n',
  'Connection: Upgrade\r\nUpgrade: websocket\r\n|Host: y\r\n| folded\r\n|Content-Encoding: gzip\r\n',
  'Content-Type: text/plain\r\n|Idempotency-Key: x\r\n|\x16\x03\x01\x02\x00|\xff\xfe|../|%00|?|#|*',
].flatMap((line) => line.split('|'))
const JSON_WORDS = [
  '{ } [ ] " \\ , : null true - 1e5 -0 0. \\u0000 \\ud800 \\uD83D\\uDE00 \xff \xc0\x80 \xed\xa0\x80',
  '\xef\xbb\xbf \n \0 "__proto__":{}, "app_key":"ak_other", "events":[], "events": "revenue":{},',
  '"properties":null, [[[[[[[[ /**/ \' NaN \u2028',
].flatMap((line) => line.split(' '))

/** @typedef {(random: Random, bytes: Buffer, words: readonly string[]) => Buffer} Mutation */

/** @type {Readonly<Record<string, Mutation>>} */
const MUTATIONS = {
  'turn a bit': (random, bytes) => {
    const changed = Buffer.from(bytes)
    if (changed.length > 0) changed[random.below(changed.length)] ^= 1 << random.below(8)
    return changed
  },
  'another byte': (random, bytes) => {
    const changed = Buffer.from(bytes)
    if (changed.length > 0) changed[random.below(changed.length)] = random.below(256)
    return changed
  },
  lose: (random, bytes) => {
    const { start, end } = range(random, bytes)
    return Buffer.concat([bytes.subarray(0, start), bytes.subarray(end)])
  },
  double: (random, bytes) => {
    const { start, end } = range(random, bytes)
    return Buffer.concat([bytes.subarray(0, end), bytes.subarray(start)])
  },
  swap: (random, bytes) => {
    const one = range(random, bytes)
    const other = range(random, bytes.subarray(one.end))
    const between = bytes.subarray(one.end, one.end + other.start)
    const second = bytes.subarray(one.end + other.start, one.end + other.end)
    const rest = bytes.subarray(one.end + other.end)
    return Buffer.concat([bytes.subarray(0, one.start), second, between, bytes.subarray(one.start, one.end), rest])
  },
  'a word': (random, bytes, words) =>
    insert(bytes, random.below(bytes.length + 1), Buffer.from(random.pick(words), 'latin1')),
  noise: (random, bytes) => insert(bytes, random.below(bytes.length + 1), random.bytes(random.between(1, 8))),
  cut: (random, bytes) => bytes.subarray(0, random.below(bytes.length + 1)),
}
const NAMES = Object.keys(MUTATIONS)

/** One to four harms. @param {Random} random @param {Buffer} bytes @param {'http' | 'json'} language */
export function mutate(random, bytes, language) {
  const words = language === 'http' ? HTTP_WORDS : JSON_WORDS
  let changed = bytes
  for (let times = random.pick([1, 1, 1, 2, 3, 4]); times > 0; times--) {
    changed = MUTATIONS[random.pick(NAMES)](random, changed, words)
  }
  return changed
}

/** Nothing but words and noise. @param {Random} random */
export function nonsense(random) {
  const pieces = Array.from({ length: random.between(1, 30) }, () => {
    return random.chance(0.7) ? Buffer.from(random.pick(HTTP_WORDS), 'latin1') : random.bytes(random.between(1, 40))
  })
  return Buffer.concat(pieces)
}

/** Mostly a few bytes, now and then many. @param {Random} random @param {Buffer} bytes */
function range(random, bytes) {
  const start = random.below(bytes.length + 1)
  const most = random.chance(0.8) ? 16 : 1000
  return { start, end: Math.min(bytes.length, start + random.between(1, most)) }
}

/** @param {Buffer} bytes @param {number} at @param {Buffer} piece */
function insert(bytes, at, piece) {
  return Buffer.concat([bytes.subarray(0, at), piece, bytes.subarray(at)])
}
