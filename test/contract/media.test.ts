// Media types, content encodings and the size of bodies: declared, streamed and unpacked.

import { brotliCompressSync, constants, deflateRawSync, deflateSync, gzipSync } from 'node:zlib'
import { test as base, describe, expect } from 'vitest'
import {
  type Answer,
  batch,
  bodyOfSize,
  expectAccepted,
  expectRefused,
  MARK,
  MAX_BODY_BYTES,
  post,
  send,
  single,
} from '../support/client.ts'
import { aService } from '../support/fixture.ts'
import { untilRead } from '../support/hostile.ts'
import { memberText, readJournal } from '../support/journal-files.ts'
import { head, openRaw, type RawConnection, rawPost } from '../support/raw-http.ts'
import { appRecord, type Service } from '../support/service.ts'

const test = base.extend('service', { scope: 'file' }, aService({ apps: [appRecord('plain')] }))

describe('Content-Type', () => {
  const accepted = [
    'application/json',
    'Application/JSON',
    'APPLICATION/JSON; charset=utf-8',
    'application/json;charset=UTF-8',
    'application/json; charset="utf-8"',
    'application/json ; charset=Utf-8',
    'application/json; Charset=utf-8; version=3',
    'application/json; version=3',
    'application/json; charset=utf8',
    'application/json; profile="a;b"',
  ]
  for (const type of accepted) {
    test(`${type} is JSON`, async ({ service }) => {
      expectAccepted(await post(service, single('ak_plain'), { 'Content-Type': type }), 1)
    })
  }

  const refused = [
    '(none)',
    'text/json',
    'application/jsonp',
    'application/json-seq',
    'application/vnd.api+json',
    'application/x-www-form-urlencoded',
    'application/json; charset=latin1',
    'application/json; charset=utf-16',
    'application/json; charset=iso-8859-1',
    'application/json; version=3; CHARSET="UTF-16"',
    'application/json, text/plain',
  ]
  for (const type of refused) {
    test(`${type} is refused`, async ({ service }) => {
      const answer = await post(service, single('ak_plain'), { 'Content-Type': type })
      const isCharset = /json;.*charset=/i.test(type)
      const message = isCharset ? 'charset must be utf-8' : 'must be application/json, in UTF-8'
      expectRefused(answer, 415, 'unsupported_media_type', `Content-Type: ${message}`)
    })
  }
})

const PACK: Record<string, (text: string | Buffer) => Uint8Array> = {
  gzip: (text) => gzipSync(text),
  deflate: (text) => deflateSync(text),
  br: (text) => brotliCompressSync(text, { params: { [constants.BROTLI_PARAM_QUALITY]: 4 } }),
}

/** What the bytes are, what their header says, and what the answer says of it. */
const MISNAMED = [
  ['gzip', null, 'body: compressed with gzip, which Content-Encoding does not say'],
  ['deflate', null, 'body: compressed with deflate, which Content-Encoding does not say'],
  ['gzip', 'identity', 'body: compressed with gzip, which Content-Encoding does not say'],
  ['gzip in gzip', 'gzip', 'body: compressed with gzip, which Content-Encoding does not say'],
  ['nothing', 'gzip', 'body: cannot be decoded as gzip: it is not compressed'],
  ['nothing', 'deflate', 'body: cannot be decoded as deflate: it is not compressed'],
  ['nothing', 'br', 'body: cannot be decoded as br: it is not compressed'],
  ['deflate', 'gzip', 'body: cannot be decoded as gzip: it is compressed with deflate'],
  ['gzip', 'deflate', 'body: cannot be decoded as deflate: it is compressed with gzip'],
] as const

describe('Content-Encoding', () => {
  test.for(MISNAMED)(
    'a body with %s, said to have %s, is told what it is',
    async ([packed, said, message], { service }) => {
      const text = single('ak_plain')
      const bodies = {
        gzip: gzipSync(text),
        deflate: deflateSync(text),
        'gzip in gzip': gzipSync(gzipSync(text)),
        nothing: text,
      }
      const answer = await post(service, bodies[packed], said === null ? {} : { 'Content-Encoding': said })
      expectRefused(answer, 400, 'invalid_json', message)
    },
  )

  test('a gzip body of several members, one behind the other, is one body', async ({ service }) => {
    const text = single('ak_plain')
    const members = [text.slice(0, 40), text.slice(40, 90), text.slice(90)].map((part) => gzipSync(part))
    expectAccepted(await post(service, Buffer.concat(members), { 'Content-Encoding': 'gzip' }), 1)
  })

  for (const [encoding, pack] of Object.entries(PACK)) {
    test(`a ${encoding} body is unpacked and queued unpacked`, async ({ service }) => {
      const text = batch('ak_plain', 20)
      const answer = await post(service, pack(text), { 'Content-Encoding': encoding })
      const batchId = expectAccepted(answer, 20)
      const record = readJournal(service.dataDir).find((one) => one.batch_id === batchId)
      expect(memberText(record?.line ?? '{}', 'events')).toBe(JSON.stringify(JSON.parse(text).events))
    })

    test(`a ${encoding} body cut short is not JSON`, async ({ service }) => {
      const packed = pack(batch('ak_plain', 20))
      const cut = packed.subarray(0, packed.length - 6)
      expectRefused(await post(service, cut, { 'Content-Encoding': encoding }), 400, 'invalid_json')
    })

    test(`garbage called ${encoding} is not JSON`, async ({ service }) => {
      const answer = await post(service, `\u0001${MARK}${'?'.repeat(300)}`, { 'Content-Encoding': encoding })
      expectRefused(answer, 400, 'invalid_json')
    })

    test(`an empty body called ${encoding} is not JSON`, async ({ service }) => {
      expectRefused(await post(service, '', { 'Content-Encoding': encoding }), 400, 'invalid_json')
    })

    test(`a ${encoding} body may unpack to exactly the cap, and no further`, async ({ service }) => {
      const headers = { 'Content-Encoding': encoding }
      expectAccepted(await post(service, pack(bodyOfSize('ak_plain', MAX_BODY_BYTES)), headers), 1)
      const over = await post(service, pack(bodyOfSize('ak_plain', MAX_BODY_BYTES + 1)), headers)
      expectRefused(over, 413, 'payload_too_large')
    })

    test(`a ${encoding} bomb is too large, however small it is packed`, async ({ service }) => {
      const bomb = pack(Buffer.alloc(100 * 1024 * 1024, 32))
      expect(bomb.length).toBeLessThan(MAX_BODY_BYTES)
      expectRefused(await post(service, bomb, { 'Content-Encoding': encoding }), 413, 'payload_too_large')
    })
  }

  test('identity, and any letter case, is understood', async ({ service }) => {
    expectAccepted(await post(service, single('ak_plain'), { 'Content-Encoding': 'identity' }), 1)
    expectAccepted(await post(service, gzipSync(single('ak_plain')), { 'Content-Encoding': 'GZIP' }), 1)
  })

  for (const encoding of ['zstd', 'compress', 'x', 'gzip, gzip', 'gzip;q=1', 'utf-8', MARK]) {
    test(`the encoding ${encoding} is refused`, async ({ service }) => {
      const answer = await post(service, gzipSync(single('ak_plain')), { 'Content-Encoding': encoding })
      const message = 'Content-Encoding: must be identity, gzip, deflate or br'
      expectRefused(answer, 415, 'unsupported_media_type', message)
    })
  }

  for (const [encoding, pack] of Object.entries({ ...PACK, 'raw deflate': (text: string) => deflateRawSync(text) })) {
    test(`bytes after the end of a ${encoding} body are refused`, async ({ service }) => {
      const headers = { 'Content-Encoding': encoding.replace('raw ', '') }
      for (const rest of [MARK, '\n', '\0', '\0\0\0\0']) {
        const answer = await post(service, Buffer.concat([pack(single('ak_plain')), Buffer.from(rest)]), headers)
        expectRefused(answer, 400, 'invalid_json')
      }
      expect(readJournal(service.dataDir).every((record) => !record.line.includes(MARK))).toBe(true)
    })
  }

  test('deflate without its zlib wrapper is either understood or refused cleanly', async ({ service }) => {
    const answer = await post(service, deflateRawSync(single('ak_plain')), { 'Content-Encoding': 'deflate' })
    if (answer.status === 202) expectAccepted(answer, 1)
    else expectRefused(answer, 400, 'invalid_json')
  })
})

describe('size', () => {
  test('a declared length over the cap is answered before the body is sent', async ({ service }) => {
    const raw = await openRaw(service.port)
    raw.write(head(['Content-Type: application/json', `Content-Length: ${MAX_BODY_BYTES + 1}`]))
    expectRefused((await raw.readAnswer()) as Answer, 413, 'payload_too_large')
    raw.close()
  })

  test('a huge declared length is answered too', async ({ service }) => {
    const raw = await openRaw(service.port)
    raw.write(head(['Content-Type: application/json', 'Content-Length: 999999999999']))
    const answer = (await raw.readAnswer()) as Answer
    expectRefused(answer, 413, 'payload_too_large')
    raw.close()
  })

  test('a media type is refused before the body is sent', async ({ service }) => {
    const raw = await openRaw(service.port)
    raw.write(head(['Content-Type: text/plain', 'Content-Length: 100']))
    expectRefused((await raw.readAnswer()) as Answer, 415, 'unsupported_media_type')
    raw.close()
  })

  test('a chunked body under the cap is accepted, in one chunk or in many', async ({ service }) => {
    expectAccepted(await send(service, { body: batch('ak_plain', 5), chunked: true }), 5)
    const raw = await openRaw(service.port)
    await sendInChunks(service, raw, bodyOfSize('ak_plain', 3000), 100)
    expectAccepted((await raw.readAnswer()) as Answer, 1)
    raw.close()
  })

  test('a chunked body of exactly the cap is accepted', async ({ service }) => {
    const body = bodyOfSize('ak_plain', MAX_BODY_BYTES)
    expectAccepted(await send(service, { body, chunked: true }), 1)
  })

  test('a chunked body one byte over the cap is too large', async ({ service }) => {
    const body = bodyOfSize('ak_plain', MAX_BODY_BYTES + 1)
    expectRefused(await send(service, { body, chunked: true }), 413, 'payload_too_large')
  })

  test('a chunked body without end is answered once it has passed the cap', async ({ service }) => {
    const raw = await openRaw(service.port)
    raw.write(head(['Content-Type: application/json', 'Transfer-Encoding: chunked']))
    const chunk = `10000\r\n${'y'.repeat(65_536)}\r\n`
    for (let sent = 0; sent < 12; sent++) raw.write(chunk)
    expectRefused((await raw.readAnswer()) as Answer, 413, 'payload_too_large')
    raw.close()
  })

  test('a client that asks first is told to go on', async ({ service }) => {
    const body = single('ak_plain')
    const raw = await openRaw(service.port)
    const length = `Content-Length: ${body.length}`
    raw.write(head(['Content-Type: application/json', length, 'Expect: 100-continue']))
    const first = (await raw.readAnswer()) as Answer
    expect(first.status).toBe(100)
    raw.write(body)
    expectAccepted((await raw.readAnswer()) as Answer, 1)
    raw.close()
  })

  test('a client that asks first is refused too large a body before it sends it', async ({ service }) => {
    const raw = await openRaw(service.port)
    const length = `Content-Length: ${MAX_BODY_BYTES + 1}`
    raw.write(head(['Content-Type: application/json', length, 'Expect: 100-continue']))
    let answer = (await raw.readAnswer()) as Answer
    if (answer.status === 100) answer = (await raw.readAnswer()) as Answer
    expectRefused(answer, 413, 'payload_too_large')
    raw.close()
  })

  test('headers and body sent byte by byte are one request', async ({ service }) => {
    const body = single('ak_plain')
    const raw = await openRaw(service.port)
    const start = head(['Content-Type: application/json', `Content-Length: ${body.length}`])
    const lineEnd = start.indexOf('\n') + 1
    raw.write(start.slice(0, lineEnd))
    for (const char of start.slice(lineEnd) + body) {
      raw.write(char)
      if (char === '\n' || char === ',' || char === ':') await untilRead(service)
    }
    expectAccepted((await raw.readAnswer()) as Answer, 1)
    raw.close()
  })

  // uWebSockets.js on Node 20 wants the request line in one piece: it takes half a version for another one.
  test('a request line in two pieces is served, or refused and its connection closed', async ({ service }) => {
    const text = rawPost(single('ak_plain'))
    const cuts = Array.from({ length: text.indexOf('\r\n') + 2 }, (_, index) => index + 1)
    for (const cut of cuts) {
      const raw = await openRaw(service.port)
      raw.write(text.slice(0, cut))
      await untilRead(service)
      raw.write(text.slice(cut))
      const answer = await raw.readAnswer()
      expect([202, 400, 505]).toContain(answer?.status)
      if (answer?.status !== 202) await raw.closed
      raw.close()
    }
    expectAccepted(await post(service, single('ak_plain')), 1)
  })
})

async function sendInChunks(service: Service, raw: RawConnection, body: string, size: number): Promise<void> {
  raw.write(head(['Content-Type: application/json', 'Transfer-Encoding: chunked']))
  for (let at = 0; at < body.length; at += size) {
    const piece = body.slice(at, at + size)
    raw.write(`${piece.length.toString(16)}\r\n${piece}\r\n`)
    await untilRead(service)
  }
  raw.write('0\r\n\r\n')
}
