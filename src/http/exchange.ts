// One request and its answer on the wire: answered at most once, never after the client has gone.

import type { HttpResponse } from 'uWebSockets.js'
import type { Answer } from '../outcome.ts'
import type { RequestHead } from './head.ts'

export class Exchange {
  readonly head: RequestHead
  /** `performance.now()` when the head had arrived. */
  readonly startedAtMs: number
  /** The same for the last byte of the body. */
  bodyAtMs = 0
  #response: HttpResponse | null

  constructor(head: RequestHead, response: HttpResponse, startedAtMs: number) {
    this.head = head
    this.startedAtMs = startedAtMs
    this.#response = response
  }

  /** The client has gone, or was answered. */
  get isOver(): boolean {
    return this.#response === null
  }

  /** From now on there is nobody to answer. */
  abandon(): void {
    this.#response = null
  }

  /** Sends the answer, if there still is somebody who waits for it. `thenClose`: this connection takes no more requests. */
  send(answer: Answer, thenClose: boolean): void {
    const response = this.#response
    if (response === null) return
    this.#response = null
    response.cork(() => {
      // All header lines go in one call: each call into uWebSockets.js costs as much as writing them all.
      response.writeStatus(answer.status).writeHeader('Content-Type', `application/json${answer.headers}`)
      if (this.head.method !== 'HEAD') {
        response.end(answer.body, thenClose)
        return
      }
      // Given a length as its argument, the library would go on to wait for that many bytes.
      if (thenClose) response.writeHeader('Connection', 'close')
      response.writeHeader('Content-Length', String(Buffer.byteLength(answer.body))).endWithoutBody()
    })
  }
}
