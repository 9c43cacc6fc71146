// Takes what Segment's libraries send (POST /v1/batch, /v1/track, …) and passes it on to sluice: docs/coming-from.md.
// Needs no package: IDS_SECRET=… node examples/segment.js --sluice http://localhost:8080

import { createHash, randomUUID } from 'node:crypto'
import { parseArgs, promisify } from 'node:util'
import { gunzip } from 'node:zlib'
import { textOf } from './shared/answer.js'
import { limitedLog } from './shared/limited-log.js'
import { reasonOf } from './shared/reason.js'
import { sharedContextOf, shownId, toEvent } from './shared/segment.js'
import { serve } from './shared/serve.js'

const MAX_BODY_BYTES = 524_288
/** What sluice takes in one request, less some room for what stands around the events. */
const MAX_PART_EVENTS = 100
const MAX_PART_BYTES = 520_000
/** As many as Segment takes. */
const MAX_MESSAGES = 2500
const MAX_SHARED_CONTEXT_BYTES = 4096
const MAX_KEY_CHARACTERS = 200
/** Messages that one answer names. */
const MAX_REFUSED_NAMED = 20
/** Requests whose body is there. */
const MAX_UNDER_WAY = 64
const MAX_GATHERED_BYTES = 33_554_432
const MAX_CONNECTIONS = 1000
/** For all that one request becomes. */
const SLUICE_TIMEOUT_MS = 10_000
const MAX_SLUICE_ANSWER_BYTES = 65_536
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
 * @typedef {{ stored: number, refused?: Refusal[], refused_total?: number }} Stored
 */

/** @type {Outcome} */
const TOO_LARGE = { status: 413, code: 'payload_too_large', message: `at most ${MAX_BODY_BYTES} bytes` }

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
const log = limitedLog()

serve({
  name: 'segment',
  about: `, sending to ${options.sluice}`,
  host: options.host,
  port: Number(options.port),
  maxConnections: MAX_CONNECTIONS,
  maxBodyBytes: MAX_BODY_BYTES,
  maxGatheredBytes: MAX_GATHERED_BYTES,
  answer: async (request, readBody) => {
    const { retryAfter, status, ...rest } = await outcomeOf(request, readBody)
    return {
      status,
      headers: {
        'Content-Type': 'application/json',
        ...(retryAfter === undefined ? {} : { 'Retry-After': retryAfter }),
      },
      text: JSON.stringify({ success: status === 200, ...rest }),
    }
  },
  onFault: (error) => log('bug', `segment: bug, this request got 500: ${Object(error).stack ?? error}`),
})

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
 * @param {() => Promise<Buffer | null>} readBody
 * @returns {Promise<Outcome & Partial<Stored>>}
 */
async function outcomeOf(request, readBody) {
  const type = CALLS.get(String(request.url).split('?')[0])
  if (type === undefined) return { status: 404, code: 'not_found', message: `there is ${[...CALLS.keys()].join(' ')}` }
  if (request.method !== 'POST') return { status: 405, code: 'method_not_allowed', message: 'send with POST' }
  const body = await readBody()
  if (body === null) return TOO_LARGE
  // Not before the body is there: who sends half of one would keep others out.
  if (underWay >= MAX_UNDER_WAY) return { status: 503, code: 'busy', message: 'try again', retryAfter: '1' }
  underWay += 1
  try {
    return await outcomeOfBody(type, request.headers, body)
  } finally {
    underWay -= 1
  }
}

/**
 * @param {string} type
 * @param {import('node:http').IncomingHttpHeaders} headers
 * @param {Buffer} bytes
 * @returns {Promise<Outcome & Partial<Stored>>}
 */
async function outcomeOfBody(type, headers, bytes) {
  const text = headers['content-encoding'] === 'gzip' ? await unpacked(bytes) : bytes.toString()
  if (text === null) return TOO_LARGE
  const body = parsed(text)
  if (body === null) return { status: 400, code: 'invalid_json', message: 'the body is not a JSON object' }
  const [, basic = ''] = /^Basic (\S+)$/i.exec(headers.authorization ?? '') ?? []
  const appKey = Buffer.from(basic, 'base64').toString().split(':')[0] || body.writeKey
  if (typeof appKey !== 'string') return { status: 401, code: 'invalid_app_key', message: 'there is no write key' }
  if (appKey.length > MAX_KEY_CHARACTERS)
    return { status: 401, code: 'invalid_app_key', message: 'the write key is too long' }
  if (type !== 'batch') return await passOn(appKey, [{ ...body, type }], {})
  const { batch: messages, context } = body
  if (!Array.isArray(messages)) return invalid('batch: must be an array')
  if (messages.length > MAX_MESSAGES) return invalid(`batch: at most ${MAX_MESSAGES} messages`)
  const shared = sharedContextOf(context, MAX_SHARED_CONTEXT_BYTES)
  if (shared === null) return invalid(`context: at most ${MAX_SHARED_CONTEXT_BYTES} bytes for all messages`)
  return await passOn(appKey, messages, shared)
}

/** @param {string} message @returns {Outcome} */
function invalid(message) {
  return { status: 400, code: 'validation_failed', message }
}

/**
 * One answer for all messages: what is refused for good is counted, and the first ones named, and the rest is stored. Where
 * sluice cannot take a part now, its status is the answer; the library then sends all again, and what is stored already is
 * not stored twice.
 *
 * @param {string} appKey
 * @param {readonly unknown[]} messages
 * @param {Record<string, any>} sharedContext
 * @returns {Promise<Outcome & Stored>}
 */
async function passOn(appKey, messages, sharedContext) {
  const now = new Date().toISOString()
  const signal = AbortSignal.timeout(SLUICE_TIMEOUT_MS)
  /** @type {Stored & { refused: Refusal[], refused_total: number }} */
  const stored = { stored: 0, refused: [], refused_total: 0 }
  /** @param {unknown} messageId @param {{ path: string, message: string }} fault */
  const refuse = (messageId, fault) => {
    stored.refused_total += 1
    if (stored.refused.length < MAX_REFUSED_NAMED) stored.refused.push({ messageId: shownId(messageId), ...fault })
  }
  for (const part of partsOf(messages, (each) => toEvent(each, secret, now, sharedContext), refuse)) {
    let rest = part
    while (rest.length > 0) {
      const { faults, ...outcome } = await post(appKey, rest, signal)
      if (outcome.status === 202) stored.stored += rest.length
      else if (faults.size === 0) return { ...outcome, ...stored }
      for (const [index, fault] of faults) refuse(rest[index]?.messageId, fault)
      rest = outcome.status === 202 ? [] : rest.filter((_, index) => !faults.has(index))
    }
  }
  if (stored.refused_total === 0) return { status: 200, stored: stored.stored }
  const [{ path, message }] = stored.refused
  const reason = `${path} ${message}`.trim()
  log('refused', `segment: ${stored.refused_total} of ${messages.length} messages were refused; the first: ${reason}`)
  return stored.stored > 0 ? { status: 200, ...stored } : { ...invalid(reason), ...stored }
}

/**
 * One request to sluice. Its key is made of its bytes where the library will send the same again, so that they are stored
 * once; otherwise a second message that looks like the first would be taken for it.
 *
 * @param {string} appKey
 * @param {Mapped[]} part
 * @param {AbortSignal} signal
 * @returns {Promise<Outcome & { faults: ReturnType<typeof faultsIn> }>}
 */
async function post(appKey, part, signal) {
  const body = `{"app_key":${JSON.stringify(appKey)},"events":[${part.map(({ text }) => text).join(',')}]}`
  const key = part.every(({ isRepeatable }) => isRepeatable) ? uuidOf(body) : randomUUID()
  const headers = { 'Content-Type': 'application/json', 'Idempotency-Key': key }
  try {
    const response = await fetch(`${options.sluice}/api/v1/events`, { method: 'POST', headers, body, signal })
    const answer = JSON.parse(await textOf(response, MAX_SLUICE_ANSWER_BYTES))
    const retryAfter = response.headers.get('Retry-After') ?? undefined
    const { error: code, message } = answer
    return { status: response.status, code, message, retryAfter, faults: faultsIn(answer) }
  } catch (error) {
    log('no answer', `segment: no answer from ${options.sluice}, the library got 503: ${reasonOf(error)}`)
    const message = 'sluice did not answer; try again'
    return { status: 503, code: 'no_answer', message, retryAfter: '1', faults: new Map() }
  }
}

/**
 * Of each event that is refused, the first fault that is named. All of them are left out in one go: one after the other
 * would be a request for each.
 *
 * @param {{ errors?: { path: string, message: string, event?: number }[], invalid_events?: number[] }} answer
 */
function faultsIn({ errors = [], invalid_events: places = [] }) {
  /** @type {Map<number, { path: string, message: string }>} */
  const faults = new Map()
  for (const { path, message, event } of errors)
    if (event !== undefined && !faults.has(event))
      faults.set(event, { path: path.replace(/^events\[\d+\]\.?/, ''), message })
  for (const place of places)
    if (!faults.has(place)) faults.set(place, { path: '', message: 'does not fit the schema' })
  return faults
}

/**
 * What sluice takes in one request at a time. A part is made when it is asked for, so that a key which nobody knows costs
 * one part's work.
 *
 * @param {readonly unknown[]} messages
 * @param {(message: unknown) => ReturnType<typeof toEvent>} map
 * @param {(messageId: unknown, fault: { path: string, message: string }) => void} refuse
 * @returns {Generator<Mapped[]>}
 */
function* partsOf(messages, map, refuse) {
  /** @type {Mapped[]} */
  let part = []
  let bytes = 0
  for (const message of messages) {
    const event = map(message)
    if ('problem' in event) {
      refuse(event.messageId, { path: '', message: event.problem })
      continue
    }
    const size = Buffer.byteLength(event.text) + 1
    if (part.length === MAX_PART_EVENTS || (part.length > 0 && bytes + size > MAX_PART_BYTES)) {
      yield part
      part = []
      bytes = 0
    }
    part.push(event)
    bytes += size
  }
  yield part
}

/** null: too long. @param {Buffer} body */
async function unpacked(body) {
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
