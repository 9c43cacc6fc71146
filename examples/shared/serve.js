// The HTTP server of the examples that listen. Connections, time and the memory for bodies have bounds, and no client that
// is slow or sends half of a request makes another wait: of what waits for its client, the oldest gives way.

import { createServer } from 'node:http'

const TIMEOUTS_MS = { headersTimeout: 5000, requestTimeout: 30_000, keepAliveTimeout: 8000 }
/** node:http looks for what is over its time each 30 s by default. */
const CHECK_EVERY_MS = 1000
/** For an answer that its client does not read. */
const SILENCE_TIMEOUT_MS = 30_000
const STOP_TIMEOUT_MS = 10_000
/** A body that has brought less than this since its last step has stalled since then. */
const STEP_BYTES = 4096
/** Many clients read no answer before they have sent all. Of a body that is refused, so much is read and thrown away. */
const MAX_DISCARDED_BYTES = 1_048_576

/**
 * @typedef {import('node:http').IncomingMessage} Request
 * @typedef {import('node:net').Socket} Socket
 *
 * @typedef {object} Options
 * @property {string} name               For the log.
 * @property {string} [about]            The end of the line that says where it listens.
 * @property {string} host
 * @property {number} port
 * @property {number} maxConnections
 * @property {number} maxBodyBytes       Of one request.
 * @property {number} maxGatheredBytes   Of all bodies that have not come whole.
 * @property {Partial<typeof TIMEOUTS_MS>} [timeoutsMs]
 * @property {(request: Request, readBody: () => Promise<Buffer | null>) => Promise<{ status: number, headers?: Record<string, string>, text?: string }>} answer
 *   `readBody` resolves to null where the body is too long, and rejects where the client has left.
 * @property {(error: unknown) => void} onFault  The request gets 500.
 */

/** Until SIGINT or SIGTERM: then no more is taken, and what is in progress has 10 s. @param {Options} options */
export function serve({ name, about = '', host, port, answer, onFault, timeoutsMs, ...bounds }) {
  const places = openPlaces(bounds.maxConnections)
  const readBody = openBodies(bounds)
  const timeouts = { ...TIMEOUTS_MS, ...timeoutsMs }
  const server = createServer(
    { ...timeouts, connectionsCheckingInterval: CHECK_EVERY_MS },
    async (request, response) => {
      const { socket } = request
      if (!places.begins(socket)) return
      const { status, headers, text } = await answer(request, async () => {
        places.waits(socket)
        const body = await readBody(request)
        places.goesOn(socket)
        return body
      }).catch((error) => {
        // One whose client has left is no fault.
        if (request.errored === null) onFault(error)
        return { status: 500, headers: {}, text: '' }
      })
      response.writeHead(status, headers).end(text)
      discardRest(request)
      places.waits(socket)
    },
  )
  server.setTimeout(SILENCE_TIMEOUT_MS)
  server.on('connection', (socket) => places.opened(socket))
  server.on('error', (error) => {
    console.error(`${name}: ${error.message}`)
    process.exitCode = 1
  })
  server.listen(port, host, () => {
    const address = /** @type {import('node:net').AddressInfo} */ (server.address())
    console.error(`${name}: listening on http://${host}:${address.port}${about}`)
  })
  const stop = () => {
    server.close()
    setTimeout(() => server.closeAllConnections(), STOP_TIMEOUT_MS).unref()
  }
  for (const end of ['SIGINT', 'SIGTERM']) {
    process.once(end, stop)
    server.once('close', () => process.off(end, stop))
  }
  return server
}

/** @param {number} most */
function openPlaces(most) {
  let open = 0
  /** Those whose client is to send next; the one that has waited longest first. @type {Set<Socket>} */
  const waiting = new Set()
  return {
    /** @param {Socket} socket */
    opened(socket) {
      open += 1
      waiting.add(socket)
      socket.once('close', () => {
        open -= 1
        waiting.delete(socket)
      })
      if (open <= most) return
      const [oldest] = waiting
      waiting.delete(oldest)
      oldest.destroy()
    },
    /** false: its client did not wait for the answer before, or leaves it unread, and is closed. @param {Socket} socket */
    begins(socket) {
      const isNext = waiting.delete(socket) && socket.writableLength === 0
      if (!isNext) socket.destroy()
      return isNext
    },
    /** @param {Socket} socket */
    waits(socket) {
      if (!socket.destroyed) waiting.add(socket)
    },
    /** @param {Socket} socket */
    goesOn(socket) {
      waiting.delete(socket)
    },
  }
}

/** @param {{ maxBodyBytes: number, maxGatheredBytes: number }} bounds */
function openBodies({ maxBodyBytes, maxGatheredBytes }) {
  let gatheredBytes = 0
  /** The memory of each body on its way; the one that has stalled longest first. @type {Map<Socket, Buffer>} */
  const gathering = new Map()

  /** @param {Socket} socket @param {Buffer | undefined} memory */
  function keep(socket, memory) {
    gatheredBytes += (memory?.length ?? 0) - (gathering.get(socket)?.length ?? 0)
    gathering.delete(socket)
    if (memory !== undefined) gathering.set(socket, memory)
  }

  /** @param {Request} request */
  return async function read(request) {
    const { socket } = request
    let memory = Buffer.alloc(0)
    let bytes = 0
    try {
      for await (const piece of request.iterator({ destroyOnReturn: false })) {
        const begin = bytes
        bytes += piece.length
        if (bytes > maxBodyBytes) return null
        if (bytes > memory.length) {
          // In one buffer, since each small piece would keep the memory that it was read into.
          const grown = Buffer.alloc(Math.min(maxBodyBytes, Math.max(bytes, STEP_BYTES, 2 * memory.length)))
          memory.copy(grown, 0, 0, begin)
          memory = grown
        }
        piece.copy(memory, begin)
        if (begin === 0 || Math.floor(bytes / STEP_BYTES) > Math.floor(begin / STEP_BYTES)) keep(socket, memory)
        for (const stalled of gathering.keys()) {
          if (gatheredBytes <= maxGatheredBytes) break
          keep(stalled, undefined)
          stalled.destroy()
        }
      }
      return memory.subarray(0, bytes)
    } finally {
      keep(socket, undefined)
    }
  }
}

/** One that sends without end is closed. @param {Request} request */
function discardRest(request) {
  let bytes = 0
  request.on('data', (piece) => {
    bytes += piece.length
    if (bytes > MAX_DISCARDED_BYTES) request.socket.destroy()
  })
  request.resume()
}
