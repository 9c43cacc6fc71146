// The public port: takes heads and bodies from the engine, and passes them to the ingest.

import { MAX_BODY_BYTES } from '../contract/bounds.ts'
import type { ConnectionCounts } from '../observe/metrics.ts'
import type { Ingest } from '../request/ingest.ts'
import type { TlsFiles } from './certificate.ts'
import { corsHeadersFor } from './cors.ts'
import { HttpExchange, type Port } from './exchange.ts'
import { Gathering, type PartialBody } from './gathering.ts'
import { readHead } from './read-head.ts'
import { Turn } from './turn.ts'
import { uploadPace } from './upload-pace.ts'
import type { OpenEngine, Unreadable, Wire } from './wire.ts'

export interface ServerOptions {
  readonly openEngine: OpenEngine
  readonly host: string
  readonly port: number
  /** Other processes listen on the same port, and each gets a part of the connections. */
  readonly shared: boolean
  readonly tls: TlsFiles | null
  /** The origins of web pages that may send; `*`: all; null: none. */
  readonly corsOrigins: readonly string[] | '*' | null
  /** Beyond this many open connections, new ones are closed at once. */
  readonly maxConnections: number
  /** Bound on the bytes of partial bodies. */
  readonly gatheringMaxBytes: number
  readonly ingest: Ingest
  /** The monotonic time of this turn of the event loop. */
  readonly turnMs: () => number
  readonly counts: ConnectionCounts
  /** An answer could not be written, which is a bug. */
  readonly onFault: (error: unknown) => void
  /** Nobody listens any more: the process must not go on. */
  readonly onPortLost: (error: unknown) => void
  /** A connection was closed because there were too many. */
  readonly onTooMany: () => void
}

export type Server = Awaited<ReturnType<typeof startServer>>

/** Rejects with an Error that names the address and the reason. */
export async function startServer(options: ServerOptions) {
  const { tls, ingest, counts } = options
  const gathering = new Gathering({ maxBytes: options.gatheringMaxBytes, monotonicMs: () => performance.now() })
  const turn = new Turn(options.onFault)
  const port: Port = { turn, onClosed: (reason) => void counts.closed[reason]++ }
  const connections = { open: 0 }
  const cors = options.corsOrigins === null ? null : corsHeadersFor(options.corsOrigins)
  const isCrowded = () => connections.open > CROWDED_SHARE * options.maxConnections
  const reception: Reception = { ingest, gathering, turn, counts, isCrowded }
  const engine = await options.openEngine({
    address: { ...options, settings: 'HOST and PORT' },
    tls,
    onPortLost: options.onPortLost,
    onOpened: () => {
      connections.open++
      counts.opened++
      if (connections.open <= options.maxConnections) return true
      counts.closed.limit++
      options.onTooMany()
      return false
    },
    onEnded: () => {
      connections.open--
      counts.ended++
    },
    onRequest: (head, wire, route) => {
      turn.enter()
      receive(wire, new HttpExchange(readHead(head, cors, route), wire, port, options.turnMs()), reception)
      turn.leave()
    },
    onUnreadable: (wire, what) => {
      const [status, message] = UNREADABLE[what]
      const answer = ingest.answerUnread(status, message)
      wire.send({ ...answer, contentType: 'application/json', withoutBody: false, thenClose: true })
    },
  })
  return {
    port: engine.port,
    /** The number of open ones. */
    get connections() {
      return connections.open
    },
    /** The files of the certificate are used, as they are now, for new connections. Throws where they cannot be. */
    renewCertificate: () => engine.renew(),
    /** Refuses new connections; open ones stay. */
    stopListening: () => engine.stopListening(),
    /** Closes every connection. */
    close: () => {
      gathering.evictAll()
      engine.close()
    },
  }
}

/** The status and the message of each. */
const UNREADABLE = {
  malformed: ['400 Bad Request', 'the request is not HTTP/1.1 as RFC 9112 has it'],
  head_too_large: ['431 Request Header Fields Too Large', 'the head must not exceed 4096 bytes and 98 lines'],
  not_http: ['505 HTTP Version Not Supported', 'the request line must be that of HTTP/1.1, with a path'],
} as const satisfies Record<Unreadable, readonly [status: string, message: string]>

/** While more than this share of the connections is open, slow uploads get no extra time. */
const CROWDED_SHARE = 0.9
/** Smaller pieces cost more CPU time than their bytes justify, so their number is bounded. */
const SMALL_PIECE_BYTES = 64

interface Reception {
  readonly ingest: Ingest
  readonly gathering: Gathering
  readonly turn: Turn
  readonly counts: ConnectionCounts
  /** More than CROWDED_SHARE of the connections are open. */
  readonly isCrowded: () => boolean
}

/** A head has arrived. */
function receive(wire: Wire, exchange: HttpExchange, { ingest, gathering, turn, counts, isCrowded }: Reception): void {
  let partial: PartialBody | null = null
  let earnsMoreTime: ReturnType<typeof uploadPace> | null = null
  let isWhole = false
  // First of all, even where the head alone is answered: if a client resets its connection and there is no handler, the
  // engine of 2024 ends the process.
  wire.onAborted(() => {
    if (partial !== null) gathering.forget(partial)
    if (exchange.isOver || isWhole) exchange.abandon()
    else ingest.clientLeft(exchange)
  })
  if (!ingest.begin(exchange)) return
  // If such a head arrives in several pieces, the engine never reports its empty body.
  if (exchange.head.contentLengthBytes === 0) {
    isWhole = true
    ingest.body(exchange, [], 0)
    return
  }
  wire.onData((piece, isLast) => {
    if (exchange.isOver) return
    if (!isLast && piece.length < SMALL_PIECE_BYTES && !turn.mayTakePiece()) {
      // Only closing stops the engine from passing on the rest of what it has read.
      counts.closed.fragmented++
      wire.close()
      return
    }
    turn.enter()
    const lengthBytes = (partial?.lengthBytes ?? 0) + piece.length
    if (lengthBytes > MAX_BODY_BYTES) {
      ingest.bodyTooLarge(exchange)
    } else if (isLast) {
      isWhole = true
      // The engine takes an empty size, or one behind a blank, for the last chunk. What follows need not be a request.
      exchange.isLast = lengthBytes === 0
      ingest.body(exchange, partial === null ? [piece] : [...gathering.pieces(partial), piece], lengthBytes)
    } else {
      partial ??= gathering.begin(exchange.head.contentLengthBytes, () => ingest.bodyEvicted(exchange))
      earnsMoreTime ??= uploadPace(exchange.startedAtMs)
      if (!isCrowded() && earnsMoreTime(lengthBytes, performance.now())) wire.giveMoreTime()
      gathering.add(partial, piece)
      turn.leave()
      return
    }
    if (partial !== null) gathering.forget(partial)
    turn.leave()
  })
}
