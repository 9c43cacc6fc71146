// One connection of the engine on Node's own server, and the requests on it, one at a time. Node's own time-outs are off: they
// know no pace of a body, and cost a timer for each request.

import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { KEEP_ALIVE, type Reply, type Wire, type WireHead } from '../wire.ts'
import type { UnreadHead } from './heads.ts'

/** Of a head, of each 160 KB of a body, and of the wait for the next request. */
const PATIENCE_SECONDS = 11
const BYTES_EACH_PATIENCE = 160 * 1024
/** TLS tells late that the system has taken an answer. */
const MAX_UNREAD_TLS_BYTES = 16 * 1024
const EMPTY = new Uint8Array(0)
const NOTHING_KNOWN: UnreadHead = { method: '', path: '', headers: [] }

export class Connection {
  readonly socket: Socket
  readonly #maxUnreadBytes: number
  /** Has no answer yet. */
  request: NodeRequest | null = null
  /** Nothing more is taken from it. Node may still pass on what it has read. */
  isClosed = false
  /** Counted by `look`; infinity: see `isOurs`. */
  #secondsLeft = PATIENCE_SECONDS
  /** At the first look of this patience; -1: there was none. */
  #seenBytes = -1
  /** The bytes that were seen last began a head. */
  #hasBegun = false

  constructor(socket: Socket, isTls: boolean) {
    this.socket = socket
    this.#maxUnreadBytes = isTls ? MAX_UNREAD_TLS_BYTES : 0
  }

  get isUnread(): boolean {
    return this.socket.writableLength > this.#maxUnreadBytes
  }

  begin(request: NodeRequest): void {
    this.request = request
    this.restart()
  }

  /** Bytes of the client are awaited. */
  restart(): void {
    this.#secondsLeft = PATIENCE_SECONDS
    this.#seenBytes = -1
    this.#hasBegun = false
  }

  /** The request is whole, and its answer is ours to give. */
  get isOurs(): boolean {
    return this.#secondsLeft === Number.POSITIVE_INFINITY
  }

  waitsForUs(): void {
    this.#secondsLeft = Number.POSITIVE_INFINITY
  }

  /** Called once a second. */
  look(): void {
    this.#secondsLeft -= 1
    if (this.#seenBytes < 0) this.#seenBytes = this.socket.bytesRead
    if (this.#secondsLeft > 0) return
    const bytes = this.socket.bytesRead - this.#seenBytes
    // A head whose first bytes came late gets its time once.
    const begins = bytes > 0 && this.request === null && !this.#hasBegun
    if (bytes < BYTES_EACH_PATIENCE && !begins) {
      this.close()
      return
    }
    this.restart()
    this.#hasBegun = begins
  }

  close(): void {
    this.isClosed = true
    this.socket.destroy()
    this.leave()
  }

  /** The client gets no answer to the request that has none yet. */
  leave(): void {
    const { request } = this
    this.request = null
    request?.left()
  }
}

/** A request that Node has read the head of. */
export class NodeRequest implements Wire, WireHead {
  readonly #message: IncomingMessage
  readonly #response: ServerResponse
  readonly #connection: Connection
  #lengthBytes = -1
  left: () => void = () => {}

  constructor(message: IncomingMessage, response: ServerResponse, connection: Connection) {
    this.#message = message
    this.#response = response
    this.#connection = connection
  }

  getCaseSensitiveMethod(): string {
    return this.#message.method ?? ''
  }

  getUrl(): string {
    return this.#message.url?.split('?', 1)[0] ?? ''
  }

  getQuery(): string | undefined {
    const { url = '' } = this.#message
    const at = url.indexOf('?')
    return at < 0 ? undefined : url.slice(at + 1)
  }

  forEach(each: (name: string, value: string) => void): void {
    const { rawHeaders } = this.#message
    for (let at = 0; at < rawHeaders.length; at += 2) {
      const name = rawHeaders[at].toLowerCase()
      if (name === 'content-length') this.#lengthBytes = Number(rawHeaders[at + 1])
      each(name, rawHeaders[at + 1])
    }
  }

  onAborted(left: () => void): void {
    this.left = left
  }

  onData(take: (piece: Uint8Array, isLast: boolean) => void): void {
    let missingBytes = this.#lengthBytes
    let isWhole = false
    const pass = (piece: Uint8Array): void => {
      if (isWhole) this.#connection.waitsForUs()
      if (!this.#connection.isClosed) take(piece, isWhole)
    }
    this.#message.on('data', (piece: Buffer) => {
      missingBytes -= piece.length
      isWhole = missingBytes === 0
      pass(piece)
    })
    this.#message.on('end', () => {
      if (isWhole) return
      isWhole = true
      pass(EMPTY)
    })
  }

  send({ status, contentType, headers, body, withoutBody, thenClose }: Reply): boolean {
    const connection = this.#connection
    const isTaken = !connection.isUnread
    connection.request = null
    if (!isTaken) connection.close()
    if (connection.socket.destroyed) return isTaken
    connection.restart()
    const lines = ['Content-Type', contentType]
    for (const line of `${headers}${thenClose ? '\r\nConnection: close' : KEEP_ALIVE}`.split('\r\n')) {
      const colon = line.indexOf(':')
      if (colon > 0) lines.push(line.slice(0, colon), line.slice(colon + 2))
    }
    lines.push('Content-Length', String(Buffer.byteLength(body)))
    // It says only that the connection ends.
    this.#response.removeHeader('Connection')
    this.#response.writeHead(Number(status.slice(0, 3)), status.slice(4), lines)
    this.#response.end(withoutBody ? '' : body)
    return true
  }

  giveMoreTime(): void {
    this.#connection.restart()
  }

  close(): void {
    this.#connection.close()
  }
}

/** A request whose head Node does not pass on: it is answered by that, and the connection ends. */
export class LastRequest implements Wire, WireHead {
  readonly #connection: Connection
  readonly #head: UnreadHead

  constructor(connection: Connection, head: UnreadHead | null) {
    this.#connection = connection
    this.#head = head ?? NOTHING_KNOWN
  }

  getCaseSensitiveMethod(): string {
    return this.#head.method
  }

  getUrl(): string {
    return this.#head.path
  }

  getQuery(): undefined {}

  forEach(each: (name: string, value: string) => void): void {
    for (const [name, value] of this.#head.headers) each(name, value)
  }

  send({ status, contentType, headers, body }: Reply): boolean {
    const { socket } = this.#connection
    const head = `HTTP/1.1 ${status}\r\nContent-Type: ${contentType}${headers}\r\nConnection: close`
    if (!socket.destroyed) socket.write(`${head}\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`)
    socket.destroySoon()
    return true
  }

  close(): void {
    this.#connection.close()
  }

  // It has no body, and nothing is undone where its client leaves.
  onAborted(): void {}
  onData(): void {}
  giveMoreTime(): void {}
}
