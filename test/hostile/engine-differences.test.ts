// What the HTTP engines make of odd heads, Node's own server and the two generations of uWebSockets.js, each claim of docs/operations.md by itself. A change
// of the engine's package shows here.

import { beforeAll, describe, expect, it, test } from 'vitest'
import { EVENTS_PATH, expectRefused, get } from '../support/client.ts'
import { ENGINE } from '../support/engine.ts'
import { ONE_READ_BYTES, onEngine, untilRead } from '../support/hostile.ts'
import { openRaw } from '../support/raw-http.ts'
import { appRecord, type Service, startService } from '../support/service.ts'

/** The connection stays open for about 10 s, and is closed then. */
const NO_ANSWER = 'no answer'

type Outcome = number | typeof NO_ANSWER

interface Case {
  readonly pieces: readonly string[]
  readonly old: Outcome
  readonly new: Outcome
  /** Of Node's own server, where it does otherwise than the new one. */
  readonly node?: Outcome
}

const BODY = JSON.stringify({ app_key: 'ak_plain', events: [] })
const REQUEST_LINE = `POST ${EVENTS_PATH} HTTP/1.1`
const HOST = 'Host: sluice.test'
const OWN_LINES = ['Content-Type: application/json', `Content-Length: ${BODY.length}`]

interface Changes {
  readonly requestLine?: string
  readonly hosts?: readonly string[]
}

function request(lines: readonly string[] = [], { requestLine = REQUEST_LINE, hosts = [HOST] }: Changes = {}): string {
  return [requestLine, ...hosts, ...OWN_LINES, ...lines, '', BODY].join('\r\n')
}

function requestOf(headers: number): string {
  return request(Array.from({ length: headers - 1 - OWN_LINES.length }, (_, index) => `X-${index}: 1`))
}

function requestWithHead(bytes: number): string {
  const padding = bytes - (request(['X-Long: ']).length - BODY.length)
  return request([`X-Long: ${'x'.repeat(padding)}`])
}

function inTwo(text: string, at: number): readonly string[] {
  return [text.slice(0, at), text.slice(at)]
}

const whole = (text: string): readonly string[] => [text]

const CASES: Record<string, Case> = {
  '98 headers are taken by both': { pieces: whole(requestOf(98)), old: 202, new: 202 },
  '99 headers get no answer from the old one and 431 from the new': {
    pieces: whole(requestOf(99)),
    old: NO_ANSWER,
    new: 431,
  },
  'a head of 4,096 bytes is taken by both': { pieces: whole(requestWithHead(4096)), old: 202, new: 202 },
  'a head of 4,096 bytes in two packets is taken by both': {
    pieces: inTwo(requestWithHead(4096), 3000),
    old: 202,
    new: 202,
  },
  'a head of 4,097 bytes is taken by the old one alone': { pieces: whole(requestWithHead(4097)), old: 202, new: 431 },
  'a head of 4,097 bytes in two packets is 431 for both': {
    pieces: inTwo(requestWithHead(4097), 3000),
    old: 431,
    new: 431,
  },
  'a head of 20 KB in one read is taken by the old one alone': {
    pieces: whole(requestWithHead(ONE_READ_BYTES)),
    old: 202,
    new: 431,
  },
  'a value that goes on in a line after a space gets no answer from the old one and 400 from the new': {
    pieces: whole(request(['X-Folded: 1\r\n 2'])),
    old: NO_ANSWER,
    new: 400,
  },
  'a value that goes on in a line after a tab gets no answer from the old one and 400 from the new': {
    pieces: whole(request(['X-Folded: 1\r\n\t2'])),
    old: NO_ANSWER,
    new: 400,
  },
  'a NUL in a value gets no answer from the old one and 400 from the new': {
    pieces: whole(request(['X-Value: a\0b'])),
    old: NO_ANSWER,
    new: 400,
  },
  'a NUL in a name gets no answer from the old one and 400 from the new': {
    pieces: whole(request(['X\0Name: 1'])),
    old: NO_ANSWER,
    new: 400,
  },
  'a control character in a value gets no answer from the old one and 400 from the new': {
    pieces: whole(request(['X-Value: a\u0001b'])),
    old: NO_ANSWER,
    new: 400,
  },
  'a space before the colon gets no answer from the old one and 400 from the new': {
    pieces: whole(request(['X-Name : 1'])),
    old: NO_ANSWER,
    new: 400,
  },
  'a header without a colon gets no answer from the old one and 400 from the new': {
    pieces: whole(request(['X-Name'])),
    old: NO_ANSWER,
    new: 400,
  },
  'a bracket in a name gets no answer from the old one and 400 from the new': {
    pieces: whole(request(['X(Name: 1'])),
    old: NO_ANSWER,
    new: 400,
  },
  'two Hosts that differ are taken by the old one and 400 for the new': {
    pieces: whole(request([], { hosts: [HOST, 'Host: other.test'] })),
    old: 202,
    new: 400,
  },
  'two Hosts that agree are taken by the old one and 400 for the new': {
    pieces: whole(request([], { hosts: [HOST, HOST] })),
    old: 202,
    new: 400,
  },
  'an empty line before the request is 505 for the old one and gets no answer from the new; Node passes over it': {
    pieces: whole(`\r\n${request()}`),
    old: 505,
    new: NO_ANSWER,
    node: 202,
  },
  'no Host is 400 for both': { pieces: whole(request([], { hosts: [] })), old: 400, new: 400 },
  'a carriage return in a value gets no answer from either, and 400 from Node': {
    pieces: whole(request(['X-Value: a\rb'])),
    old: NO_ANSWER,
    new: NO_ANSWER,
    node: 400,
  },
  'lines that end without a carriage return are 505 for both': {
    pieces: whole(request().replaceAll('\r\n', '\n')),
    old: 505,
    new: 505,
  },
  'HTTP/1.0 is 505 for both': {
    pieces: whole(request([], { requestLine: `POST ${EVENTS_PATH} HTTP/1.0` })),
    old: 505,
    new: 505,
  },
  'HTTP/2 without an upgrade is 505 for both': {
    pieces: whole('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'),
    old: 505,
    new: 505,
  },
  'OPTIONS * is 505 for both': { pieces: whole(`OPTIONS * HTTP/1.1\r\n${HOST}\r\n\r\n`), old: 505, new: 505 },
  'CONNECT is 505 for both': { pieces: whole(`CONNECT sluice.test:1 HTTP/1.1\r\n${HOST}\r\n\r\n`), old: 505, new: 505 },
  'a request target with a host is 505 for both': {
    pieces: whole(request([], { requestLine: `POST http://sluice.test${EVENTS_PATH} HTTP/1.1` })),
    old: 505,
    new: 505,
  },
}

for (const character of "_.~!'|#$%&*+^`") {
  CASES[`a header name with ${character} gets no answer from the old one and is taken by the new`] = {
    pieces: whole(request([`X${character}Name: 1`])),
    old: NO_ANSWER,
    new: 202,
  }
}

let service: Service
/** All are asked at once, since what gets no answer takes some 10 s to end. */
const outcomes = new Map<string, Promise<Outcome>>()

async function outcomeOf(pieces: readonly string[]): Promise<Outcome> {
  const raw = await openRaw(service.port)
  for (const piece of pieces) {
    raw.write(Buffer.from(piece, 'latin1'))
    await untilRead(service)
  }
  const answer = await raw.readAnswer().catch(() => raw.closed.then(() => null))
  raw.close()
  return answer?.status ?? NO_ANSWER
}

beforeAll(async () => {
  service = await startService({ apps: [appRecord('plain')] })
  for (const [claim, { pieces }] of Object.entries(CASES)) outcomes.set(claim, outcomeOf(pieces))
})

describe(`of odd heads, on the ${ENGINE} engine`, () => {
  it.each(Object.entries(CASES))('%s', async (claim, expected) => {
    expect(await outcomes.get(claim)).toBe(onEngine(expected.new, expected.old, expected.node))
  })
})

test('a request line in two packets: the old one wants it whole, but for its first 3 bytes and its last; the new one takes any', async () => {
  const text = request()
  const offsets = Array.from({ length: text.indexOf('\r\n') + 2 }, (_, index) => index + 1)
  const isTaken = (at: number): boolean => ENGINE !== 'old' || at <= 3 || at === offsets.length
  const found = await Promise.all(offsets.map(async (at) => [at, await outcomeOf(inTwo(text, at))]))
  expect(found).toEqual(offsets.map((at) => [at, isTaken(at) ? 202 : 505]))
  expect(offsets).toHaveLength(30)
})

test('Expect: 100-continue is answered 100 before the body comes, and then as ever, on both', async () => {
  const text = request(['Expect: 100-continue'])
  const [headText = '', body = ''] = inTwo(text, text.length - BODY.length)
  const raw = await openRaw(service.port)
  raw.write(headText)
  expect((await raw.readAnswer())?.status).toBe(100)
  raw.write(body)
  expect((await raw.readAnswer())?.status).toBe(202)
  raw.close()
})

describe('the name of the engine', () => {
  it('stands in no answer of sluice, on either port', async () => {
    const raw = await openRaw(service.port)
    raw.write(request())
    const answers = [await raw.readAnswer(), await get(service.port, '/'), await get(service.adminPort, '/livez')]
    raw.close()
    expect(answers.map((answer) => answer?.status)).toEqual([202, 404, 200])
    expect(answers.filter((answer) => /uwebsockets/i.test(answer?.whole ?? ''))).toEqual([])
  })

  it('still stands in what uWebSockets.js answers by itself; Node answers as sluice does', async () => {
    const raw = await openRaw(service.port)
    raw.write(request([], { hosts: [] }))
    if (ENGINE === 'node') {
      const answer = await raw.readAnswer()
      if (answer === null) expect.fail('no answer')
      expectRefused(answer, 400, 'validation_failed', 'the request is not HTTP/1.1 as RFC 9112 has it')
    }
    await raw.closed
    if (ENGINE !== 'node') expect(raw.unread()).toMatch(/^HTTP\/1\.1 400 .*uWebSockets/s)
  })
})
