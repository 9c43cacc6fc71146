// Heads that no client of ours would send: what the service makes of each, on each HTTP engine.
// `Nothing` is what the older engine answers to much of it: the connection is closed when it has been idle for too long.

import { describe, expect, test } from 'vitest'
import { expectAccepted, post, single } from '../support/client.ts'
import { expectClosed, hear, hostileService, ONE_READ_BYTES, onEngine } from '../support/hostile.ts'
import { head, openRaw, rawPost } from '../support/raw-http.ts'

const hostile = hostileService()

const JSON_TYPE = 'Content-Type: application/json'
const BODY = single('ak_plain')
const LENGTH = `Content-Length: ${BODY.length}`
const NUL = String.fromCharCode(0)

interface Made {
  readonly heard: readonly number[]
  readonly closed: boolean
  readonly stored: number
}
type Row = readonly [sent: string, now: Made, old?: Made, node?: Made]

const SERVED: Made = { heard: [202], closed: false, stored: 1 }
const REFUSED: Made = { heard: [400], closed: true, stored: 0 }
const TOO_LARGE: Made = { heard: [431], closed: true, stored: 0 }
const NOT_HTTP: Made = { heard: [505], closed: true, stored: 0 }
const SILENCE: Made = { heard: [], closed: false, stored: 0 }
const NOT_THERE: Made = { heard: [404], closed: false, stored: 0 }
const NOT_ALLOWED: Made = { heard: [405], closed: false, stored: 0 }
/** Node's parser does not pass such a head on, and reads nothing behind it. */
const NOT_ALLOWED_LAST: Made = { ...NOT_ALLOWED, closed: true }
const NOT_THERE_LAST: Made = { ...NOT_THERE, closed: true }

function withLines(...lines: readonly string[]): string {
  return head([JSON_TYPE, ...lines, LENGTH]) + BODY
}

function withStart(requestLine: string): string {
  return head([JSON_TYPE, LENGTH], requestLine) + BODY
}

function hold(rows: Readonly<Record<string, Row>>): void {
  for (const [claim, [sent, now, old = now, node = now]] of Object.entries(rows)) {
    test(claim, async () => {
      const before = hostile.stored()
      const { statuses, closed, text } = await hear(hostile.service, [sent])
      const found: Made = { heard: statuses, closed, stored: hostile.stored() - before }
      expect(found, text.slice(0, 300)).toEqual(onEngine(now, old, node))
    })
  }
}

describe('request lines', () => {
  hold({
    'HTTP/1.0': [withStart('POST /api/v1/events HTTP/1.0'), NOT_HTTP],
    'HTTP/9.9': [withStart('POST /api/v1/events HTTP/9.9'), NOT_HTTP],
    'HTTP/0.9': ['GET /api/v1/events\r\n\r\n', NOT_HTTP],
    'the preface of HTTP/2': [`PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n${NUL.repeat(9)}`, NOT_HTTP],
    'a hello of TLS': [`\x16\x03\x01\x02${NUL}\x01${NUL}\x01\xfc\x03\x03${'Z'.repeat(200)}`, NOT_HTTP],
    'a line of PROXY, version 1': [`PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n${rawPost(BODY)}`, NOT_HTTP],
    'a header of PROXY, version 2, is passed over by the engine': [
      `\r\n\r\n${NUL}\r\nQUIT\n\x21\x11${NUL}\x0c${'a'.repeat(12)}${rawPost(BODY)}`,
      SERVED,
      SERVED,
      NOT_HTTP,
    ],
    garbage: [`${'garbage '.repeat(20)}\r\n\r\n`, NOT_HTTP],
    'the absolute form': [withStart('POST http://sluice.test/api/v1/events HTTP/1.1'), NOT_HTTP],
    'a star': [withStart('OPTIONS * HTTP/1.1'), NOT_HTTP],
    'CONNECT to a host': [withStart('CONNECT sluice.test:443 HTTP/1.1'), NOT_HTTP],
    'CONNECT to the path': [withStart('CONNECT /api/v1/events HTTP/1.1'), NOT_ALLOWED, NOT_ALLOWED, NOT_ALLOWED_LAST],
    'a path without its slash': [withStart('POST api/v1/events HTTP/1.1'), NOT_HTTP],
    'two spaces': [withStart('POST  /api/v1/events HTTP/1.1'), NOT_HTTP, NOT_HTTP, SERVED],
    tabs: [withStart('POST\t/api/v1/events\tHTTP/1.1'), NOT_HTTP],
    'a NUL in the path': [withStart(`POST /api/v1/events${NUL} HTTP/1.1`), NOT_HTTP],
    'a method in small letters': [
      withStart('post /api/v1/events HTTP/1.1'),
      NOT_ALLOWED,
      NOT_ALLOWED,
      NOT_ALLOWED_LAST,
    ],
    'a method that is no token': [
      withStart('P(ST /api/v1/events HTTP/1.1'),
      NOT_ALLOWED,
      NOT_ALLOWED,
      NOT_ALLOWED_LAST,
    ],
    'a query': [withStart('POST /api/v1/events?a=b HTTP/1.1'), SERVED],
    'a fragment': [withStart('POST /api/v1/events#a HTTP/1.1'), NOT_THERE],
    'dots in the path': [withStart('POST /x/../api/v1/events HTTP/1.1'), NOT_THERE],
    'a letter beyond ASCII in the path': [
      withStart('POST /api/v1/\xe9vents HTTP/1.1'),
      NOT_THERE,
      NOT_THERE,
      NOT_THERE_LAST,
    ],
    'a letter in percents': [withStart('POST /api/v1/event%73 HTTP/1.1'), NOT_THERE],
    'two slashes': [withStart('POST //api/v1/events HTTP/1.1'), NOT_THERE],
    'an empty line before': [`\r\n${rawPost(BODY)}`, SILENCE, NOT_HTTP, SERVED],
  })
})

describe('header lines', () => {
  hold({
    'a NUL in a value': [withLines(`X-A: a${NUL}b`), REFUSED, SILENCE],
    'a NUL in a name': [withLines(`X${NUL}A: a`), REFUSED, SILENCE],
    'a folded line': [withLines('X-A: a\r\n b'), REFUSED, SILENCE],
    'a folded length': [head([JSON_TYPE, `Content-Length:\r\n ${BODY.length}`]) + BODY, REFUSED, SILENCE],
    'a carriage return alone in a value': [withLines('X-A: a\rb'), SILENCE, SILENCE, REFUSED],
    'a carriage return alone that hides a length': [withLines('X-A: a\rContent-Length: 0'), SILENCE, SILENCE, REFUSED],
    'a line feed alone': [withLines('X-A: a\nX-B: b'), REFUSED, SILENCE],
    'a line feed alone that hides a length': [withLines('X-A: a\nContent-Length: 0'), REFUSED, SILENCE],
    'line feeds alone everywhere': [head([JSON_TYPE, LENGTH]).replaceAll('\r\n', '\n') + BODY, NOT_HTTP],
    'a space before the colon': [head([JSON_TYPE, `Content-Length : ${BODY.length}`]) + BODY, REFUSED, SILENCE],
    'a space before the colon of a coding': [withLines('Transfer-Encoding : chunked'), REFUSED, SILENCE],
    'a space before the first line': [
      `POST /api/v1/events HTTP/1.1\r\n Host: a\r\n${JSON_TYPE}\r\n${LENGTH}\r\n\r\n${BODY}`,
      REFUSED,
      SILENCE,
    ],
    'no colon': [withLines('nothing'), REFUSED, SILENCE],
    'an empty name ends the head for the new engine': [withLines(': a'), REFUSED, NOT_HTTP],
    'no Host': [`POST /api/v1/events HTTP/1.1\r\n${JSON_TYPE}\r\n${LENGTH}\r\n\r\n${BODY}`, REFUSED],
    'two Hosts': [withLines('Host: other.test'), REFUSED, SERVED],
    'a legal name of rare letters': [withLines("X_a.b~c!d'e|f: 1"), SERVED, SILENCE],
    'bytes beyond ASCII in a value': [withLines('X-A: \xff\xfe'), SERVED],
    '90 lines': [withLines(...Array.from({ length: 90 }, (_, i) => `X-${i}: 1`)), SERVED],
    '150 lines': [withLines(...Array.from({ length: 150 }, (_, i) => `X-${i}: 1`)), TOO_LARGE, SILENCE],
    'Expect: 100-continue': [withLines('Expect: 100-continue'), { heard: [100, 202], closed: false, stored: 1 }],
    'Expect: of something else': [withLines('Expect: wonders'), SERVED],
    'an upgrade to WebSocket': [
      head(
        [
          'Connection: Upgrade',
          'Upgrade: websocket',
          'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
          'Sec-WebSocket-Version: 13',
        ],
        'GET /api/v1/events HTTP/1.1',
      ),
      NOT_ALLOWED,
    ],
    'an upgrade to HTTP/2': [
      withLines('Connection: Upgrade, HTTP2-Settings', 'Upgrade: h2c', 'HTTP2-Settings: AAMAAABkAAQAAP__'),
      SERVED,
    ],
  })
})

for (const [claim, sent] of Object.entries({
  path: withStart(`POST /${'x'.repeat(1_048_576)} HTTP/1.1`),
  'one header line': withLines(`X-Long: ${'x'.repeat(1_048_576)}`),
})) {
  test(`a megabyte of ${claim} is refused, and the connection closed`, async () => {
    const stored = hostile.stored()
    const { statuses, closed } = await hear(hostile.service, [sent])
    // By how much of it came at once; the answer is lost where the connection is reset over what was left unread.
    expect([[431], [505], []]).toContainEqual(statuses)
    expect(closed).toBe(true)
    expect(hostile.stored()).toBe(stored)
  })
}

test('a head of 20 KB that one read brings is refused by the new engine with 431, and served by the older one', async () => {
  const before = hostile.stored()
  const { statuses, closed } = await hear(hostile.service, [withLines(`X-Long: ${'x'.repeat(ONE_READ_BYTES)}`)])
  const found: Made = { heard: statuses, closed, stored: hostile.stored() - before }
  expect(found).toEqual(onEngine(TOO_LARGE, SERVED))
})

test('a head of 100 KB in several segments is refused with 431', async () => {
  const { statuses, closed } = await hear(hostile.service, [
    head([JSON_TYPE]).slice(0, -2),
    `X-Long: ${'x'.repeat(50_000)}`,
    'x'.repeat(50_000),
  ])
  expect(statuses).toEqual([431])
  expect(closed).toBe(true)
})

test('heads that never end hold nobody up, hold no request in hand, and are closed by the engine', async () => {
  const raws = await Promise.all(Array.from({ length: 100 }, () => openRaw(hostile.service.port)))
  for (const raw of raws) raw.write(`${head([JSON_TYPE]).slice(0, -2)}X-A`)
  for (let round = 0; round < 10; round++) {
    for (const raw of raws) raw.write('a')
    expectAccepted(await post(hostile.service, single('ak_honest')), 1)
  }
  // Nothing more comes: the engine closes what is idle for 9 to 12 s.
  await Promise.all(raws.map((raw) => expectClosed(raw, 30_000)))
  for (const raw of raws) expect(raw.unread()).toBe('')
})

test('a head that comes byte by byte is served, but for its request line on the older engine', async () => {
  const whole = rawPost(BODY)
  const first = onEngine(1, whole.indexOf('\r\n') + 2)
  const raw = await openRaw(hostile.service.port)
  raw.write(whole.slice(0, first))
  for (const byte of whole.slice(first, whole.indexOf('\r\n\r\n') + 4)) {
    await new Promise((done) => raw.socket.write(byte, done))
    await new Promise((done) => setImmediate(done))
  }
  raw.write(BODY)
  const answer = await raw.readAnswer()
  if (answer === null) expect.fail('no answer')
  expectAccepted(answer, 1)
  raw.close()
})
