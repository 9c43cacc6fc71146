// The bytes of an answer of the public port, on the HTTP engine itself. Its text is ASCII today; any other would be right.

import uWS from 'uWebSockets.js'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { listen } from '../../../src/http/uws/listen.ts'
import { send } from '../../../src/http/uws/send.ts'
import { head, openRaw } from '../../support/raw-http.ts'

const TEXTS = { ascii: 'plain', latin1: 'Käufe, é', wide: '日本 €', pair: '😀', large: 'é'.repeat(1_000_000) }

/** More than sockets hold, in answers of 16 KB whose body is short. */
const MOST_UNREAD = 4000
const LONG_HEADERS = `\r\nX-Padding: ${'x'.repeat(16_384)}`

const app = uWS.App()
let port = 0
/** What `send` says of each answer with a short body. */
let onShort = (_isTaken: boolean): void => {}

beforeAll(async () => {
  app.get('/short', (response) => {
    response.onAborted(() => {})
    const reply = { status: '200 OK', contentType: 'text/plain', headers: LONG_HEADERS, body: 'ok' }
    setImmediate(() => onShort(send(response, { ...reply, withoutBody: false, thenClose: false })))
  })
  app.any('/:name', (response, request) => {
    response.onAborted(() => {})
    const body = TEXTS[request.getParameter(0) as keyof typeof TEXTS]
    const withoutBody = request.getCaseSensitiveMethod() === 'HEAD'
    const thenClose = withoutBody || request.getHeader('connection') === 'close'
    const reply = { status: '200 OK', contentType: 'text/plain', headers: '', body, withoutBody, thenClose }
    // As on the port: one that ends its connection is never sent inside the engine's callback.
    setImmediate(() => send(response, reply))
  })
  port = (await listen(app, { host: '127.0.0.1', port: 0, settings: 'HOST and PORT' })).port
})
afterAll(() => void app.close())

for (const [name, text] of Object.entries(TEXTS)) {
  test.each(['GET', 'HEAD'])(`%s: text (${name}) is UTF-8, and as long as its head says`, async (method) => {
    for (const lines of [[], ['Connection: close']]) {
      const raw = await openRaw(port)
      raw.write(head(lines, `${method} /${name} HTTP/1.1`))
      const answer = await raw.readAnswer({ head: method === 'HEAD', timeoutMs: 3000 })
      expect(answer?.headers['content-length']).toBe(String(Buffer.byteLength(text)))
      expect(answer?.text === (method === 'HEAD' ? '' : text)).toBe(true)
      raw.close()
    }
  })
}

test('a client that reads none of its short answers is found out, though not each of them is looked at', async () => {
  const raw = await openRaw(port)
  raw.socket.pause()
  let sent = 0
  for (let isTaken = true; isTaken && sent < MOST_UNREAD; sent++) {
    const answered = new Promise<boolean>((done) => (onShort = done))
    raw.write(head([], 'GET /short HTTP/1.1'))
    isTaken = await answered
  }
  expect(sent).toBeLessThan(MOST_UNREAD)
  raw.close()
})
