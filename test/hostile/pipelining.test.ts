// Thousands of requests in one write, answers that nobody reads, and resets: the process lives, what is refused for one
// connection is bounded, and the others are served.

import { describe, expect, test } from 'vitest'
import { expectAccepted, get, post, single } from '../support/client.ts'
import { ended, expectClosed, hostileService, type Page, readPage } from '../support/hostile.ts'
import { head, openRaw, rawPost } from '../support/raw-http.ts'
import { eventually, sleep } from '../support/service.ts'

const PAGE = 'https://app.example.com'
const hostile = hostileService({ SLUICE_CORS_ORIGINS: PAGE })
const EVENTS = '/api/v1/events'
const JSON_TYPE = 'Content-Type: application/json'

/** Each is refused with its code; those without a body by their head alone. */
const REFUSED: Readonly<Record<string, { request: string; code: string }>> = {
  'GET of a path that is not there': { request: head([], 'GET /x HTTP/1.1'), code: 'not_found' },
  'GET of the events path': { request: head([], `GET ${EVENTS} HTTP/1.1`), code: 'method_not_allowed' },
  HEAD: { request: head([], `HEAD ${EVENTS} HTTP/1.1`), code: 'method_not_allowed' },
  OPTIONS: { request: head([], `OPTIONS ${EVENTS} HTTP/1.1`), code: 'method_not_allowed' },
  'POST of another media type': {
    request: head(['Content-Type: text/plain', 'Content-Length: 0']),
    code: 'unsupported_media_type',
  },
  'POST that announces too much': { request: head([JSON_TYPE, 'Content-Length: 524289']), code: 'payload_too_large' },
  'POST of a tiny body': { request: rawPost('{}'), code: 'validation_failed' },
  'POST of no body': { request: rawPost(''), code: 'invalid_json' },
  'POST of two lengths': {
    request: head([JSON_TYPE, 'Content-Length: 0', 'Content-Length: 0']),
    code: 'validation_failed',
  },
}
const AT_ONCE = 5_000
/** Far below what one read holds (18,000), and above what one turn of the event loop may give. */
const MOST_FOR_ONE_CONNECTION = 64
/** One after the other, each looked for on the page of metrics. */
const BATCHES = 50
const HALF_A_MEGABYTE = 500_000
const MOST_GROWTH_BYTES = 120 * 1024 * 1024

/** None is left open, and it is the same process still. */
async function expectOutlived(before: Page): Promise<void> {
  await eventually(
    'their connections are gone',
    // One that a test before has reset may have been there still.
    async () => (await readPage(hostile.service))['sluice_connections'] <= before['sluice_connections'],
  )
  const { process_start_time_seconds: startedAt } = await readPage(hostile.service)
  expect(startedAt).toBe(before['process_start_time_seconds'])
}

function flood(request: string, bytes: number): string {
  return request.repeat(Math.ceil(bytes / request.length))
}

describe('5,000 requests in one write, then a reset, do not end the process', () => {
  for (const [claim, { request }] of Object.entries(REFUSED)) {
    test(claim, async () => {
      const before = await readPage(hostile.service)
      const whole = request.repeat(AT_ONCE)
      for (const delayMs of [0, 0, 1, 3, 10, 30]) {
        const raw = await openRaw(hostile.service.port)
        raw.socket.pause()
        await new Promise((done) => raw.socket.write(whole, done))
        if (delayMs > 0) await sleep(delayMs)
        raw.socket.resetAndDestroy()
      }
      await expectOutlived(before)
    })
  }

  for (const page of ['/metrics', '/livez', '/readyz?verbose', '/x']) {
    test(`on the admin port: GET ${page}`, async () => {
      const before = await readPage(hostile.service)
      const whole = head([], `GET ${page} HTTP/1.1`).repeat(AT_ONCE)
      for (const delayMs of [0, 0, 1, 3, 10, 30]) {
        const raw = await openRaw(hostile.service.adminPort)
        raw.socket.pause()
        await new Promise((done) => raw.socket.write(whole, done))
        if (delayMs > 0) await sleep(delayMs)
        raw.socket.resetAndDestroy()
      }
      await expectOutlived(before)
    })
  }
})

test('200 clients that send requests ahead, read nothing and leave, harm nobody', async () => {
  const before = await readPage(hostile.service)
  const requests = Object.values(REFUSED).map(({ request }) => request)
  const raws = await Promise.all(Array.from({ length: 200 }, () => openRaw(hostile.service.port)))
  for (const [index, raw] of raws.entries()) {
    raw.socket.pause()
    raw.write(flood(requests[index % requests.length], 20_000))
  }
  for (const [index, raw] of raws.entries()) {
    if (index % 2 === 0) raw.socket.resetAndDestroy()
    else raw.close()
  }
  await expectOutlived(before)
})

describe('of half a megabyte of requests on one connection only the first few are handled, and it is closed', () => {
  for (const [claim, { request, code }] of Object.entries(REFUSED)) {
    // What follows the head that announces too much is its body.
    if (code === 'payload_too_large') continue
    test(claim, async () => {
      const before = await readPage(hostile.service)
      const raw = await openRaw(hostile.service.port)
      raw.write(flood(request, HALF_A_MEGABYTE))
      await expectClosed(raw)
      await eventually(
        'it is counted',
        async () => (await readPage(hostile.service))['sluice_requests_in_flight'] === 0,
      )
      const after = await readPage(hostile.service)
      expect(after['sluice_requests_received_total'] - before['sluice_requests_received_total']).toBeLessThanOrEqual(
        MOST_FOR_ONE_CONNECTION,
      )
      expect(after['sluice_connections']).toBe(before['sluice_connections'])
      raw.close()
    })
  }
})

test('while twenty connections send half a megabyte of requests each and read nothing, others are served, and memory stays', async () => {
  const before = await readPage(hostile.service)
  const raws = await Promise.all(Array.from({ length: 20 }, () => openRaw(hostile.service.port)))
  const whole = flood(REFUSED['GET of a path that is not there'].request, HALF_A_MEGABYTE)
  for (const raw of raws) {
    raw.socket.pause()
    raw.write(whole)
  }
  for (let round = 0; round < 20; round++) {
    const answers = await Promise.all(Array.from({ length: 5 }, () => post(hostile.service, single('ak_plain'))))
    for (const answer of answers) expectAccepted(answer, 1)
  }
  const after = await readPage(hostile.service)
  expect(ended(after, 'not_found') - ended(before, 'not_found')).toBeLessThanOrEqual(
    raws.length * MOST_FOR_ONE_CONNECTION,
  )
  expect(after['process_resident_memory_bytes'] - before['process_resident_memory_bytes']).toBeLessThan(
    MOST_GROWTH_BYTES,
  )
  for (const raw of raws) raw.close()
})

describe('a client that reads no answer is closed when its socket is full', () => {
  /** As many requests arrive in one turn of the event loop. */
  const AT_A_TIME = 10
  const MOST_SENT = 100_000

  /** How many requests were sent until the connection ended. */
  async function sendUnread(port: number, request: string, atATime = AT_A_TIME): Promise<number> {
    const raw = await openRaw(port)
    raw.socket.pause()
    // Nothing is read here: the end shows when a write fails.
    let sent = 0
    for (; !raw.socket.destroyed && sent < MOST_SENT; sent += atATime) {
      raw.write(request.repeat(atATime))
      // These are handled in the turn of the event loop that answers the first of two others, or before it.
      await get(port, '/x')
      await get(port, '/x')
    }
    raw.close()
    return sent
  }

  const preflight = head([`Origin: ${PAGE}`], 'OPTIONS /api/v1/events HTTP/1.1')
  test.each([
    ['preflight', preflight],
    ['HEAD', head([], 'HEAD /x HTTP/1.1')],
  ])('one %s, whose answer has no body, at a time', async (_, request) => {
    expect(await sendUnread(hostile.service.port, request, 1)).toBeLessThan(100)
  })

  test.each([
    ['requests that their heads refuse', head([], 'GET /x HTTP/1.1')],
    ['HEAD requests', head([], 'HEAD /x HTTP/1.1')],
    ['preflights', preflight],
  ])('answers to %s', async (_, request) => {
    const before = await readPage(hostile.service)
    const sent = await sendUnread(hostile.service.port, request)
    const after = await readPage(hostile.service)
    expect(sent).toBeLessThan(MOST_SENT)
    const why = 'sluice_connections_closed_total{reason="unread"}'
    // An answer without a body is the last of its connection.
    expect(after[why] - before[why]).toBe(request.startsWith('GET') ? 1 : 0)
    expect(after['process_resident_memory_bytes'] - before['process_resident_memory_bytes']).toBeLessThan(
      MOST_GROWTH_BYTES,
    )
  })

  test.each(['GET', 'HEAD'])('pages of the admin port (%s)', async (method) => {
    const before = await readPage(hostile.service)
    const sent = await sendUnread(hostile.service.adminPort, head([], `${method} /metrics HTTP/1.1`))
    expect(sent).toBeLessThan(MOST_SENT)
    const after = await readPage(hostile.service)
    expect(after['process_resident_memory_bytes'] - before['process_resident_memory_bytes']).toBeLessThan(
      MOST_GROWTH_BYTES,
    )
  })
})

test('a client that sends one good batch after the other and reads no answer has each stored once', async () => {
  const before = await readPage(hostile.service)
  const stored = hostile.stored()
  const raw = await openRaw(hostile.service.port)
  raw.socket.pause()
  const accepted = async (): Promise<number> =>
    ended(await readPage(hostile.service), 'accepted') - ended(before, 'accepted')
  for (let sent = 1; sent <= BATCHES; sent++) {
    raw.write(rawPost(single('ak_plain')))
    // The engine closes a connection that does not wait for its answer.
    while ((await accepted()) < sent) if (raw.socket.destroyed) expect.fail(`closed at request ${sent}`)
  }
  expect(hostile.stored() - stored).toBe(BATCHES)
  raw.close()
})

test('requests behind one that waits for its answer are not served: the connection is closed, the first batch is stored', async () => {
  const stored = hostile.stored()
  const raw = await openRaw(hostile.service.port)
  raw.write(rawPost(single('ak_plain')).repeat(3))
  await expectClosed(raw)
  await eventually('the first is stored', () => hostile.stored() === stored + 1)
  expect(raw.unread()).toBe('')
})
