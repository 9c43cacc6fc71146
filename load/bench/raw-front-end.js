// @ts-check
// The ceiling: uWebSockets.js alone, which reads each body, drops it, and answers with the service's headers.

import uWS from 'uWebSockets.js'
import { randomUUID } from 'node:crypto'

const port = Number(process.argv[2])
const resetUnixSeconds = String(Math.ceil(Date.now() / 60_000) * 60)
const batchId = randomUUID()

// The service does not name the engine in its answers either.
/** @type {any} */ const engine = uWS
engine._cfg('silent')

uWS
  .App()
  .post('/*', (response) => {
    response.onAborted(() => {})
    response.onData((_chunk, isLast) => {
      if (!isLast) return
      response.cork(() => {
        response
          .writeStatus('202 Accepted')
          .writeHeader('Content-Type', 'application/json')
          .writeHeader('X-RateLimit-Limit', '1000000000')
          .writeHeader('X-RateLimit-Remaining', '999999999')
          .writeHeader('X-RateLimit-Reset', resetUnixSeconds)
          .writeHeader('X-Batch-Id', batchId)
          .end('{"status":"accepted","events":1}')
      })
    })
  })
  .listen('127.0.0.1', port, (socket) => {
    if (socket) return
    console.error(`cannot listen on ${port}`)
    process.exit(1)
  })
