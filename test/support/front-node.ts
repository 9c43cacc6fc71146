// Stands in for a node behind a balancer: never closes a connection, notes what reaches it, and breaks the connection
// of a request that asks for it.

import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

export interface Arrival {
  readonly headers: IncomingHttpHeaders
  readonly body: string
  /** How long its connection had been silent; null: it was new. */
  readonly silentMs: number | null
}

export interface FrontNode {
  readonly port: number
  /** Every POST. */
  readonly arrivals: readonly Arrival[]
  /** POSTs whose head has come. */
  begun(): number
  stop(): Promise<void>
}

/** A request with this header, whatever its value, gets no answer the first time: its connection is closed. */
export const BREAK = 'x-break'

/** `broken`: the values of that header that were seen, for nodes that share them. */
export function startFrontNode(broken: Set<string>): Promise<FrontNode> {
  const arrivals: Arrival[] = []
  const answeredAtMs = new WeakMap<Socket, number>()
  let begun = 0
  const server = createServer((request, response) => {
    if (request.method === 'POST') begun += 1
    const { socket, headers } = request
    const sinceMs = answeredAtMs.get(socket)
    const silentMs = sinceMs === undefined ? null : performance.now() - sinceMs
    let body = ''
    request.setEncoding('utf8').on('data', (piece: string) => (body += piece))
    request.on('end', () => {
      if (request.method === 'POST') arrivals.push({ headers, body, silentMs })
      const name = headers[BREAK]
      if (typeof name === 'string' && !broken.has(name)) {
        broken.add(name)
        socket.destroy()
        return
      }
      answer(response)
      answeredAtMs.set(socket, performance.now())
    })
  })
  server.keepAliveTimeout = 0
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => {
      resolve({
        port: (server.address() as { port: number }).port,
        arrivals,
        begun: () => begun,
        stop: () =>
          new Promise((done) => {
            server.close(() => done())
            server.closeAllConnections()
          }),
      })
    })
  })
}

function answer(response: ServerResponse): void {
  response.writeHead(202, {
    'Content-Type': 'application/json',
    'X-Request-Id': 'from-the-node',
    'Keep-Alive': 'timeout=8',
  })
  response.end('{"status":"accepted","events":1}')
}
