// The service, by a script: each request that comes is answered by the next line of it, and once these are used up as a
// service that is well does. What it stores, it stores once for each key.

import { createServer } from 'node:http'
import { brotliDecompressSync, gunzipSync, inflateSync } from 'node:zlib'

/**
 * What becomes of a request. `status`: this answer, and nothing is stored. Without it the request is worked, and then
 * `loses`: the connection breaks before the body is read, before the answer, or in the middle of it.
 * @typedef {object} Line
 * @property {number} [status]
 * @property {string} [error] the code of sluice's own refusal
 * @property {object} [body] its other members
 * @property {string} [text] a body of somebody else's
 * @property {Record<string, string>} [headers]
 * @property {'request' | 'answer' | 'half'} [loses]
 * @property {number} [lateMs] the answer comes so much later
 * @property {boolean} [never] no answer comes
 * @property {boolean} [drips] the answer comes a byte a second, and has no end
 * @property {boolean} [held] no answer comes until it is let go; its Date is that of the request
 * @property {boolean} [keyTaken] another batch was stored under this key
 * @property {boolean} [works] the events are stored, and the answer is this one
 */

/**
 * @typedef {object} Sent one request, and what came of it
 * @property {number} arrivedMs
 * @property {number} clockMs the service's clock at its arrival
 * @property {number | null} endedMs when its answer was written, or its connection was at its end
 * @property {number} [endedClockMs] the service's clock then
 * @property {boolean} isBroken the connection was broken here, as the script wants
 * @property {import('./rules.js').Answer} answer
 * @property {string} key
 * @property {string[]} names
 * @property {{ name: string, event_id?: string, timestamp?: string, client_timestamp?: string }[]} events
 * @property {string} eventsText
 * @property {string[]} faults what the service does not take, and no script asked for
 * @property {boolean} compressed
 * @property {number} bytes of the body, unpacked
 */

/** @typedef {Awaited<ReturnType<typeof startService>>} Service */

const PATH = '/api/v1/events'
const MAX_BYTES = 524_288
const MAX_EVENTS = 100
const MAX_NAMED = 20
const MOST_UNPACKED_BYTES = 50_000_000
const DRIP_MS = 1000
const HOUR_MS = 3_600_000
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i
const UNPACK = { gzip: gunzipSync, deflate: inflateSync, br: brotliDecompressSync }
const CORS = {
  'Access-Control-Allow-Origin': '*',
  'Access-Control-Allow-Methods': 'POST',
  'Access-Control-Allow-Headers':
    'content-type, content-encoding, idempotency-key, traceparent, tracestate, baggage, *',
  'Access-Control-Expose-Headers':
    'X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, Retry-After, X-Batch-Id, X-Request-Id, Sluice-Replay, RateLimit, RateLimit-Policy, Date',
}

/**
 * @param {object} options
 * @param {readonly Line[]} [options.answers]
 * @param {number} [options.maxBytes] of a body
 * @param {number} [options.minuteLimit] events a minute, which is said and counts nothing
 * @param {number} [options.aheadMs] of this machine's clock
 * @param {string} options.appKey
 */
export async function startService({ answers = [], maxBytes = MAX_BYTES, minuteLimit = 500, aheadMs = 0, appKey }) {
  const planned = [...answers]
  /** @type {Sent[]} */
  const requests = []
  /** @type {Map<string, { eventsText: string, names: string[], report: Record<string, number> }>} */
  const stored = new Map()
  /** @type {(() => void)[]} */
  const held = []
  let clockAheadMs = aheadMs
  const clockMs = () => Date.now() + clockAheadMs

  const server = createServer({ keepAliveTimeout: 8000 }, (request, response) => {
    // A browser repeats by itself what breaks on a connection that was used before.
    if (request.method === 'OPTIONS') return void response.writeHead(204, { ...CORS, Connection: 'close' }).end()
    const line = planned.shift() ?? {}
    const sent = note(request)
    response.on('close', () => end(sent))
    if (line.loses === 'request') return lose(sent, response)
    const pieces = []
    request.on('data', (piece) => pieces.push(piece))
    request.on('error', () => {})
    request.on('end', () => read(request, sent, Buffer.concat(pieces), line, response))
  })

  /** @param {import('node:http').IncomingMessage} request @returns {Sent} */
  function note(request) {
    const [pathname, query] = String(request.url).split('?')
    const searchParams = new URLSearchParams(query)
    const key = String(request.headers['idempotency-key'] ?? searchParams.get('key') ?? '').toLowerCase()
    const faults = []
    if (request.method !== 'POST' || pathname !== PATH) faults.push(`${request.method} ${pathname}, not POST ${PATH}`)
    if (!/^(application\/json|text\/plain)\b/.test(request.headers['content-type'] ?? ''))
      faults.push(`Content-Type ${request.headers['content-type']}`)
    if (!UUID.test(key)) faults.push(`Idempotency-Key "${key}", not a UUID`)
    const sent = { arrivedMs: Date.now(), clockMs: clockMs(), endedMs: null, key, faults, compressed: false, bytes: 0 }
    const answer = { status: null, headers: {}, body: null }
    requests.push({ ...sent, isBroken: false, answer, names: [], events: [], eventsText: '' })
    return requests[requests.length - 1]
  }

  function end(sent) {
    sent.endedMs ??= Date.now()
    sent.endedClockMs ??= clockMs()
  }

  function lose(sent, response) {
    sent.isBroken = true
    end(sent)
    response.destroy()
  }

  function read(request, sent, packed, line, response) {
    const encoding = request.headers['content-encoding'] ?? 'identity'
    let body = null
    let text = ''
    try {
      const unpack = Object.hasOwn(UNPACK, encoding) ? UNPACK[encoding] : null
      const bytes = unpack === null ? packed : unpack(packed, { maxOutputLength: MOST_UNPACKED_BYTES })
      sent.bytes = bytes.length
      sent.compressed = encoding !== 'identity'
      text = bytes.toString()
      body = JSON.parse(text)
    } catch (error) {
      sent.faults.push(`a body that is no JSON, or not ${encoding}: ${String(error)}`)
    }
    sent.events = Array.isArray(body?.events) ? body.events.map(plain) : []
    sent.names = sent.events.map(({ name }) => name)
    // As sent: JSON that was written anew would hide what a retry changed.
    sent.eventsText = text.slice(text.indexOf('"events"'))
    if (body?.app_key !== appKey) sent.faults.push(`the app key ${textOf(body?.app_key)}`)
    if (sent.events.length > MAX_EVENTS) sent.faults.push(`${sent.events.length} events`)
    if (sent.bytes > MAX_BYTES) sent.faults.push(`${sent.bytes} bytes`)
    const [unfit] = sent.events.flatMap(unfitMembers)
    if (unfit !== undefined) sent.faults.push(unfit)
    const report = body?.client_report?.dropped ?? {}
    if (line.keyTaken === true) stored.set(sent.key, { eventsText: 'of another batch', names: [], report: {} })
    // A limit is not asked for what is stored already.
    const isWorked = line.status === undefined || (line.status === 429 && stored.has(sent.key))
    const worked = isWorked || line.works === true ? work(sent, report, { maxBytes, nowMs: clockMs() }) : null
    const answer = isWorked ? worked : refusal(line)
    const date = new Date(line.held === true ? sent.clockMs : clockMs()).toUTCString()
    const headers = { 'X-RateLimit-Limit': String(minuteLimit), Date: date, ...answer.headers }
    reply(sent, { ...answer, headers }, line, response)
  }

  function work(sent, report, { nowMs, maxBytes: most }) {
    const known = stored.get(sent.key)
    if (known !== undefined) {
      const replay = known.eventsText === sent.eventsText ? 'same' : 'other'
      const body = { status: 'accepted', events: known.names.length, deduplicated: true }
      return { status: 202, headers: { 'Sluice-Replay': replay }, body }
    }
    if (sent.bytes > most) return refusal({ status: 413, error: 'payload_too_large' })
    if (sent.faults.length > 0) return refusal({ status: 400, error: 'validation_failed' })
    const errors = sent.events.flatMap((event, place) => offences(event, place, nowMs))
    if (errors.length > 0) {
      const invalid_events = [...new Set(errors.map(({ event }) => event))]
      const body = { errors: errors.slice(0, MAX_NAMED), errors_total: errors.length, invalid_events }
      return refusal({ status: 400, error: 'validation_failed', body })
    }
    stored.set(sent.key, { eventsText: sent.eventsText, names: sent.names, report })
    return { status: 202, headers: {}, body: { status: 'accepted', events: sent.events.length } }
  }

  function reply(sent, answer, line, response) {
    const text = typeof answer.body === 'string' ? answer.body : JSON.stringify(answer.body)
    const type = typeof answer.body === 'string' ? 'text/html' : 'application/json'
    if (line.never === true) return
    if (line.drips === true) return drip(answer, response)
    if (line.loses === 'answer') return lose(sent, response)
    const write = () => {
      if (response.destroyed) return
      response.writeHead(answer.status, {
        ...CORS,
        'Content-Type': type,
        'Content-Length': String(Buffer.byteLength(text)),
        ...answer.headers,
        ...(planned[0]?.loses !== undefined && { Connection: 'close' }),
      })
      if (line.loses === 'half') {
        response.write(text.slice(0, text.length / 2), () => lose(sent, response))
        return
      }
      sent.answer = answer
      end(sent)
      response.end(text)
    }
    if (line.held === true) held.push(write)
    else if (line.lateMs !== undefined) setTimeout(write, line.lateMs).unref()
    else write()
  }

  function drip(answer, response) {
    response.writeHead(answer.status, { ...CORS, 'Content-Type': 'application/json', ...answer.headers })
    const timer = setInterval(() => response.write(' '), DRIP_MS)
    response.on('close', () => clearInterval(timer))
  }

  let port = 0
  const up = async () => {
    await new Promise((resolve, reject) => server.once('error', reject).listen(port, '127.0.0.1', () => resolve(null)))
    port = /** @type {import('node:net').AddressInfo} */ (server.address()).port
  }
  const down = () =>
    new Promise((resolve) => {
      server.close(resolve)
      server.closeAllConnections()
    })
  await up()
  return {
    url: `http://127.0.0.1:${port}`,
    requests,
    stored,
    clockMs,
    /** Lets go what is held. */
    release: () => held.splice(0).forEach((write) => write()),
    setClock: (/** @type {number} */ ms) => void (clockAheadMs = ms),
    up,
    down,
  }
}

/** @param {Line} line */
function refusal({ status = 500, error, body, text, headers = {} }) {
  return { status, headers, body: text ?? { error, message: `${error}: its words may change`, ...body } }
}

/** Whatever an SDK sends: what is no text may have members that break what reads it. */
const textOf = (found) => (typeof found === 'string' ? found : (JSON.stringify(found) ?? 'none'))
const plain = (event) => ({
  ...Object(event),
  name: textOf(event?.name),
  timestamp: textOf(event?.timestamp),
  ...(event?.event_id !== undefined && { event_id: textOf(event.event_id) }),
})

/** What openapi.yaml demands of each event, as far as it can be said in a line. */
const REQUIRED = {
  type: (value) => ['track', 'screen', 'revenue'].includes(value),
  hashed_daily_id: (value) => isText(value, 16, 128),
  hashed_monthly_id: (value) => isText(value, 16, 128),
  session_id: (value) => isText(value, 1, 128),
  context: (value) => isText(Object(value).os, 1, 500),
}
const isText = (value, least, most) => typeof value === 'string' && value.length >= least && value.length <= most
const unfitMembers = (event, place) =>
  Object.entries(REQUIRED)
    .filter(([name, fits]) => !fits(event[name]))
    .map(([name]) => `events[${place}].${name} ${textOf(event[name])}, which openapi.yaml does not allow`)

/** An event whose name begins with "bad" has a name that the service does not take. */
function offences(event, place, nowMs) {
  const atMs = Date.parse(event.timestamp)
  const error = (member, code) => ({ path: `events[${place}].${member}`, message: code, code, event: place })
  const isNear = atMs >= nowMs - 72 * HOUR_MS && atMs <= nowMs + HOUR_MS
  return [
    ...(event.name.startsWith('bad') ? [error('name', 'length')] : []),
    ...(isNear ? [] : [error('timestamp', Number.isNaN(atMs) ? 'format' : 'range')]),
  ]
}
