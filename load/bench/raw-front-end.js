// @ts-check
// What the service is measured against: the HTTP engine alone, which reads each body and answers with the service's headers.
// Usage: node raw-front-end.js PORT [FILE]
// Without FILE it drops the bodies: the ceiling. With FILE it appends them there and answers when they are durable, one synced
// write at a time for all that wait: the floor of a durable service, which checks, counts and remembers nothing.
// Where uWebSockets.js has no binary it is Node's own server, as in the service.

import { randomUUID } from 'node:crypto'
import { fdatasync, openSync, writev } from 'node:fs'
import { createServer } from 'node:http'

const port = Number(process.argv[2])
const file = process.argv[3]
/** One writev takes at most 1,024 buffers (IOV_MAX). */
const MOST_IN_A_WRITE = 1023
const ANSWER = '{"status":"accepted","events":1}'
const HEADERS = /** @type {const} */ ([
  ['Content-Type', 'application/json'],
  ['X-RateLimit-Limit', '1000000000'],
  ['X-RateLimit-Remaining', '999999999'],
  ['X-RateLimit-Reset', String(Math.ceil(Date.now() / 60_000) * 60)],
  ['X-Batch-Id', randomUUID()],
])

/** @typedef {(body: Buffer, answer: () => void) => void} Keep */

/** @type {Keep} */
const keep = file === undefined ? (_body, answer) => answer() : keepIn(openSync(file, 'a'))
/** @type {any} */ const engine = await import('uWebSockets.js').then(
  (loaded) => loaded.default,
  () => null,
)
if (engine === null) listenOnNode()
else listenOnEngine()

/** @param {number} fd @returns {Keep} */
function keepIn(fd) {
  /** @type {Buffer[]} */ let bodies = []
  /** @type {(() => void)[]} */ let answers = []
  let isWriting = false
  const write = () => {
    isWriting = bodies.length > 0
    if (!isWriting) return
    const lines = bodies.slice(0, MOST_IN_A_WRITE)
    const done = answers.slice(0, MOST_IN_A_WRITE)
    bodies = bodies.slice(MOST_IN_A_WRITE)
    answers = answers.slice(MOST_IN_A_WRITE)
    writev(fd, lines, (failed) => {
      if (failed) throw failed
      fdatasync(fd, (notSynced) => {
        if (notSynced) throw notSynced
        write()
        for (const answer of done) answer()
      })
    })
  }
  return (body, answer) => {
    bodies.push(body)
    answers.push(answer)
    if (isWriting) return
    isWriting = true
    // What came in the same turn of the event loop is written with it.
    setImmediate(write)
  }
}

function listenOnNode() {
  const server = createServer((request, response) => {
    /** @type {Buffer[]} */ const pieces = []
    if (file === undefined) request.resume()
    else request.on('data', (piece) => pieces.push(piece))
    request.on('end', () => {
      keep(Buffer.concat(pieces), () => response.writeHead(202, Object.fromEntries(HEADERS)).end(ANSWER))
    })
  })
  server.listen(port, '127.0.0.1')
}

function listenOnEngine() {
  // The service does not name the engine in its answers either.
  engine._cfg('silent')
  engine
    .App()
    .post('/*', (/** @type {import('uWebSockets.js').HttpResponse} */ response) => {
      /** @type {Buffer[]} */ const pieces = []
      let isGone = false
      response.onAborted(() => {
        isGone = true
      })
      response.onData((piece, isLast) => {
        // The engine takes the piece's memory back after this call.
        if (file !== undefined) pieces.push(Buffer.from(new Uint8Array(piece)))
        if (isLast) keep(pieces.length === 1 ? pieces[0] : Buffer.concat(pieces), () => isGone || answer(response))
      })
    })
    .listen('127.0.0.1', port, (/** @type {unknown} */ socket) => {
      if (socket) return
      console.error(`cannot listen on ${port}`)
      process.exit(1)
    })
}

/** @param {import('uWebSockets.js').HttpResponse} response */
function answer(response) {
  response.cork(() => {
    response.writeStatus('202 Accepted')
    for (const [name, value] of HEADERS) response.writeHeader(name, value)
    response.end(ANSWER)
  })
}
