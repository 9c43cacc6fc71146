// The engine on Node's own HTTP server, for systems on which uWebSockets.js does not load. It behaves as that one does, and
// carries less.

import { readFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { createServer as createTlsServer, type Server as TlsServer } from 'node:https'
import { Server as NetServer, type Socket } from 'node:net'
import { EVENTS_PATH } from '../../contract/bounds.ts'
import { errorCode } from '../../lib/errors.ts'
import type { TlsFiles } from '../certificate.ts'
import { bind } from '../port.ts'
import type { EngineOptions, OpenEngine, Unreadable } from '../wire.ts'
import { Connection, LastRequest, Message, NodeRequest } from './connection.ts'
import { MAX_HEAD_BYTES, refusalOf, type UnreadHead, unreadOf } from './heads.ts'

const LOOK_INTERVAL_MS = 1000
const HANDSHAKE_TIMEOUT_MS = 10_000
const EVENTS_ROUTE = { method: 'POST', path: EVENTS_PATH }

const OPTIONS = {
  IncomingMessage: Message,
  // It counts less of a head than `refusalOf`, so that this ends only what never does.
  maxHeaderSize: MAX_HEAD_BYTES,
  requireHostHeader: false,
  insecureHTTPParser: false,
  headersTimeout: 0,
  requestTimeout: 0,
  keepAliveTimeout: 0,
}

export const openEngine: OpenEngine = async (options) => {
  const { address, tls } = options
  const server =
    tls === null
      ? createServer(OPTIONS)
      : createTlsServer({ ...OPTIONS, handshakeTimeout: HANDSHAKE_TIMEOUT_MS, ...read(tls) })
  const engine = new NodeEngine(server, options)
  const port = await bind(server, address, { reusePort: address.shared === true })
  // A connection that could not be accepted, for want of open files. The gauge of these tells.
  server.on('error', () => {})
  const timer = setInterval(() => engine.look(), LOOK_INTERVAL_MS).unref()
  return {
    port,
    renew: async () => {
      if (tls !== null) (server as TlsServer).setSecureContext(read(tls))
    },
    // That of an HTTP server would end connections on which a request may be on its way.
    stopListening: () => void NetServer.prototype.close.call(server),
    close: () => {
      clearInterval(timer)
      engine.close()
    },
  }
}

function read({ certFile, keyFile }: TlsFiles): { readonly cert: Buffer; readonly key: Buffer } {
  return { cert: readFileSync(certFile), key: readFileSync(keyFile) }
}

class NodeEngine {
  readonly #options: EngineOptions
  /** With those that have not ended their handshake. */
  readonly #sockets = new Set<Socket>()
  readonly #connections = new Map<Socket, Connection>()
  /** Of all answers of a second. */
  readonly #date = { text: new Date().toUTCString() }

  constructor(server: Server | TlsServer, options: EngineOptions) {
    this.#options = options
    server.on('connection', (socket: Socket) => this.#opened(socket))
    if (options.tls !== null) server.on('secureConnection', (socket: Socket) => this.#connected(socket))
    const receive = (message: Message, response: ServerResponse): void => this.#receive(message, response)
    server.on('request', receive)
    // Of another expectation than 100-continue, which Node meets by itself.
    server.on('checkExpectation', receive)
    server.on('connect', ({ method = '', url = '', socket }: IncomingMessage) => {
      const connection = this.#connections.get(socket)
      const head = { method, path: url, headers: [] }
      if (connection !== undefined) this.#refuse(connection, url.startsWith('/') ? head : 'not_http')
    })
    server.on('clientError', (error: Error & { readonly rawPacket?: Buffer }, socket: Socket) => {
      this.#failed(errorCode(error) ?? '', error.rawPacket, socket)
    })
  }

  /** Once a second: ends connections whose client has had its time. */
  look(): void {
    this.#date.text = new Date().toUTCString()
    for (const connection of this.#connections.values()) connection.look()
  }

  close(): void {
    for (const connection of this.#connections.values()) connection.close()
    for (const socket of this.#sockets) socket.destroy()
  }

  #opened(socket: Socket): void {
    this.#sockets.add(socket)
    socket.once('close', () => {
      this.#sockets.delete(socket)
      this.#options.onEnded()
    })
    if (!this.#options.onOpened()) socket.destroy()
    else if (this.#options.tls === null) this.#connected(socket)
  }

  #connected(socket: Socket): void {
    const connection = new Connection(socket, this.#options.tls !== null, this.#date)
    this.#connections.set(socket, connection)
    // Node stops listening where a connection is no longer its own.
    socket.on('error', () => {})
    socket.once('close', () => {
      this.#connections.delete(socket)
      connection.close()
    })
  }

  #receive(message: Message, response: ServerResponse): void {
    const connection = this.#connections.get(message.socket)
    if (connection === undefined || connection.isClosed) return
    // It did not wait for its answer.
    if (connection.request !== null) {
      connection.close()
      return
    }
    const refusal = refusalOf(message)
    if (refusal !== null) {
      this.#refuse(connection, refusal)
      return
    }
    const request = new NodeRequest(message, response, connection)
    connection.begin(request)
    const isEvents = message.url === EVENTS_PATH && message.method === 'POST'
    this.#options.onRequest(request, request, isEvents ? EVENTS_ROUTE : null)
  }

  #failed(code: string, packet: Buffer | undefined, socket: Socket): void {
    const connection = this.#connections.get(socket)
    // The head was passed on, and its answer, which waits for the end of this turn, ends the connection.
    if (code === 'HPE_INVALID_TRANSFER_ENCODING' && connection?.request != null) return
    const head = unreadOf(code, packet?.toString('latin1', 0, MAX_HEAD_BYTES) ?? '')
    if (connection === undefined) socket.destroy()
    // What comes behind a request that waits for its answer is not looked at.
    else if (head === null || connection.isClosed || connection.isOurs) connection.close()
    else this.#refuse(connection, head)
  }

  /** The last answer of a connection. */
  #refuse(connection: Connection, head: UnreadHead | Unreadable): void {
    connection.leave()
    connection.restart()
    connection.isClosed = true
    const isKnown = typeof head !== 'string'
    const request = new LastRequest(connection, isKnown ? head : null)
    if (isKnown) this.#options.onRequest(request, request, null)
    else this.#options.onUnreadable(request, head)
  }
}
