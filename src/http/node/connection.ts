// One connection of the engine on Node's own server, and the requests on it, one at a time. Node's own time-outs are off: they
// know no pace of a body, and cost a timer for each request.

import { IncomingMessage, type ServerResponse } from 'node:http'
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
  readonly #date: { readonly text: string }
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

  constructor(socket: Socket, isTls: boolean, date: { readonly text: string }) {
    this.socket = socket
    this.#date = date
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

  write({ status, contentType, headers, body, withoutBody, thenClose }: Reply): void {
    const { socket } = this
    if (socket.destroyed) return
    const lengthBytes = Buffer.byteLength(body)
    const ending = thenClose ? '\r\nConnection: close' : KEEP_ALIVE
    const head = `HTTP/1.1 ${status}\r\nContent-Type: ${contentType}${headers}${ending}\r\nDate: ${this.#date.text}\r\nContent-Length: ${lengthBytes}\r\n\r\n`
    // Latin-1 is the faster one, where the text is ASCII.
    socket.write(withoutBody ? head : head + body, lengthBytes === body.length ? 'latin1' : 'utf8')
    if (thenClose) socket.destroySoon()
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

/**
 * Hands on each piece of a body as Node's parser hands it over: what a stream does with a piece costs as much as all that is
 * done with it here.
 */
export class Message extends IncomingMessage {
  /** null: the end. */
  onPiece: ((piece: Uint8Array | null) => void) | null = null

  override push(piece: Uint8Array | null): boolean {
    this.onPiece?.(piece)
    return true
  }

  /** Node calls it where the answer comes first. Then nothing waits here to be read. */
  _dump(): void {}
}

/** A request that Node has read the head of. */
export class NodeRequest implements Wire, WireHead {
  readonly #message: Message
  readonly #response: ServerResponse
  readonly #connection: Connection
  #lengthBytes = -1
  left: () => void = () => {}

  constructor(message: Message, response: ServerResponse, connection: Connection) {
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
    this.#message.onPiece = (piece) => {
      if (this.#connection.isClosed) return
      missingBytes -= piece?.length ?? 0
      const isLast = piece === null || missingBytes === 0
      if (isLast) {
        this.#message.onPiece = null
        this.#connection.waitsForUs()
      }
      take(piece ?? EMPTY, isLast)
    }
  }

  send(reply: Reply): boolean {
    const connection = this.#connection
    const isTaken = !connection.isUnread
    connection.request = null
    if (!isTaken) connection.close()
    if (connection.isClosed) return isTaken
    connection.restart()
    connection.write(reply)
    // Node makes a text of its own out of what it is given, and writes that in two parts. It looks for the next request
    // once it hears that this answer is written.
    this.#response.emit('finish')
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

  send(reply: Reply): boolean {
    this.#connection.write({ ...reply, thenClose: true })
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
