// Web pages of other origins (SLUICE_CORS_ORIGINS) over bare sockets: who may ask, what every answer tells the browser,
// and what a beacon may have instead of headers. test/integration/browser.long.test.ts asks a real browser.

import { randomUUID } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import { beforeAll, describe, expect, test } from 'vitest'
import {
  type Answer,
  batch,
  bodyOfSize,
  expectAccepted,
  expectRefused,
  expectSound,
  MAX_BODY_BYTES,
  post,
  send,
  single,
} from '../support/client.ts'
import { ended, readPage } from '../support/hostile.ts'
import { readJournal } from '../support/journal-files.ts'
import { head, openRaw } from '../support/raw-http.ts'
import { appRecord, type Service, startService } from '../support/service.ts'

const PAGE = 'https://app.example.com'
const OTHER_PAGE = 'http://localhost:3000'
const VIEW = 'capacitor://localhost'
const STRANGER = 'https://evil.example'
const TEXT = 'text/plain;charset=UTF-8'
const APPS = [
  appRecord('plain'),
  appRecord('minute', { events_per_minute: 1 }),
  appRecord('named', { origins: ['https://App.Example.com:443', 'http://localhost:3000'], events_per_minute: 4 }),
  appRecord('nowhere', { origins: [], subscription: 'paused' }),
  appRecord('off', { subscription: 'paused' }),
]
const EXPOSED = [
  'X-RateLimit-Limit',
  'X-RateLimit-Remaining',
  'X-RateLimit-Reset',
  'Retry-After',
  'X-Batch-Id',
  'X-Request-Id',
  'Sluice-Replay',
  'RateLimit',
  'RateLimit-Policy',
  'Date',
]

const services: Service[] = []
let named: Service
let any: Service
let full: Service
let unset: Service

async function start(env: Record<string, string>): Promise<Service> {
  const service = await startService({ apps: APPS, env })
  services.push(service)
  return service
}

beforeAll(async () => {
  // As people write them; browsers say them as above.
  named = await start({ SLUICE_CORS_ORIGINS: `https://App.Example.com:443, ${OTHER_PAGE},${VIEW}` })
  any = await start({ SLUICE_CORS_ORIGINS: '*' })
  full = await start({ SLUICE_CORS_ORIGINS: PAGE, SLUICE_JOURNAL_MAX_MB: '1' })
  unset = await start({})
  for (let sent = 0; sent < 5; sent++) await post(full, bodyOfSize('ak_plain', 400_000))
})

async function ask(service: Service, request: string | Uint8Array): Promise<Answer> {
  const connection = await openRaw(service.port)
  connection.write(request)
  const answer = await connection.readAnswer()
  connection.close()
  if (answer === null) throw new Error('the connection ended without an answer')
  return answer
}

function preflight(origin: string | null, path = '/api/v1/events'): string {
  const asks = ['Access-Control-Request-Method: POST', 'Access-Control-Request-Headers: content-type']
  return head([...(origin === null ? [] : [`Origin: ${origin}`]), ...asks], `OPTIONS ${path} HTTP/1.1`)
}

interface Posting {
  readonly body?: string | Uint8Array
  readonly origin?: string | null
  readonly type?: string
  /** With its question mark. */
  readonly query?: string
  readonly lines?: readonly string[]
}

/** What a beacon sends, where nothing else is said. */
function posting({
  body = single('ak_plain'),
  origin = PAGE,
  type = TEXT,
  query = '',
  lines = [],
}: Posting): Uint8Array {
  const bytes = Buffer.from(body)
  const page = origin === null ? [] : [`Origin: ${origin}`]
  const all = [...page, `Content-Type: ${type}`, `Content-Length: ${bytes.length}`, ...lines]
  return Buffer.concat([Buffer.from(head(all, `POST /api/v1/events${query} HTTP/1.1`)), bytes])
}

function expectAllowed(answer: Answer, origin: string): void {
  expect(answer.headers['access-control-allow-origin']).toBe(origin)
  expect(answer.headers['vary']).toBe(origin === '*' ? undefined : 'Origin')
  expect(String(answer.headers['access-control-expose-headers']).split(', ')).toEqual(EXPOSED)
  expect(answer.headers['access-control-allow-credentials']).toBeUndefined()
  expect(answer.whole.match(/access-control-allow-origin/gi)).toHaveLength(1)
}

function expectNoCors(answer: Answer): void {
  expect(answer.whole.toLowerCase()).not.toContain('access-control')
  expect(answer.headers['vary']).toBeUndefined()
}

function expectPreflight(answer: Answer, origin: string): void {
  expect(answer.whole).toMatch(/^HTTP\/1\.1 204 No Content/)
  expectSound(answer)
  expectAllowed(answer, origin)
  expect(answer.headers).toMatchObject({
    'access-control-allow-methods': 'POST',
    'access-control-allow-headers':
      'content-type, content-encoding, idempotency-key, traceparent, tracestate, baggage, *',
    'access-control-max-age': '7200',
  })
}

describe('a preflight', () => {
  test.each([PAGE, OTHER_PAGE, VIEW])('of the named origin %s is 204, for two hours', async (origin) => {
    expectPreflight(await ask(named, preflight(origin)), origin)
  })

  test.each([PAGE, STRANGER, 'null'])('of %s is 204 where all may send, and says so', async (origin) => {
    expectPreflight(await ask(any, preflight(origin)), '*')
  })

  test('is the last answer of its connection, and says so', async () => {
    const connection = await openRaw(named.port)
    connection.write(preflight(PAGE))
    const answer = (await connection.readAnswer()) as Answer
    expectPreflight(answer, PAGE)
    expect(answer.headers['connection']).toBe('close')
    await connection.closed
  })

  test('is counted as an outcome of its own', async () => {
    const before = ended(await readPage(named), 'preflight')
    await ask(named, preflight(PAGE))
    await ask(named, preflight(STRANGER))
    const page = await readPage(named)
    expect(ended(page, 'preflight')).toBe(before + 1)
    expect(page['sluice_requests_total']).toBe(page['sluice_requests_received_total'])
  })
})

describe('an origin that is not allowed gets no header, and its OPTIONS is 405:', () => {
  const rows: Record<string, string | null> = {
    'another host': STRANGER,
    'a sandboxed page': 'null',
    'none, which is no page': null,
    'upper case, which no browser sends': PAGE.toUpperCase(),
    'another scheme': 'http://app.example.com',
    'another port': 'https://app.example.com:8443',
    'a subdomain': 'https://www.app.example.com',
    'the name with more behind it': `${PAGE}.evil.example`,
    'a trailing slash': `${PAGE}/`,
    'two in one header': `${PAGE}, ${PAGE}`,
    'the header twice': `${PAGE}\r\nOrigin: ${PAGE}`,
    'two headers, one of them named': `${STRANGER}\r\nOrigin: ${PAGE}`,
    empty: '',
  }
  test.each(Object.entries(rows))('%s', async (_, origin) => {
    const asked = await ask(named, preflight(origin))
    expectRefused(asked, 405, 'method_not_allowed')
    expectNoCors(asked)
    if (origin === null) return
    const sent = await ask(named, posting({ origin, type: 'application/json' }))
    expectAccepted(sent, 1)
    expectNoCors(sent)
    const text = await ask(named, posting({ origin }))
    expectRefused(text, 415, 'unsupported_media_type')
    expectNoCors(text)
  })

  test.each(['', `${PAGE}\r\nOrigin: ${PAGE}`])('%j also where all may send', async (origin) => {
    const answer = await ask(any, preflight(origin))
    expectRefused(answer, 405, 'method_not_allowed')
    expectNoCors(answer)
  })
})

async function listedOf(service: Service): Promise<Answer['json']> {
  return (await send({ port: service.adminPort }, { method: 'GET', path: '/api/refusals?limit=1' })).json
}

describe('an origin that is not allowed is told apart, with the setting that would allow it:', () => {
  test.each([
    ['a preflight where no setting names an origin', () => unset, preflight(STRANGER), 'method_not_allowed'],
    ['a preflight', () => named, preflight(STRANGER), 'method_not_allowed'],
    ['a text that needs no preflight', () => named, posting({ origin: STRANGER }), 'unsupported_media_type'],
  ])('%s', async (_, service, request, code) => {
    const answer = await ask(service(), request)
    expect(JSON.stringify(answer.json)).not.toContain(STRANGER)
    const { refusals, groups } = (await listedOf(service())) as { refusals: object[]; groups: object[] }
    const message = `pages of ${STRANGER} may not send: SLUICE_CORS_ORIGINS does not name it`
    expect(refusals[0]).toMatchObject({
      request_id: answer.headers['x-request-id'],
      code,
      origin: STRANGER,
      message,
    })
    expect(groups).toContainEqual(expect.objectContaining({ code, origin: STRANGER }))
  })

  test.each([
    ['a page that may send', posting({ origin: PAGE, type: 'text/html' })],
    ['another fault of the page', posting({ origin: STRANGER, type: 'application/json', body: '{' })],
  ])('but not where something else is wrong: %s', async (_, request) => {
    const answer = await ask(named, request)
    const { refusals } = (await listedOf(named)) as { refusals: object[] }
    expect(refusals[0]).toMatchObject({ request_id: answer.headers['x-request-id'], origin: null })
  })

  test('a page without an origin, as in a sandboxed frame, in words of its own', async () => {
    await ask(named, preflight('null'))
    const { refusals } = (await listedOf(named)) as { refusals: object[] }
    const message = `pages without an origin (Origin: null) may not send: only * in SLUICE_CORS_ORIGINS allows them`
    expect(refusals[0]).toMatchObject({ origin: 'null', message })
  })

  test('in the log, and each of at most 40 between two lines', async () => {
    const own = await startService({ apps: APPS, env: {} })
    services.push(own)
    const origins = Array.from({ length: 60 }, (_, number) => `https://page-${number}.example`)
    for (const origin of ['https://b\u00ebll.example', STRANGER, ...origins]) await ask(own, preflight(origin))
    const { output } = await own.stop()
    expect(output).toContain(
      `refused 1 request: method_not_allowed: pages of ${STRANGER} may not send: SLUICE_CORS_ORIGINS does not name it`,
    )
    const lines = output.split('\n').filter((line) => line.includes('method_not_allowed: pages of'))
    expect(lines).toHaveLength(41)
    expect(lines.filter((line) => line.includes('pages of other origins may not send'))).toHaveLength(1)
    expect(output).toMatch(/pages of https:\/\/b\?{1,2}ll\.example may not send/)
  })
})

describe('an app that names the origins of its pages', () => {
  const json = 'application/json'
  const sent = (origin: string | null, app = 'named', type = json) =>
    posting({ origin, type, body: single(`ak_${app}`) })

  test('takes what they send, and what no page sends', async () => {
    for (const origin of [PAGE, OTHER_PAGE, null]) expectAccepted(await ask(any, sent(origin)), 1)
  })

  test.each([
    ['another page', () => any, sent(STRANGER), STRANGER],
    ['its beacon', () => any, sent(STRANGER, 'named', TEXT), STRANGER],
    ['another page, where no page may send', () => unset, sent(STRANGER), STRANGER],
    ['a page without an origin', () => any, sent('null'), 'null'],
    ['any page, where it names none', () => any, sent(PAGE, 'nowhere'), PAGE],
  ])('refuses what %s sends: 401, which tells it nothing of the app', async (_, service, request, origin) => {
    const answer = await ask(service(), request)
    expectRefused(answer, 401, 'invalid_app_key')
    expect(answer.json['message']).toBe('app_key: the page may not send with this key')
    expect(JSON.stringify(answer.json)).not.toContain('example')
    expect(answer.headers).toMatchObject({ 'x-ratelimit-limit': '200', 'x-ratelimit-remaining': '200' })
    expect(answer.headers['ratelimit']).toBeUndefined()
    const { refusals } = (await listedOf(service())) as { refusals: object[] }
    expect(refusals[0]).toMatchObject({
      request_id: answer.headers['x-request-id'],
      app_id: request.toString().includes('ak_nowhere') ? 'nowhere' : 'named',
      code: 'invalid_app_key',
      origin,
      message: `pages of ${origin} may not send with this key: the app's origins do not name it`,
    })
  })
})

describe('every answer to an allowed origin tells the browser that the page may read it:', () => {
  const json = 'application/json'
  const rows: Record<string, { sent: string | Uint8Array; status: number; to?: () => Service }> = {
    accepted: { sent: posting({ type: json }), status: 202 },
    'not JSON': { sent: posting({ type: json, body: '{' }), status: 400 },
    'an ambiguous length': { sent: posting({ type: json, lines: ['Content-Length: 5'] }), status: 400 },
    'an unknown key': { sent: posting({ type: json, body: single('ak_none') }), status: 401 },
    'a paused subscription': { sent: posting({ type: json, body: single('ak_off') }), status: 402 },
    'another path': { sent: head([`Origin: ${PAGE}`], 'POST /other HTTP/1.1'), status: 404 },
    'a preflight for another path': { sent: preflight(PAGE, '/other'), status: 404 },
    'another method': { sent: head([`Origin: ${PAGE}`], 'GET /api/v1/events HTTP/1.1'), status: 405 },
    'a body that is too large': { sent: posting({ type: json, body: 'x'.repeat(MAX_BODY_BYTES + 1) }), status: 413 },
    'another type': { sent: posting({ type: 'text/html' }), status: 415 },
    'a full minute': { sent: posting({ type: json, body: batch('ak_minute', 2) }), status: 429 },
    'a full queue': {
      sent: posting({ type: json, body: bodyOfSize('ak_plain', 400_000) }),
      status: 503,
      to: () => full,
    },
  }
  test.each(Object.entries(rows))('%s', async (_, { sent, status, to = () => named }) => {
    const answer = await ask(to(), sent)
    expect(answer.status).toBe(status)
    expectSound(answer)
    expectAllowed(answer, PAGE)
    for (const name of Object.keys(answer.headers).filter((name) => /^(x-|retry-after|date)/.test(name))) {
      expect(EXPOSED.map((exposed) => exposed.toLowerCase())).toContain(name)
    }
    if (to() === named) expectAllowed(await ask(any, sent), '*')
  })

  test('HEAD, which has no body, and an answer that ends the connection', async () => {
    const connection = await openRaw(named.port)
    connection.write(head([`Origin: ${PAGE}`, 'Connection: close'], 'HEAD /api/v1/events HTTP/1.1'))
    const answer = (await connection.readAnswer({ head: true })) as Answer
    expect(answer.status).toBe(405)
    expectAllowed(answer, PAGE)
    await connection.closed
  })
})

describe('a beacon', () => {
  test.each(['text/plain;charset=UTF-8', 'text/plain; charset=utf-8', 'Text/Plain;Charset=utf-8'])(
    'of type %s is taken from a page, and stored as sent',
    async (type) => {
      const answer = await ask(named, posting({ type }))
      const batchId = expectAccepted(answer, 1)
      expect(readJournal(named.dataDir).filter((record) => record.batch_id === batchId)).toHaveLength(1)
    },
  )

  test.each(['text/plain', 'text/plain;charset=latin1', 'text/plain;charset=UTF-8;x=1', 'text/html;charset=UTF-8', ''])(
    'of type %j is refused as ever',
    async (type) => {
      expectRefused(await ask(named, posting({ type })), 415, 'unsupported_media_type')
    },
  )

  test('may give its key in the query, in any letter case; a repeat is a replay', async () => {
    const key = randomUUID()
    const batchId = expectAccepted(await ask(named, posting({ query: `?key=${key}` })), 1)
    const again = await ask(named, posting({ query: `?key=${key.toUpperCase()}&utm=x` }))
    expect(expectAccepted(again, 1, true)).toBe(batchId)
    const byHeader = await ask(named, posting({ type: 'application/json', lines: [`Idempotency-Key: ${key}`] }))
    expect(expectAccepted(byHeader, 1, true)).toBe(batchId)
    const both = await ask(named, posting({ query: `?key=${key}`, lines: [`Idempotency-Key: ${key.toUpperCase()}`] }))
    expect(expectAccepted(both, 1, true)).toBe(batchId)
  })

  test.each([`key=${randomUUID()}&key=${randomUUID()}`, 'key=5', 'key='])('with ?%s is refused', async (query) => {
    const message = 'Idempotency-Key: must be a UUID'
    expectRefused(await ask(named, posting({ query: `?${query}` })), 400, 'validation_failed', message)
  })

  test('with another key in its header is refused', async () => {
    const sent = posting({ query: `?key=${randomUUID()}`, lines: [`Idempotency-Key: ${randomUUID()}`] })
    expectRefused(await ask(named, sent), 400, 'validation_failed')
  })

  test('may be compressed with gzip, and says so in the query', async () => {
    const body = gzipSync(batch('ak_plain', 20))
    expectAccepted(await ask(named, posting({ body, query: '?encoding=gzip' })), 20)
    expectAccepted(await ask(named, posting({ body, query: '?encoding=gzip', lines: ['Content-Encoding: GZIP'] })), 20)
    expectRefused(await ask(named, posting({ body })), 400, 'invalid_json')
  })

  test.each(['br', 'zstd', '', 'GZIP', 'gzip&encoding=br'])('with ?encoding=%s is refused', async (encoding) => {
    const sent = posting({ query: `?encoding=${encoding}` })
    expectRefused(await ask(named, sent), 415, 'unsupported_media_type')
  })

  test('with another encoding in its header is refused', async () => {
    const sent = posting({ query: '?encoding=gzip', lines: ['Content-Encoding: br'] })
    expectRefused(await ask(named, sent), 415, 'unsupported_media_type')
  })

  test('of an origin that is not allowed has no say in the query', async () => {
    const key = randomUUID()
    const sent = posting({ origin: STRANGER, type: 'application/json', query: `?key=${key}&encoding=br` })
    expectAccepted(await ask(named, sent), 1)
    expectAccepted(await ask(named, sent), 1)
  })
})

describe('without the setting the letter of the specification holds', () => {
  test.each([PAGE, null])('OPTIONS of %s is 405', async (origin) => {
    const answer = await ask(unset, preflight(origin))
    expectRefused(answer, 405, 'method_not_allowed')
    expectNoCors(answer)
  })

  test('only application/json is taken, and nothing in the query counts', async () => {
    expectRefused(await ask(unset, posting({})), 415, 'unsupported_media_type')
    const sent = posting({ type: 'application/json', query: `?key=${randomUUID()}&encoding=gzip` })
    for (const answer of [await ask(unset, sent), await ask(unset, sent)]) {
      expectAccepted(answer, 1)
      expectNoCors(answer)
    }
  })
})
