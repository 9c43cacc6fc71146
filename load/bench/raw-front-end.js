// @ts-check
// The ceiling: the HTTP engine alone, which reads each body, drops it, and answers with the service's headers. Where uWebSockets.js
// has no binary it is Node's own server, as in the service.

import { randomUUID } from 'node:crypto'
import { createServer } from 'node:http'

const port = Number(process.argv[2])
const ANSWER = '{"status":"accepted","events":1}'
const HEADERS = /** @type {const} */ ([
  ['Content-Type', 'application/json'],
  ['X-RateLimit-Limit', '1000000000'],
  ['X-RateLimit-Remaining', '999999999'],
  ['X-RateLimit-Reset', String(Math.ceil(Date.now() / 60_000) * 60)],
  ['X-Batch-Id', randomUUID()],
])

/** @type {any} */ const engine = await import('uWebSockets.js').then(
  (loaded) => loaded.default,
  () => null,
)
if (engine === null) listenOnNode()
else listenOnEngine()

function listenOnNode() {
  const server = createServer((request, response) => {
    request.on('end', () => response.writeHead(202, Object.fromEntries(HEADERS)).end(ANSWER)).resume()
  })
  server.listen(port, '127.0.0.1')
}

function listenOnEngine() {
  // The service does not name the engine in its answers either.
  engine._cfg('silent')
  engine
    .App()
    .post('/*', (/** @type {import('uWebSockets.js').HttpResponse} */ response) => {
      response.onAborted(() => {})
      response.onData((_chunk, isLast) => {
        if (!isLast) return
        response.cork(() => {
          response.writeStatus('202 Accepted')
          for (const [name, value] of HEADERS) response.writeHeader(name, value)
          response.end(ANSWER)
        })
      })
    })
    .listen('127.0.0.1', port, (/** @type {unknown} */ socket) => {
      if (socket) return
      console.error(`cannot listen on ${port}`)
      process.exit(1)
    })
}
