// @ts-check
// What clients send that should not: every kind that k6 can send, and the code that each must get. Pure.

const MAX_BODY_BYTES = 524_288
const BOMB_BYTES = 2 * MAX_BODY_BYTES
const MAX_DEPTH = 64
const MAX_EVENTS = 100
const HOUR_MS = 3_600_000

/** @typedef {import('./answers.js').Code} Code */
/**
 * @typedef {object} BadRequest
 * @property {string} kind
 * @property {Code} code
 * @property {string | ArrayBuffer | null} body
 * @property {number} [padToBytes] of the body, with spaces: every virtual user has this list, so large ones are made when they are sent
 * @property {string} [method]
 * @property {string} [path]
 * @property {string} [key]
 * @property {'gzip'} [compression]
 * @property {Readonly<Record<string, string>>} [headers]
 */

/**
 * @param {{ appKey: string, nowMs: number }} options `appKey`: of an app that may send, so that nothing else is wrong
 * @returns {BadRequest[]}
 */
export function badRequests({ appKey, nowMs }) {
  const good = bodyOf(appKey, [eventOf(nowMs)])
  return [
    ...oversize(good),
    ...brokenJson(good),
    ...wrongShape(appKey, nowMs),
    ...wrongRequest(good),
    ...wrongApp(nowMs),
  ]
}

/** @param {number} nowMs @param {Record<string, unknown>} [changes] */
function eventOf(nowMs, changes = {}) {
  return {
    type: 'track',
    name: 'signup',
    hashed_daily_id: 'd'.repeat(32),
    hashed_monthly_id: 'm'.repeat(32),
    session_id: '7f0e0bb2-6c3a-4d5e-9a53-2a6a4d1c9a10',
    timestamp: new Date(nowMs).toISOString(),
    context: { os: 'ios' },
    ...changes,
  }
}

/** @param {unknown} appKey @param {unknown} events */
function bodyOf(appKey, events) {
  return JSON.stringify({ app_key: appKey, events })
}

/** @param {string} good @returns {BadRequest[]} */
function oversize(good) {
  return [
    { kind: 'oversize', code: 'payload_too_large', body: good, padToBytes: 2 * MAX_BODY_BYTES },
    // One byte over.
    { kind: 'oversize', code: 'payload_too_large', body: good, padToBytes: MAX_BODY_BYTES + 1 },
    { kind: 'bomb', code: 'payload_too_large', body: good, padToBytes: BOMB_BYTES, compression: 'gzip' },
  ]
}

/** @param {string} good @returns {BadRequest[]} */
function brokenJson(good) {
  const bodies = [
    '',
    ' ',
    good.slice(0, -1),
    good.slice(0, good.length >> 1),
    `${good}${good}`,
    `\uFEFF${good}`,
    good.replace('{', '{,'),
    good.replaceAll('"', "'"),
    good.replace('"track"', 'track'),
    good.replace('"track"', 'NaN'),
    good.replace('"track"', '01'),
    good.replace('"track"', '"\\x41"'),
    good.replace('"track"', '"a\nb"'),
    good.replace('}', ',}'),
    `${'['.repeat(MAX_DEPTH + 1)}${']'.repeat(MAX_DEPTH + 1)}`,
    '['.repeat(20_000),
    `// a comment\n${good}`,
    '<events><event/></events>',
    'app_key=ak_x&events=1',
  ]
  const bytes = [
    [0x7b, 0x22, 0xff, 0xfe, 0x22, 0x7d],
    // An overlong slash, and half of a surrogate pair.
    [0x22, 0xc0, 0xaf, 0x22],
    [0x22, 0xed, 0xa0, 0x80, 0x22],
    [0, 0, 0, 0],
  ]
  return [
    ...bodies.map((body) => broken(body)),
    ...bytes.map((list) => broken(new Uint8Array(list).buffer)),
    { kind: 'corrupt gzip', code: 'invalid_json', body: good, headers: { 'Content-Encoding': 'gzip' } },
    { kind: 'corrupt gzip', code: 'invalid_json', body: good, headers: { 'Content-Encoding': 'br' } },
  ]
}

/** @param {string | ArrayBuffer} body @returns {BadRequest} */
function broken(body) {
  return { kind: 'broken JSON', code: 'invalid_json', body }
}

/** @param {string} appKey @param {number} nowMs @returns {BadRequest[]} */
function wrongShape(appKey, nowMs) {
  const event = (/** @type {Record<string, unknown>} */ changes) => bodyOf(appKey, [eventOf(nowMs, changes)])
  const repeated = event({}).replace('"type":"track"', '"type":"track","type":"track"')
  const bodies = [
    '[]',
    'null',
    '"text"',
    '{}',
    JSON.stringify({ app_key: appKey }),
    bodyOf(42, []),
    bodyOf(appKey, {}),
    bodyOf(appKey, null),
    bodyOf(appKey, ['event']),
    bodyOf(
      appKey,
      Array.from({ length: MAX_EVENTS + 1 }, () => eventOf(nowMs)),
    ),
    event({ type: 'click' }),
    event({ type: 'revenue' }),
    event({ name: '' }),
    event({ name: 'n'.repeat(201) }),
    event({ hashed_daily_id: 'short' }),
    event({ session_id: null }),
    event({ timestamp: '2026-02-30T12:00:00Z' }),
    event({ timestamp: new Date(nowMs - 100 * HOUR_MS).toISOString() }),
    event({ context: {} }),
    event({ context: { os: 'ios', screen_width: 'wide' } }),
    event({ properties: Object.fromEntries(Array.from({ length: 51 }, (_, index) => [`key_${index}`, index])) }),
    event({ properties: { long: 'v'.repeat(501) } }),
    event({ user_id: 'u'.repeat(257) }),
    repeated,
  ]
  return bodies.map((body) => ({ kind: 'wrong shape', code: 'validation_failed', body }))
}

/** @param {string} good @returns {BadRequest[]} */
function wrongRequest(good) {
  const method = (/** @type {string} */ name) =>
    /** @type {BadRequest} */ ({ kind: 'wrong method', code: 'method_not_allowed', body: null, method: name })
  const media = (/** @type {Record<string, string>} */ headers) =>
    /** @type {BadRequest} */ ({ kind: 'wrong media type', code: 'unsupported_media_type', body: good, headers })
  return [
    ...['GET', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'].map(method),
    { kind: 'wrong path', code: 'not_found', body: good, path: '/' },
    { kind: 'wrong path', code: 'not_found', body: good, path: '/api/v1/events/' },
    { kind: 'wrong path', code: 'not_found', body: good, path: '/metrics' },
    media({ 'Content-Type': 'text/plain' }),
    media({ 'Content-Type': 'application/json; charset=latin1' }),
    media({ 'Content-Type': 'application/x-www-form-urlencoded' }),
    media({ 'Content-Encoding': 'compress' }),
    { kind: 'bad key', code: 'validation_failed', body: good, key: 'not-a-uuid' },
    // Heads beyond 4 KB are answered 431 by uWebSockets.js itself, or taken by its build for Node 20 if they come in one piece.
    { kind: 'bad key', code: 'validation_failed', body: good, key: 'k'.repeat(1000) },
  ]
}

/** @param {number} nowMs @returns {BadRequest[]} */
function wrongApp(nowMs) {
  const keys = ['ak_nobody_has_this_key', 'AK_load_ample', '', `ak_${'x'.repeat(10_000)}`, 'ak_\u0000', '__proto__']
  return keys.map((key) => ({ kind: 'unknown app', code: 'invalid_app_key', body: bodyOf(key, [eventOf(nowMs)]) }))
}
