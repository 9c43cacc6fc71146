// One request to the admin port on the wire: its head, its bounded body, its answer or its stream of events. A response
// whose client has left is never touched: uWebSockets.js would throw, and the process would end.

import type { HttpRequest, HttpResponse } from 'uWebSockets.js'
import type { AdminHead, Answer, EventSink, Route } from './admin-routes.ts'
import { problem } from './admin-routes.ts'
import { wantsToClose } from './read-head.ts'
import { send } from './send.ts'

/** The bodies of all requests under way. Larger ones come only for `explain`, one at a time and by hand. */
const MAX_BODIES_BYTES = 4_194_304

/** Shared by all requests of one port. */
export interface BodyBudget {
  usedBytes: number
}

/** To be called inside the request handler only, where `request` is valid. */
export function readAdminHead(request: HttpRequest): AdminHead {
  return {
    method: request.getCaseSensitiveMethod(),
    path: request.getUrl(),
    query: request.getQuery() ?? '',
    accept: request.getHeader('accept'),
    acceptEncoding: request.getHeader('accept-encoding'),
    authorization: request.getHeader('authorization'),
    cookie: request.getHeader('cookie'),
    host: request.getHeader('host'),
    ifNoneMatch: request.getHeader('if-none-match'),
    origin: request.getHeader('origin'),
    fetchSite: request.getHeader('sec-fetch-site'),
  }
}

export class AdminExchange {
  readonly head: AdminHead
  readonly #thenClose: boolean
  readonly #budget: BodyBudget
  /** Infinite for a body in chunks, which does not tell it. */
  readonly #lengthBytes: number
  /** null: the client has left, or the answer is sent. */
  #response: HttpResponse | null
  #reservedBytes = 0
  #onLeft: (() => void) | null = null

  constructor(request: HttpRequest, response: HttpResponse, budget: BodyBudget) {
    this.head = readAdminHead(request)
    this.#thenClose = wantsToClose(request.getHeader('connection'))
    const isChunked = request.getHeader('transfer-encoding') !== ''
    this.#lengthBytes = isChunked ? Number.POSITIVE_INFINITY : Number(request.getHeader('content-length'))
    this.#budget = budget
    this.#response = response
    response.onAborted(() => this.#left())
  }

  #left(): void {
    this.#response = null
    this.#freeBody()
    const onLeft = this.#onLeft
    this.#onLeft = null
    onLeft?.()
  }

  get isOver(): boolean {
    return this.#response === null
  }

  send(answer: Answer, thenClose = this.#thenClose): void {
    const response = this.#response
    if (response === null) return
    this.#response = null
    const withoutBody = answer.withoutBody || this.head.method === 'HEAD' || answer.body.length === 0
    send(response, { ...answer, withoutBody, thenClose: thenClose || withoutBody })
  }

  /**
   * Must be called inside the request handler. Calls `onBody` once, or answers by itself where the body is too large.
   */
  readBody(maxBytes: number, onBody: (body: Buffer) => void): void {
    // If such a head arrives in several pieces, the engine never reports its empty body.
    if (this.#lengthBytes === 0) {
      onBody(Buffer.alloc(0))
      return
    }
    let body: Buffer | null = null
    let arrivedBytes = 0
    this.#response?.onData((chunk, isLast) => {
      if (this.#response === null) return
      const bytes = new Uint8Array(chunk)
      if (arrivedBytes + bytes.length > maxBytes) {
        this.#refuse(
          problem('413 Content Too Large', 'payload_too_large', `the body must not exceed ${maxBytes} bytes`),
        )
        return
      }
      body ??= this.#reserve(Math.min(this.#lengthBytes, maxBytes))
      if (body === null) {
        this.#refuse(problem('503 Service Unavailable', 'busy', 'too many bodies at once: try again'))
        return
      }
      // A copy: the engine reuses the memory of a chunk.
      body.set(bytes, arrivedBytes)
      arrivedBytes += bytes.length
      if (!isLast) return
      this.#freeBody()
      onBody(body.subarray(0, arrivedBytes))
    })
  }

  #refuse(answer: Answer): void {
    this.#freeBody()
    this.send(answer, true)
  }

  /** null: the bodies of other requests have all the room. */
  #reserve(bytes: number): Buffer | null {
    if (this.#budget.usedBytes + bytes > MAX_BODIES_BYTES) return null
    this.#reservedBytes = bytes
    this.#budget.usedBytes += bytes
    return Buffer.allocUnsafe(bytes)
  }

  #freeBody(): void {
    this.#budget.usedBytes -= this.#reservedBytes
    this.#reservedBytes = 0
  }

  /** Answers with server-sent events, or as `open` says. */
  stream(open: Extract<Route, { kind: 'stream' }>['open']): void {
    const response = this.#response
    if (response === null) return
    const sink = new Sink(
      (write) => {
        if (this.#response !== null) response.cork(() => write(response))
      },
      () => {
        this.#response = null
        this.#onLeft = null
      },
    )
    const opened = open(sink)
    if (typeof opened === 'function') {
      this.#onLeft = opened
      sink.start()
    } else this.send(opened)
  }
}

const STREAM_HEADERS =
  'text/event-stream; charset=utf-8\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nX-Accel-Buffering: no'

class Sink implements EventSink {
  readonly #use: (write: (response: HttpResponse) => void) => void
  readonly #close: () => void
  #isStarted = false
  #isDrained = true
  /** Sent before the head of the answer was written. */
  #first = ''

  constructor(use: (write: (response: HttpResponse) => void) => void, close: () => void) {
    this.#use = use
    this.#close = close
  }

  start(): void {
    this.#isStarted = true
    this.#use((response) => {
      response.writeStatus('200 OK').writeHeader('Content-Type', STREAM_HEADERS)
      response.onWritable(() => {
        this.#isDrained = true
        return true
      })
      this.#write(response, this.#first)
    })
  }

  get isDrained(): boolean {
    return this.#isDrained
  }

  send(text: string): boolean {
    if (this.#isStarted) this.#use((response) => this.#write(response, text))
    else this.#first += text
    return this.#isDrained
  }

  #write(response: HttpResponse, text: string): void {
    if (text !== '' && !response.write(text)) this.#isDrained = false
  }

  end(): void {
    this.#use((response) => {
      this.#close()
      response.end()
    })
  }
}
