// The public port: uWebSockets.js reads heads and bodies, and the ingest decides what becomes of them.

import uWS, { type HttpResponse } from 'uWebSockets.js'
import type { Ingest } from '../ingest.ts'
import { MAX_BODY_BYTES } from '../ring/layout.ts'
import { Exchange } from './exchange.ts'
import { Gathering, type PartialBody } from './gathering.ts'
import { readHead } from './head.ts'
import { listen } from './listen.ts'

export interface ServerOptions {
  readonly host: string
  readonly port: number
  /** Other processes may listen on the same port, and each gets a part of the connections. */
  readonly shared: boolean
  readonly tls: { readonly certFile: string; readonly keyFile: string } | null
  /** Most bytes of bodies on their way. */
  readonly gatheringMaxBytes: number
  readonly ingest: Ingest
}

export interface Server {
  readonly port: number
  /** Open connections. */
  readonly connections: number
  /** Refuses new connections; those that are open go on. */
  stopListening(): void
  /** Ends every connection. */
  close(): void
}

/** Rejects with an Error that names the address where it cannot be had. */
export async function startServer(options: ServerOptions): Promise<Server> {
  const { tls, ingest } = options
  const gathering = new Gathering({ maxBytes: options.gatheringMaxBytes, nowMs: () => performance.now() })
  const app = tls === null ? uWS.App() : uWS.SSLApp({ cert_file_name: tls.certFile, key_file_name: tls.keyFile })
  let connections = 0
  app.filter((_response, change) => {
    connections += Number(change)
  })
  app.any('/*', (response, request) => {
    const exchange = new Exchange(readHead(request), response, performance.now())
    if (ingest.begin(exchange)) receive(response, exchange, ingest, gathering)
  })
  const { socket, port } = await listen(app, options)
  return {
    port,
    get connections() {
      return connections
    },
    stopListening: () => uWS.us_listen_socket_close(socket),
    close: () => {
      gathering.evictAll()
      app.close()
    },
  }
}

function receive(response: HttpResponse, exchange: Exchange, ingest: Ingest, gathering: Gathering): void {
  let partial: PartialBody | null = null
  let isWhole = false
  response.onAborted(() => {
    if (partial !== null) gathering.forget(partial)
    if (exchange.isOver) return
    if (isWhole) exchange.abandon()
    else ingest.clientLeft(exchange)
  })
  response.onData((chunk, isLast) => {
    if (exchange.isOver) return
    const piece = new Uint8Array(chunk)
    const lengthBytes = (partial?.lengthBytes ?? 0) + piece.length
    if (lengthBytes > MAX_BODY_BYTES) {
      ingest.bodyTooLarge(exchange)
    } else if (!isLast) {
      partial ??= gathering.begin(exchange.head.contentLengthBytes, () => ingest.bodyEvicted(exchange))
      gathering.add(partial, piece)
      return
    } else {
      isWhole = true
      ingest.body(exchange, partial === null ? [piece] : [...gathering.pieces(partial), piece], lengthBytes)
    }
    if (partial !== null) gathering.forget(partial)
  })
}
