// Where a body ends: what the service and its HTTP engine make of every way to leave that in doubt. The table says it for
// each engine; whoever puts a proxy before the service can hold it against that proxy's.

import { describe, expect, test } from 'vitest'
import { expectRefused, single } from '../support/client.ts'
import { ENGINE } from '../support/engine.ts'
import { expectClosed, hear, hostileService, onEngine, untilRead } from '../support/hostile.ts'
import { head, openRaw, rawPost } from '../support/raw-http.ts'
import { eventually } from '../support/service.ts'

const hostile = hostileService()

const JSON_TYPE = 'Content-Type: application/json'
const CHUNKED = 'Transfer-Encoding: chunked'
const BODY = single('ak_plain')
const BYTES = BODY.length
const HEX = BYTES.toString(16)
/** A good request right behind a head that leaves its own end in doubt. */
const HIDDEN = rawPost(BODY)
const CHUNKS = `${HEX}\r\n${BODY}\r\n0\r\n\r\n`
const NOTHING = `0\r\n\r\n`

/** The statuses heard, whether the connection ended, and how many batches were stored. */
interface Made {
  readonly heard: readonly number[]
  readonly closed: boolean
  readonly stored: number
}
interface Row {
  /** In pieces: each is sent once the one before it is read. */
  readonly sent: string | readonly string[]
  readonly made: Made | { readonly old: Made; readonly now: Made; readonly node?: Made }
}

const SERVED: Made = { heard: [202], closed: false, stored: 1 }
/** The engine answers by itself, or the service does; the connection ends either way. */
const REFUSED: Made = { heard: [400], closed: true, stored: 0 }
const NOT_HTTP: Made = { heard: [505], closed: true, stored: 0 }
/** The engine waits for more of a chunk that it takes to be longer. */
const WAITED_FOR: Made = { heard: [], closed: false, stored: 0 }
/** By uWebSockets.js. */
const TAKEN = { old: SERVED, now: SERVED, node: REFUSED }

function withLength(value: string): string {
  return head([JSON_TYPE, `Content-Length: ${value}`])
}

function withCoding(value: string): string {
  return head([JSON_TYPE, `Transfer-Encoding: ${value}`])
}

const chunked = head([JSON_TYPE, CHUNKED])

async function expectMade({ sent, made }: Row): Promise<void> {
  const before = hostile.stored()
  const { statuses, closed, text } = await hear(hostile.service, [sent].flat())
  const found: Made = { heard: statuses.filter((status) => status >= 200), closed, stored: hostile.stored() - before }
  const wanted = 'now' in made ? onEngine(made.now, made.old, made.node) : made
  // A piece that comes behind the end of the connection resets it, and with it an answer that was not read yet.
  const isReset = sent.length > 1 && typeof sent !== 'string' && closed && found.heard.length === 0
  expect(isReset && wanted.closed ? { ...found, heard: wanted.heard } : found, text).toEqual(wanted)
}

function hold(rows: Readonly<Record<string, Row>>): void {
  for (const [claim, row] of Object.entries(rows)) test(claim, () => expectMade(row))
}

describe('a length that is no plain number is refused', () => {
  hold({
    'no digits at all': { sent: withLength('') + BODY, made: { old: NOT_HTTP, now: REFUSED } },
    'a word': { sent: withLength('ten') + BODY, made: REFUSED },
    negative: { sent: withLength('-5') + BODY, made: REFUSED },
    'with a plus': { sent: withLength(`+${BYTES}`) + BODY, made: REFUSED },
    'in hex': { sent: withLength(`0x${HEX}`) + BODY, made: REFUSED },
    'with an exponent': { sent: withLength('3e2') + BODY, made: REFUSED },
    'with a fraction': { sent: withLength(`${BYTES}.0`) + BODY, made: REFUSED },
    'with a semicolon': { sent: withLength(`${BYTES};`) + BODY, made: REFUSED },
    'two numbers': { sent: withLength(`0 ${BYTES}`) + BODY, made: REFUSED },
    'a list of the same': { sent: withLength(`${BYTES}, ${BYTES}`) + BODY, made: REFUSED },
    '2^64': { sent: withLength(String(2n ** 64n)) + BODY, made: REFUSED },
    '2^64 and the right one': { sent: withLength(String(2n ** 64n + BigInt(BYTES))) + BODY, made: REFUSED },
    '2^53 and one': { sent: withLength(String(2n ** 53n + 1n)) + BODY, made: REFUSED },
    '30 digits': { sent: withLength('9'.repeat(30)) + BODY, made: REFUSED },
    '2^32 and the right one: too large, its low bits are not taken for it': {
      sent: withLength(String(2n ** 32n + BigInt(BYTES))) + BODY,
      made: { heard: [413], closed: false, stored: 0 },
    },
    'leading zeros: a number all the same': { sent: withLength(`000${BYTES}`) + BODY, made: SERVED },
  })
})

describe('more than one word on where a body ends is refused', () => {
  hold({
    'the same length twice': {
      sent: head([JSON_TYPE, `Content-Length: ${BYTES}`, `Content-Length: ${BYTES}`]) + BODY,
      made: REFUSED,
    },
    'two lengths': { sent: head([JSON_TYPE, `Content-Length: ${BYTES}`, 'Content-Length: 5']) + BODY, made: REFUSED },
    'a length, then chunks': { sent: head([JSON_TYPE, `Content-Length: ${BYTES}`, CHUNKED]) + CHUNKS, made: REFUSED },
    'chunks, then a length': { sent: head([JSON_TYPE, CHUNKED, `Content-Length: ${BYTES}`]) + CHUNKS, made: REFUSED },
    'chunks twice in one line': { sent: withCoding('chunked, chunked') + CHUNKS, made: REFUSED },
    'chunks twice in two lines': { sent: head([JSON_TYPE, CHUNKED, CHUNKED]) + CHUNKS, made: REFUSED },
    'chunks, then identity': {
      sent: head([JSON_TYPE, CHUNKED, 'Transfer-Encoding: identity']) + CHUNKS,
      made: REFUSED,
    },
    'a coding besides chunks': { sent: withCoding('gzip, chunked') + CHUNKS, made: REFUSED },
    'a coding that nobody knows': { sent: withCoding('xchunked') + CHUNKS, made: REFUSED },
    identity: { sent: withCoding('identity') + BODY, made: REFUSED },
    'an empty coding': { sent: withCoding('') + CHUNKS, made: { old: NOT_HTTP, now: REFUSED } },
    'a coding in capitals: chunks all the same': { sent: withCoding('CHUNKED') + CHUNKS, made: SERVED },
  })
})

describe('a request hidden behind such a head in the same segment is never served', () => {
  const heads: Readonly<Record<string, string>> = {
    'no digits': withLength(''),
    'a word for a length': withLength('ten'),
    'a negative length': withLength('-5'),
    'a list of lengths': withLength('0, 0'),
    '2^64 for a length': withLength(String(2n ** 64n)),
    'a length of nothing twice': head([JSON_TYPE, 'Content-Length: 0', 'Content-Length: 0']),
    'nothing, then the length of what is hidden': head([
      JSON_TYPE,
      'Content-Length: 0',
      `Content-Length: ${HIDDEN.length}`,
    ]),
    'the length of what is hidden, then nothing': head([
      JSON_TYPE,
      `Content-Length: ${HIDDEN.length}`,
      'Content-Length: 0',
    ]),
    'a length of nothing, and chunks': head([JSON_TYPE, 'Content-Length: 0', CHUNKED]),
    'chunks, and a length': `${head([JSON_TYPE, CHUNKED, `Content-Length: ${HIDDEN.length}`])}${NOTHING}`,
    'chunks twice': `${withCoding('chunked, chunked')}${NOTHING}`,
    'an unknown coding': withCoding('xchunked'),
    'an unknown coding, ended like chunks': `${withCoding('xchunked')}${NOTHING}`,
    identity: withCoding('identity'),
    'a trailer announced': `${head([JSON_TYPE, CHUNKED, 'Trailer: X-Sum'])}${NOTHING}`,
  }
  for (const [claim, text] of Object.entries(heads)) {
    test(claim, async () => {
      const before = hostile.stored()
      const { statuses, closed } = await hear(hostile.service, [text + HIDDEN])
      expect(statuses.filter((status) => status < 400)).toEqual([])
      expect(closed, 'the connection ended').toBe(true)
      expect(hostile.stored()).toBe(before)
    })

    test(`${claim}, and the request in a segment of its own`, async () => {
      const before = hostile.stored()
      const { statuses, closed } = await hear(hostile.service, [text, HIDDEN])
      expect(statuses.filter((status) => status < 400)).toEqual([])
      expect(closed, 'the connection ended').toBe(true)
      expect(hostile.stored()).toBe(before)
    })
  }
})

describe('where the service itself sees the fault it says so, in JSON', () => {
  const cases: Readonly<Record<string, [string, string]>> = {
    'two lengths': [head([JSON_TYPE, 'Content-Length: 0', 'Content-Length: 0']), 'Content-Length: must appear once'],
    'an unknown coding': [withCoding('xchunked'), 'Transfer-Encoding: must be chunked'],
    'a trailer announced': [head([JSON_TYPE, CHUNKED, 'Trailer: X-Sum']), 'Trailer: not supported'],
    'a length of 16 digits': [withLength('1234567890123456'), 'Content-Length: must be a number of bytes'],
  }
  for (const [claim, [text, message]] of Object.entries(cases)) {
    test(claim, async () => {
      const raw = await openRaw(hostile.service.port)
      raw.write(text)
      const answer = await raw.readAnswer()
      if (answer === null) expect.fail('no answer')
      expectRefused(answer, 400, 'validation_failed', message)
      await expectClosed(raw)
    })
  }
})

describe('chunks', () => {
  hold({
    'sizes in small letters': { sent: `${chunked}${HEX.toLowerCase()}\r\n${BODY}\r\n0\r\n\r\n`, made: SERVED },
    'sizes in capitals': { sent: `${chunked}${HEX.toUpperCase()}\r\n${BODY}\r\n0\r\n\r\n`, made: SERVED },
    'leading zeros': { sent: `${chunked}${'0'.repeat(40)}${HEX}\r\n${BODY}\r\n000\r\n\r\n`, made: SERVED },
    'one byte each': {
      sent: `${chunked}${Array.from(BODY, (byte) => `1\r\n${byte}\r\n`).join('')}${NOTHING}`,
      made: SERVED,
    },
    'a size in words': { sent: `${chunked}zz\r\n${BODY}\r\n${NOTHING}`, made: REFUSED },
    'a negative size': { sent: `${chunked}-1\r\n${BODY}\r\n${NOTHING}`, made: REFUSED },
    'a size with 0x': { sent: `${chunked}0x${HEX}\r\n${BODY}\r\n${NOTHING}`, made: REFUSED },
    'a size of 2^64 - 1': {
      sent: `${chunked}ffffffffffffffff\r\n${BODY}\r\n${NOTHING}${HIDDEN}`,
      made: { old: REFUSED, now: REFUSED, node: WAITED_FOR },
    },
    'a size of 2^64 and the right one': {
      sent: `${chunked}1${HEX.padStart(16, '0')}\r\n${BODY}\r\n${NOTHING}${HIDDEN}`,
      made: REFUSED,
    },
    'an endless size': { sent: `${chunked}${'f'.repeat(1000)}\r\n${BODY}\r\n${NOTHING}`, made: REFUSED },
    'an extension of 20 KB': { sent: `${chunked}${HEX};${'a'.repeat(20_000)}\r\n${BODY}\r\n${NOTHING}`, made: REFUSED },
  })

  for (const [claim, size] of Object.entries({
    '2^28 - 1': 'fffffff',
    '2^30': '40000000',
    '2^31': '80000000',
    '2^32 and the right one': `1${HEX.padStart(8, '0')}`,
  })) {
    test(`a size of ${claim} is taken as it stands: what follows is its data, until the cap ends it with 413`, async () => {
      const before = hostile.stored()
      const raw = await openRaw(hostile.service.port)
      raw.write(`${chunked}${size}\r\n${BODY}\r\n${NOTHING}${HIDDEN}`)
      raw.write(' '.repeat(524_289))
      expect((await raw.readAnswer())?.status).toBe(413)
      raw.close()
      expect(hostile.stored()).toBe(before)
    })
  }
})

describe('what uWebSockets.js gets wrong in chunks: a proxy before it must be the stricter one, as Node is', () => {
  hold({
    'an extension of hex letters is taken for a part of the size': {
      sent: `${chunked}${HEX};abc\r\n${BODY}\r\n${NOTHING}`,
      made: { old: WAITED_FOR, now: WAITED_FOR, node: SERVED },
    },
    'an extension with a value is taken for a part of the size': {
      sent: `${chunked}${HEX};a=b\r\n${BODY}\r\n0;c="d"\r\n\r\n`,
      made: { old: WAITED_FOR, now: WAITED_FOR, node: SERVED },
    },
    'an extension behind a space is passed over, as it should be': {
      sent: `${chunked}${HEX} ; a=b\r\n${BODY}\r\n${NOTHING}`,
      made: TAKEN,
    },
    'a line feed alone ends a size': { sent: `${chunked}${HEX}\n${BODY}\r\n${NOTHING}`, made: TAKEN },
    'any two bytes stand for the end of a chunk': { sent: `${chunked}${HEX}\r\n${BODY}XX${NOTHING}`, made: TAKEN },
    'a chunk without its end takes two bytes of what follows': {
      sent: `${chunked}${HEX}\r\n${BODY}${NOTHING}`,
      made: TAKEN,
    },
  })

  for (const [claim, size] of Object.entries({ 'an empty size': '', 'a size behind a blank': ' 5' })) {
    test(`${claim}, behind a chunk, is the last chunk: two bytes more, and the next request`, async () => {
      const raw = await openRaw(hostile.service.port)
      raw.write(`${chunked}${HEX}\r\n${BODY}\r\n${size}\r\nXX`)
      expect((await raw.readAnswer())?.status).toBe(onEngine(202, 202, 400))
      if (ENGINE === 'node') return expectClosed(raw)
      raw.write(HIDDEN)
      expect((await raw.readAnswer())?.status).toBe(202)
      raw.close()
    })
  }
})

describe('an empty body in chunks ends the connection, since the engine takes more than a size of zero for the last chunk', () => {
  hold({
    'a size of zero': { sent: [`${chunked}${NOTHING}`, HIDDEN], made: REFUSED },
    'an empty size': { sent: [`${chunked}\r\n\r\n`, HIDDEN], made: REFUSED },
    'an empty size before a body': {
      sent: `${chunked}\r\n${BODY}\r\n${NOTHING}`,
      made: { old: NOT_HTTP, now: REFUSED },
    },
    'a size behind a blank': { sent: [`${chunked} ${HEX}\r\n\r\n`, HIDDEN], made: REFUSED },
    'a size behind a tab': { sent: [`${chunked}\t${HEX}\r\n\r\n`, HIDDEN], made: REFUSED },
    'a blank alone': { sent: [`${chunked} \r\n\r\n`, HIDDEN], made: REFUSED },
    'any two bytes behind such a size': { sent: [`${chunked} ${HEX}\r\nXX`, HIDDEN], made: REFUSED },
  })
})

describe('trailers', () => {
  test('announced: refused with 400, and nothing is stored', async () => {
    const before = hostile.stored()
    const raw = await openRaw(hostile.service.port)
    raw.write(head([JSON_TYPE, CHUNKED, 'Trailer: X-Sum']))
    expect((await raw.readAnswer())?.status).toBe(400)
    await expectClosed(raw)
    expect(hostile.stored()).toBe(before)
  })

  test('not announced: the batch is stored; Node passes over them, and uWebSockets.js takes them for no HTTP: its client hears 505 or nothing', async () => {
    const before = hostile.stored()
    const { statuses, closed } = await hear(hostile.service, [`${chunked}${HEX}\r\n${BODY}\r\n0\r\nX-Sum: 1\r\n\r\n`])
    expect(closed).toBe(ENGINE !== 'node')
    expect(ENGINE === 'node' ? [[202]] : [[], [505]]).toContainEqual(statuses)
    await eventually('it is stored', () => hostile.stored() === before + 1)
  })

  test('a request in the place of trailers is not served', async () => {
    const before = hostile.stored()
    const { statuses, closed } = await hear(hostile.service, [`${chunked}${HEX}\r\n${BODY}\r\n0\r\n${HIDDEN}`])
    expect(closed).toBe(true)
    expect(statuses).toEqual(onEngine([], [], [400]))
    const stored = onEngine(1, 1, 0)
    await eventually('the one before it is stored, or refused', () => hostile.stored() === before + stored)
  })
})

describe('a body that the service does not want is not taken for requests', () => {
  const unwanted: Readonly<Record<string, string>> = {
    'of a GET': head([`Content-Length: ${HIDDEN.length}`], 'GET /api/v1/events HTTP/1.1') + HIDDEN,
    'of another media type': head(['Content-Type: text/plain', `Content-Length: ${HIDDEN.length}`]) + HIDDEN,
    'in chunks of a GET elsewhere': `${head([CHUNKED], 'GET /x HTTP/1.1')}${HIDDEN.length.toString(16)}\r\n${HIDDEN}\r\n${NOTHING}`,
    'one that is too large': head([JSON_TYPE, 'Content-Length: 600000']) + HIDDEN.repeat(100),
  }
  for (const [claim, text] of Object.entries(unwanted)) {
    test(claim, async () => {
      const before = hostile.stored()
      const { statuses } = await hear(hostile.service, [text])
      expect(statuses).toHaveLength(1)
      expect(statuses[0]).toBeGreaterThanOrEqual(400)
      expect(hostile.stored()).toBe(before)
    })
  }
})

describe('a body of no bytes is answered, in however many pieces its head comes', () => {
  for (const encoding of ['identity', 'gzip']) {
    const whole = head([JSON_TYPE, `Content-Encoding: ${encoding}`, 'Content-Length: 0'])
    for (const cut of [whole.length, whole.length - 1, whole.length - 3, 64]) {
      test(`${encoding}, cut after ${cut} of ${whole.length} bytes`, async () => {
        const raw = await openRaw(hostile.service.port)
        raw.write(whole.slice(0, cut))
        await untilRead(hostile.service)
        raw.write(whole.slice(cut))
        const answer = await raw.readAnswer()
        if (answer === null) expect.fail('no answer')
        expectRefused(answer, 400, 'invalid_json')
        raw.close()
      })
    }
  }
})

describe('half-close: the end of the stream right behind', () => {
  test('a whole request: it is stored, and the client hears 202 or nothing', async () => {
    const before = hostile.stored()
    const raw = await openRaw(hostile.service.port)
    raw.socket.end(rawPost(BODY))
    const answer = await raw.readAnswer()
    if (answer !== null) expect(answer.status).toBe(202)
    await eventually('it is stored', () => hostile.stored() === before + 1)
    raw.close()
  })

  test('a whole request in chunks: it is stored, and the client hears 202 or nothing', async () => {
    const before = hostile.stored()
    const raw = await openRaw(hostile.service.port)
    raw.socket.end(chunked + CHUNKS)
    const answer = await raw.readAnswer()
    if (answer !== null) expect(answer.status).toBe(202)
    await eventually('it is stored', () => hostile.stored() === before + 1)
    raw.close()
  })

  for (const [claim, text] of Object.entries({
    'half a body': rawPost(BODY).slice(0, -40),
    'half a head': head([JSON_TYPE]).slice(0, 60),
    'half a chunk': `${chunked}${HEX}\r\n${BODY.slice(0, 40)}`,
    'a request line': 'POST /api/v1/events HTTP/1.1\r\n',
    'nothing at all': '',
  })) {
    test(`${claim}: nothing is stored, and the connection ends`, async () => {
      const before = hostile.stored()
      const raw = await openRaw(hostile.service.port)
      raw.socket.end(text)
      await expectClosed(raw)
      expect(raw.unread()).toBe('')
      expect(hostile.stored()).toBe(before)
      raw.close()
    })
  }
})
