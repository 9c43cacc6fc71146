// Takes what Segment's libraries send (POST /v1/batch, /v1/track, …) and passes it on to sluice: docs/coming-from.md.
// Needs no package: IDS_SECRET=… node examples/segment.js --sluice http://localhost:8080

import { createHash, randomUUID } from 'node:crypto'
import { createServer } from 'node:http'
import { parseArgs, promisify } from 'node:util'
import { gunzip } from 'node:zlib'
import { toEvent } from './shared/segment.js'

const MAX_BODY_BYTES = 524_288
/** What sluice takes in one request, less some room for what stands around the events. */
const MAX_PART_EVENTS = 100
const MAX_PART_BYTES = 520_000
const MAX_UNDER_WAY = 64
const MAX_CONNECTIONS = 1000
const REQUEST_TIMEOUT_MS = 30_000
const SLUICE_TIMEOUT_MS = 10_000
/** Libraries use long names or one letter; Ruby and Android send batches to /v1/import. */
const CALLS = new Map(
  'batch import:batch track t:track page p:page screen s:screen identify i:identify group g:group alias a:alias'
    .split(' ')
    .map((word) => word.split(':'))
    .map(([name, type = name]) => [`/v1/${name}`, type]),
)

const HELP = `Takes what Segment's libraries send, and passes it on to sluice (docs/coming-from.md).

  --sluice URL  of sluice (http://localhost:8080)
  --host HOST   address to listen on (127.0.0.1)
  --port N      port to listen on (8081)
IDS_SECRET has 32 characters or more, always the same ones: the ids of users are made with it (docs/ids.md).`

/**
 * @typedef {import('./shared/segment.js').Mapped} Mapped
 * @typedef {{ messageId: unknown, path: string, message: string }} Refusal  `path`: in sluice's event.
 * @typedef {{ status: number, code?: string, message?: string, retryAfter?: string | undefined }} Outcome
 */

const options = readOptions()
if (options.help) {
  console.log(HELP)
  process.exit()
}
const secret = process.env.IDS_SECRET ?? ''
if (secret.length < 32) {
  console.error('segment: set IDS_SECRET to 32 characters or more, always the same ones (openssl rand -hex 32)')
  process.exit(1)
}
let underWay = 0

const server = createServer({ requestTimeout: REQUEST_TIMEOUT_MS }, async (request, response) => {
  underWay += 1
  const { retryAfter, status, ...rest } = await outcomeOf(request).catch((error) => {
    if (request.complete) console.error('segment: bug, this request got 500:', error)
    return { status: 500, code: 'internal_error', message: 'try again', retryAfter: undefined }
  })
  underWay -= 1
  if (retryAfter !== undefined) response.setHeader('Retry-After', retryAfter)
  // The rest of a body that is not wanted is not read.
  if (!request.complete) response.setHeader('Connection', 'close')
  response.writeHead(status, { 'Content-Type': 'application/json' })
  response.end(JSON.stringify({ success: status === 200, ...rest }))
})
server.maxConnections = MAX_CONNECTIONS
server.on('error', (error) => {
  console.error(`segment: ${error.message}`)
  process.exitCode = 1
})
server.listen(Number(options.port), options.host, () => {
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address())
  console.error(`segment: listening on http://${options.host}:${port}, sending to ${options.sluice}`)
})
for (const end of ['SIGINT', 'SIGTERM']) process.on(end, () => server.close())

function readOptions() {
  const options = /** @type {const} */ ({
    help: { type: 'boolean', default: false },
    host: { type: 'string', default: '127.0.0.1' },
    port: { type: 'string', default: '8081' },
    sluice: { type: 'string', default: 'http://localhost:8080' },
  })
  try {
    return parseArgs({ options }).values
  } catch (error) {
    console.error(`segment: ${error instanceof Error ? error.message : String(error)}; --help lists the options`)
    return process.exit(1)
  }
}

/**
 * @param {import('node:http').IncomingMessage} request
 * @returns {Promise<Outcome & { stored?: number, refused?: Refusal[] }>}
 */
async function outcomeOf(request) {
  const type = CALLS.get(String(request.url).split('?')[0])
  if (type === undefined) return { status: 404, code: 'not_found', message: `there is ${[...CALLS.keys()].join(' ')}` }
  if (request.method !== 'POST') return { status: 405, code: 'method_not_allowed', message: 'send with POST' }
  if (underWay > MAX_UNDER_WAY) return { status: 503, code: 'busy', message: 'try again', retryAfter: '1' }
  const text = await read(request)
  if (text === null) return { status: 413, code: 'payload_too_large', message: `at most ${MAX_BODY_BYTES} bytes` }
  const body = parsed(text)
  if (body === null) return { status: 400, code: 'invalid_json', message: 'the body is not a JSON object' }
  const [, basic = ''] = /^Basic (\S+)$/i.exec(request.headers.authorization ?? '') ?? []
  const appKey = Buffer.from(basic, 'base64').toString().split(':')[0] || body.writeKey
  if (typeof appKey !== 'string') return { status: 401, code: 'invalid_app_key', message: 'there is no write key' }
  const messages = type === 'batch' ? body.batch : [{ ...body, type }]
  if (!Array.isArray(messages)) return { status: 400, code: 'validation_failed', message: 'batch: must be an array' }
  const shared = type === 'batch' ? body.context : {}
  const now = new Date().toISOString()
  return await passOn(
    appKey,
    messages.map((each) => toEvent({ ...each, context: { ...shared, ...Object(each).context } }, secret, now)),
  )
}

/**
 * One answer for all messages: what is refused for good is named, and the rest is stored. Where sluice cannot take a part
 * now, its status is the answer; the library then sends all again, and what is stored already is not stored twice.
 *
 * @param {string} appKey
 * @param {ReturnType<typeof toEvent>[]} messages
 */
async function passOn(appKey, messages) {
  /** @type {Refusal[]} */
  const refused = []
  const events = []
  for (const each of messages) {
    if ('text' in each) events.push(each)
    else refused.push({ messageId: each.messageId, path: '', message: each.problem })
  }
  let stored = 0
  for (const part of partsOf(events)) {
    let rest = part
    while (rest.length > 0) {
      const { errors, ...outcome } = await post(appKey, rest)
      const faults = faultsIn(errors)
      if (outcome.status === 202) stored += rest.length
      else if (faults.size === 0) return { ...outcome, stored, refused }
      for (const [index, fault] of faults) refused.push({ messageId: rest[index].messageId, ...fault })
      rest = outcome.status === 202 ? [] : rest.filter((_, index) => !faults.has(index))
    }
  }
  if (refused.length === 0) return { status: 200, stored }
  const reason = `${refused[0].path} ${refused[0].message}`.trim()
  console.error(`segment: ${refused.length} of ${messages.length} messages were refused; the first: ${reason}`)
  return stored > 0
    ? { status: 200, stored, refused }
    : { status: 400, code: 'validation_failed', message: reason, refused }
}

/**
 * One request to sluice. Its key is made of its bytes where the library will send the same again, so that they are stored
 * once; otherwise a second message that looks like the first would be taken for it.
 *
 * @param {string} appKey
 * @param {Mapped[]} part
 * @returns {Promise<Outcome & { errors: { path: string, message: string }[] }>}
 */
async function post(appKey, part) {
  const body = `{"app_key":${JSON.stringify(appKey)},"events":[${part.map(({ text }) => text).join(',')}]}`
  const key = part.every(({ isRepeatable }) => isRepeatable) ? uuidOf(body) : randomUUID()
  const headers = { 'Content-Type': 'application/json', 'Idempotency-Key': key }
  const signal = AbortSignal.timeout(SLUICE_TIMEOUT_MS)
  try {
    const response = await fetch(`${options.sluice}/api/v1/events`, { method: 'POST', headers, body, signal })
    const { error: code, message, errors = [] } = /** @type {any} */ (await response.json())
    return {
      status: response.status,
      code,
      message,
      retryAfter: response.headers.get('Retry-After') ?? undefined,
      errors,
    }
  } catch (error) {
    console.error(`segment: no answer from ${options.sluice}, the library got 503: ${Object(error).cause ?? error}`)
    return { status: 503, code: 'no_answer', message: 'sluice did not answer; try again', retryAfter: '1', errors: [] }
  }
}

/** Of each event that is refused, the first fault. @param {{ path: string, message: string }[]} errors */
function faultsIn(errors) {
  const faults = new Map()
  for (const { path, message } of errors) {
    const [, index, member] = /^events\[(\d+)\]\.?(.*)$/.exec(path) ?? []
    if (index !== undefined && !faults.has(Number(index))) faults.set(Number(index), { path: member, message })
  }
  return faults
}

/** @param {Mapped[]} events */
function partsOf(events) {
  /** @type {Mapped[][]} */
  const parts = []
  let bytes = Number.POSITIVE_INFINITY
  for (const event of events) {
    const size = Buffer.byteLength(event.text) + 1
    if (bytes + size > MAX_PART_BYTES || parts.at(-1)?.length === MAX_PART_EVENTS) {
      parts.push([])
      bytes = 0
    }
    parts.at(-1)?.push(event)
    bytes += size
  }
  return parts
}

/** null: too long. @param {import('node:http').IncomingMessage} request */
async function read(request) {
  const pieces = []
  let bytes = 0
  for await (const piece of request.iterator({ destroyOnReturn: false })) {
    bytes += piece.length
    if (bytes > MAX_BODY_BYTES) return null
    pieces.push(piece)
  }
  const body = Buffer.concat(pieces)
  if (request.headers['content-encoding'] !== 'gzip') return body.toString()
  try {
    return (await promisify(gunzip)(body, { maxOutputLength: MAX_BODY_BYTES })).toString()
  } catch (error) {
    return Object(error).code === 'ERR_BUFFER_TOO_LARGE' ? null : ''
  }
}

/** @param {string} text @returns {Record<string, any> | null} */
function parsed(text) {
  try {
    const value = JSON.parse(text)
    return typeof value === 'object' && !Array.isArray(value) ? value : null
  } catch {
    return null
  }
}

/** @param {string} text */
function uuidOf(text) {
  const hex = createHash('sha256').update(text).digest('hex')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20, 32)}`
}
