// The public port: uWebSockets.js reads heads and bodies, and the ingest decides what becomes of them.

import uWS, { type HttpResponse, type TemplatedApp } from 'uWebSockets.js'
import { MAX_BODY_BYTES } from '../bounds.ts'
import type { ConnectionCounts } from '../observe/metrics.ts'
import type { Ingest } from '../request/ingest.ts'
import { HttpExchange, type Port } from './exchange.ts'
import { Gathering, type PartialBody } from './gathering.ts'
import { listen } from './listen.ts'
import { readHead } from './read-head.ts'
import { Turn } from './turn.ts'
import { UploadPace } from './upload-pace.ts'

export interface ServerOptions {
  readonly host: string
  readonly port: number
  /** Other processes may listen on the same port, and each gets a part of the connections. */
  readonly shared: boolean
  readonly tls: { readonly certFile: string; readonly keyFile: string } | null
  /** Most connections at a time; beyond it new ones are closed at once. */
  readonly maxConnections: number
  /** Most bytes of bodies on their way. */
  readonly gatheringMaxBytes: number
  readonly ingest: Ingest
  readonly counts: ConnectionCounts
  /** An answer could not be written: a fault of ours. */
  readonly onFault: (error: unknown) => void
  /** A connection was closed because there were too many. */
  readonly onTooMany: () => void
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
  const { tls, ingest, counts } = options
  const gathering = new Gathering({ maxBytes: options.gatheringMaxBytes, nowMs: () => performance.now() })
  const turn = new Turn(options.onFault)
  const port: Port = { turn, onClosed: (reason) => void counts.closed[reason]++ }
  const app = tls === null ? uWS.App() : uWS.SSLApp({ cert_file_name: tls.certFile, key_file_name: tls.keyFile })
  const connections = countConnections(app, options)
  const isCrowded = () => connections.open > CROWDED_SHARE * options.maxConnections
  const reception: Reception = { ingest, gathering, turn, counts, isCrowded }
  app.any('/*', (response, request) => {
    turn.enter()
    const exchange = new HttpExchange(readHead(request), response, port, performance.now())
    receive(response, exchange, reception)
    turn.leave()
  })
  const listening = await listen(app, options)
  return {
    port: listening.port,
    get connections() {
      return connections.open
    },
    stopListening: () => uWS.us_listen_socket_close(listening.socket),
    close: () => {
      gathering.evictAll()
      app.close()
    },
  }
}

function countConnections(app: TemplatedApp, { maxConnections, counts, onTooMany }: ServerOptions): { open: number } {
  const connections = { open: 0 }
  app.filter((response, change) => {
    connections.open += Number(change)
    if (Number(change) < 0) {
      counts.ended++
      return
    }
    counts.opened++
    if (connections.open <= maxConnections) return
    counts.closed.limit++
    onTooMany()
    response.close()
  })
  return connections
}

/** With more of the connections open than this share, slow uploads get no more time: others want a place. */
const CROWDED_SHARE = 0.9
/** Smaller pieces cost more to take than their bytes. */
const SMALL_PIECE_BYTES = 64

interface Reception {
  readonly ingest: Ingest
  readonly gathering: Gathering
  readonly turn: Turn
  readonly counts: ConnectionCounts
  /** Nearly as many connections are open as there may be. */
  readonly isCrowded: () => boolean
}

/** A head is there. */
function receive(
  response: HttpResponse,
  exchange: HttpExchange,
  { ingest, gathering, turn, counts, isCrowded }: Reception,
): void {
  let partial: PartialBody | null = null
  let pace: UploadPace | null = null
  let isWhole = false
  // Before all else, even where the head alone is answered: the engine of 2024 ends the process where a client resets
  // its connection and nobody listens for it.
  response.onAborted(() => {
    if (partial !== null) gathering.forget(partial)
    if (exchange.isOver || isWhole) exchange.abandon()
    else ingest.clientLeft(exchange)
  })
  if (!ingest.begin(exchange)) return
  // Where such a head comes in several pieces, the engine never tells of its empty body.
  if (exchange.head.contentLengthBytes === 0) {
    isWhole = true
    ingest.body(exchange, [], 0)
    return
  }
  response.onData((chunk, isLast) => {
    if (exchange.isOver) return
    if (!isLast && chunk.byteLength < SMALL_PIECE_BYTES && !turn.mayTakePiece()) {
      // Only this ends the engine's reading of what it has of this connection.
      counts.closed.fragmented++
      response.close()
      return
    }
    turn.enter()
    const piece = new Uint8Array(chunk)
    const lengthBytes = (partial?.lengthBytes ?? 0) + piece.length
    if (lengthBytes > MAX_BODY_BYTES) {
      ingest.bodyTooLarge(exchange)
    } else if (isLast) {
      isWhole = true
      ingest.body(exchange, partial === null ? [piece] : [...gathering.pieces(partial), piece], lengthBytes)
    } else {
      partial ??= gathering.begin(exchange.head.contentLengthBytes, () => ingest.bodyEvicted(exchange))
      pace ??= new UploadPace(exchange.startedAtMs)
      if (!isCrowded() && pace.earnsMoreTime(lengthBytes, performance.now())) giveMoreTime(response)
      gathering.add(partial, piece)
      turn.leave()
      return
    }
    if (partial !== null) gathering.forget(partial)
    turn.leave()
  })
}

/** The engine gives each 160 KB of a body 10 s. To resume a paused request begins these 10 s anew. */
function giveMoreTime(response: HttpResponse): void {
  response.pause()
  response.resume()
}
