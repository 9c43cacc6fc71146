// Bytes that no honest client sends. After each of them the next request is served as if nothing had been.

import { once } from 'node:events'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import {
  type Answer,
  event,
  expectAccepted,
  expectRefused,
  expectSound,
  get,
  MARK,
  post,
  single,
} from '../support/client.ts'
import { readJournal } from '../support/journal-files.ts'
import { head, openRaw, rawPost } from '../support/raw-http.ts'
import { appRecord, makeFolder, removeFolder, type Service, sleep, startService } from '../support/service.ts'

let folder: string
let service: Service

beforeAll(async () => {
  folder = await makeFolder()
  service = await startService({ dataDir: folder, apps: [appRecord('plain')] })
})

afterEach(async () => {
  expectAccepted(await post(service, single('ak_plain')), 1)
})

afterAll(async () => {
  await service?.kill()
  await removeFolder(folder)
})

const JSON_TYPE = 'Content-Type: application/json'
const EVENT = JSON.stringify(event())

describe('bodies', () => {
  const notJson: Record<string, string | Uint8Array> = {
    '100,000 arrays': '['.repeat(100_000),
    '100,000 arrays, closed': `{"app_key":"ak_plain","events":${'['.repeat(100_000)}${']'.repeat(100_000)}}`,
    '100,000 objects': '{"a":'.repeat(100_000),
    '100,000 levels in a property': `{"app_key":"ak_plain","events":[${EVENT.slice(0, -1)},"properties":{"a":${'[{"a":'.repeat(50_000)}`,
    'half a megabyte of NULs': new Uint8Array(500_000),
    'half a megabyte of quotes': '"'.repeat(500_001),
    'half a megabyte of backslashes': `"${'\\'.repeat(500_001)}`,
    'half a megabyte of 0xFF': new Uint8Array(500_000).fill(255),
    'a string that never ends': `{"app_key":"${'a'.repeat(400_000)}`,
    'a number that never ends': `{"app_key":${'1'.repeat(400_000)}`,
    'a long body torn in its last byte': single('ak_plain', { x: 'y'.repeat(100_000) }).slice(0, -1),
    'a body torn inside a UTF-8 letter': Buffer.from(single('ak_plain', { name: 'é' })).subarray(0, 46),
  }
  for (const [claim, body] of Object.entries(notJson)) {
    test(`${claim}: not JSON`, async () => {
      expectRefused(await post(service, body), 400, 'invalid_json')
    })
  }

  const misfits: Record<string, string> = {
    '__proto__ as the body': '{"__proto__":{"app_key":"ak_plain","events":[]}}',
    '__proto__ as an event': '{"app_key":"ak_plain","events":[{"__proto__":{"type":"track"}}]}',
    '__proto__ brings no os': `{"app_key":"ak_plain","events":[${JSON.stringify(event({ context: undefined })).slice(0, -1)},"context":{"__proto__":{"os":"ios"}}}]}`,
    'constructor as app_key': '{"app_key":{"constructor":1},"events":[]}',
    '200,000 events that are numbers': `{"app_key":"ak_plain","events":[${'1,'.repeat(200_000)}1]}`,
    '100,000 properties': `{"app_key":"ak_plain","events":[${EVENT.slice(0, -1)},"properties":{${Array.from({ length: 40_000 }, (_, i) => `"${i}":1`).join(',')}}}]}`,
  }
  for (const [claim, body] of Object.entries(misfits)) {
    test(`${claim}: does not fit`, async () => {
      expectRefused(await post(service, body), 400, 'validation_failed')
    })
  }

  for (const key of [
    'ak___proto__',
    'ak_constructor',
    'ak_toString',
    `ak_${'x'.repeat(400_000)}`,
    'ak_\u0000',
    'ak_*',
    'ak_é',
  ]) {
    test(`the app key ${key.slice(0, 20)} is unknown`, async () => {
      expectRefused(await post(service, single(key)), 401, 'invalid_app_key')
    })
  }

  for (const key of ['__proto__', 'constructor', 'hasOwnProperty', 'toString']) {
    test(`the bare key ${key} is unknown`, async () => {
      expectRefused(await post(service, single(key)), 401, 'invalid_app_key')
    })
  }

  test('an escaped spelling of a known key is that key', async () => {
    expectAccepted(await post(service, single('ak_plain').replace('ak_plain', '\\u0061k_pl\\u0061in')), 1)
  })

  test('many unknown members are many, and are kept', async () => {
    const more = Array.from({ length: 20_000 }, (_, i) => `"k${i}":${i}`).join(',')
    expectAccepted(await post(service, `{"app_key":"ak_plain",${more},"events":[${EVENT}]}`), 1)
  })
})

describe('what HTTP does not allow is refused, and nothing of it is queued', () => {
  const marked = single('ak_plain', { name: MARK })
  const smuggled = rawPost(marked)
  const cases: Record<string, string> = {
    'two lengths that differ': head([JSON_TYPE, `Content-Length: ${marked.length}`, 'Content-Length: 5']) + marked,
    'two lengths that agree':
      head([JSON_TYPE, `Content-Length: ${marked.length}`, `Content-Length: ${marked.length}`]) + marked,
    'a list of lengths': head([JSON_TYPE, `Content-Length: ${marked.length}, ${marked.length}`]) + marked,
    'a length and chunks': `${head([JSON_TYPE, `Content-Length: ${marked.length}`, 'Transfer-Encoding: chunked'])}${marked.length.toString(16)}\r\n${marked}\r\n0\r\n\r\n`,
    'chunks and a length, a request hidden behind': `${head([JSON_TYPE, 'Transfer-Encoding: chunked', 'Content-Length: 5'])}0\r\n\r\n${smuggled}`,
    'a negative length': head([JSON_TYPE, 'Content-Length: -5']) + marked,
    'a length in words': head([JSON_TYPE, 'Content-Length: ten']) + marked,
    'a length with a plus': head([JSON_TYPE, `Content-Length: +${marked.length}`]) + marked,
    'a length in hex': head([JSON_TYPE, `Content-Length: 0x${marked.length.toString(16)}`]) + marked,
    'a chunk size in words': `${head([JSON_TYPE, 'Transfer-Encoding: chunked'])}zz\r\n${marked}\r\n0\r\n\r\n`,
    'an endless chunk size': `${head([JSON_TYPE, 'Transfer-Encoding: chunked'])}ffffffffffffffffff\r\n${marked}\r\n0\r\n\r\n`,
    'a space before the colon': head([JSON_TYPE, `Content-Length : ${marked.length}`]) + marked,
    'an unknown transfer encoding': `${head([JSON_TYPE, 'Transfer-Encoding: xchunked'])}${marked}`,
    'a garbage line': `${MARK}\r\n\r\n`,
    'binary garbage': `\u0000\u0001\u0002\u00ff\r\n\r\n`,
    'no version': `POST /api/v1/events\r\n\r\n${marked}`,
    'a strange version': head([JSON_TYPE, `Content-Length: ${marked.length}`], 'POST /api/v1/events HTTP/9.9') + marked,
    'a header without a colon': head([JSON_TYPE, MARK, `Content-Length: ${marked.length}`]) + marked,
    'a megabyte of headers':
      head([`X-Long: ${'x'.repeat(1_048_576)}`, JSON_TYPE, `Content-Length: ${marked.length}`]) + marked,
    'ten thousand headers': head(Array.from({ length: 10_000 }, (_, i) => `X-${i}: 1`)),
    'a megabyte of path': `POST /${'x'.repeat(1_048_576)} HTTP/1.1\r\nHost: x\r\n\r\n`,
  }
  for (const [claim, text] of Object.entries(cases)) {
    test(claim, async () => {
      const stored = readJournal(folder).length
      const raw = await openRaw(service.port)
      raw.write(Buffer.from(text, 'latin1'))
      const answer = await Promise.race([raw.readAnswer().catch(() => null), sleep(2_000).then(() => null)])
      if (answer) {
        expect(answer.status).toBeGreaterThanOrEqual(400)
        expect(answer.status).toBeLessThan(600)
        expect(answer.whole).not.toContain(MARK)
      }
      raw.close()
      expect(readJournal(folder).length).toBe(stored)
    })
  }

  for (const claim of ['two lengths that differ', 'two lengths that agree'] as const) {
    test(`${claim} are answered with 400`, async () => {
      const raw = await openRaw(service.port)
      raw.write(cases[claim])
      expect((await raw.readAnswer())?.status).toBe(400)
      raw.close()
    })
  }
})

describe('where nobody can be sure where a body ends, it is refused and the connection closes', () => {
  const body = single('ak_plain', { name: MARK })
  const chunks = `${body.length.toString(16)}\r\n${body}\r\n0\r\n`
  const cases: Record<string, string> = {
    'a coding besides chunks': `${head([JSON_TYPE, 'Transfer-Encoding: gzip, chunked'])}${chunks}\r\n`,
    'a trailer announced': `${head([JSON_TYPE, 'Transfer-Encoding: chunked', 'Trailer: X-Sum'])}${chunks}X-Sum: 1\r\n\r\n`,
    'a trailer announced for a body with a length': rawPost(body, ['Trailer: X-Sum']),
  }
  for (const [claim, text] of Object.entries(cases)) {
    test(claim, async () => {
      const stored = readJournal(folder).length
      const raw = await openRaw(service.port)
      // The head by itself: of what comes in one piece with it, the HTTP library reads on.
      const bodyAt = text.indexOf('\r\n\r\n') + 4
      raw.write(text.slice(0, bodyAt))
      await sleep(30)
      raw.write(text.slice(bodyAt) + rawPost(body))
      const answer = await raw.readAnswer()
      if (answer === null) expect.fail('no answer')
      expectRefused(answer, 400, 'validation_failed')
      await Promise.race([raw.closed, sleep(5_000).then(() => expect.fail('the connection stayed open'))])
      expect(raw.unread()).toBe('')
      expect(readJournal(folder).length).toBe(stored)
    })
  }
})

describe('connections', () => {
  test('a TLS hello on the plain port is turned away', async () => {
    const raw = await openRaw(service.port)
    raw.write(Buffer.from('16030100c8010000c40303', 'hex'))
    raw.write(Buffer.alloc(200, 0x5a))
    await Promise.race([raw.closed, sleep(1_000)])
    raw.close()
  })

  test('a client that says nothing, and one that leaves at once, harm nobody', async () => {
    const silent = await openRaw(service.port)
    for (let i = 0; i < 50; i++) (await openRaw(service.port)).close()
    silent.close()
  })

  test('clients that vanish in the middle of a body leave nothing behind', async () => {
    const stored = readJournal(folder).length
    for (let i = 0; i < 100; i++) {
      const raw = await openRaw(service.port)
      raw.write(head([JSON_TYPE, 'Content-Length: 400000']) + 'x'.repeat(100 * i))
      if (i % 2 === 0) raw.socket.resetAndDestroy()
      else raw.close()
    }
    await sleep(200)
    expect(readJournal(folder).length).toBe(stored)
  })

  test('clients that vanish while their answer is on its way harm nobody', async () => {
    for (let i = 0; i < 100; i++) {
      const raw = await openRaw(service.port)
      raw.write(rawPost(single('ak_plain')))
      if (i % 3 === 0) await sleep(1)
      raw.socket.resetAndDestroy()
    }
    await sleep(200)
    readJournal(folder)
  })

  test('a half-closed connection is served or closed, and nothing is left over', async () => {
    const raw = await openRaw(service.port)
    raw.write(rawPost(single('ak_plain')))
    raw.socket.end()
    const answer = await raw.readAnswer()
    if (answer) expectAccepted(answer, 1)
    raw.close()
  })

  test('many requests follow each other on one connection', async () => {
    const raw = await openRaw(service.port)
    for (let i = 0; i < 50; i++) {
      if (i % 5 === 4) {
        raw.write(rawPost('{'))
        expectRefused((await raw.readAnswer()) as Answer, 400, 'invalid_json')
      } else {
        raw.write(rawPost(single('ak_plain')))
        expectAccepted((await raw.readAnswer()) as Answer, 1)
      }
    }
    raw.close()
  })

  test('a refused body that was fully sent leaves the connection in step, or closed', async () => {
    const raw = await openRaw(service.port)
    const body = single('ak_plain')
    raw.write(head(['Content-Type: text/plain', `Content-Length: ${body.length}`]) + body)
    expectRefused((await raw.readAnswer()) as Answer, 415, 'unsupported_media_type')
    await sleep(50)
    raw.write(rawPost(single('ak_plain')))
    const next = await raw.readAnswer()
    if (next) expectAccepted(next, 1)
    raw.close()
  })

  test('requests sent ahead of their answers are answered in order or not at all, never twice, never mixed up', async () => {
    const raw = await openRaw(service.port)
    const stored = readJournal(folder).length
    raw.write(rawPost(single('ak_plain')) + rawPost('{') + rawPost(single('ak_plain')) + rawPost('{"events":[]}'))
    const answers: Answer[] = []
    for (let i = 0; i < 4; i++) {
      const answer = await Promise.race([raw.readAnswer(), sleep(1_000).then(() => null)])
      if (!answer) break
      answers.push(answer)
    }
    for (const answer of answers) expectSound(answer)
    expect(answers.map((answer) => answer.status)).toEqual([202, 400, 202, 400].slice(0, answers.length))
    await sleep(100)
    const accepted = answers.filter((answer) => answer.status === 202).length
    const records = readJournal(folder).length - stored
    expect(records).toBeGreaterThanOrEqual(accepted)
    expect(records).toBeLessThanOrEqual(2)
    if (answers.length < 4) await raw.closed
    raw.close()
  })

  test('HTTP/1.0 is served or refused, and the connection ends', async () => {
    const body = single('ak_plain')
    const raw = await openRaw(service.port)
    raw.write(head([JSON_TYPE, `Content-Length: ${body.length}`], 'POST /api/v1/events HTTP/1.0') + body)
    const answer = await raw.readAnswer()
    if (answer && answer.status !== 202) expect(answer.status).toBeGreaterThanOrEqual(400)
    raw.close()
  })

  test('Connection: close is kept', async () => {
    const raw = await openRaw(service.port)
    const ended = once(raw.socket, 'close')
    raw.write(rawPost(single('ak_plain'), ['Connection: close']))
    expectAccepted((await raw.readAnswer()) as Answer, 1)
    await Promise.race([ended, sleep(5_000).then(() => expect.fail('the connection stayed open'))])
  })
})

test('after all of it nothing is left in hand', async () => {
  const text = (await get(service.adminPort, '/metrics')).text
  expect(text).toMatch(/^sluice_ring_requests 0$/m)
  expect(text).toMatch(/^sluice_ring_used_bytes 0$/m)
  expect(text).toMatch(/^sluice_parser_queue 0$/m)
})
