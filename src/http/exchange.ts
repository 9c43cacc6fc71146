// One request and its answer on the wire: answered at most once, never after the client has gone.

import type { HttpResponse } from 'uWebSockets.js'
import type { Answer } from '../outcome.ts'
import type { RequestHead } from './head.ts'
import { send } from './send.ts'
import type { Turn } from './turn.ts'

/** Why the service closed a connection by itself. */
export type ClosedBecause = 'pipelined' | 'unread'

/** What an exchange needs of its connection. */
export interface Connection {
  readonly response: HttpResponse
  readonly turn: Turn
  /** Called at most once. */
  readonly onClosed: (reason: ClosedBecause) => void
}

export class Exchange {
  readonly head: RequestHead
  /** `performance.now()` when the head had arrived. */
  readonly startedAtMs: number
  /** The same for the last byte of the body. */
  bodyAtMs = 0
  #isOver = false
  #isWaiting = false
  /** null: there is nobody to write to. */
  #connection: Connection | null

  constructor(head: RequestHead, connection: Connection, startedAtMs: number) {
    this.head = head
    this.startedAtMs = startedAtMs
    this.#connection = connection
  }

  /** The client has gone, or has its answer or will have it when this turn of the event loop is over. */
  get isOver(): boolean {
    return this.#isOver
  }

  /** From now on there is nobody to answer. */
  abandon(): void {
    const connection = this.#connection
    this.#isOver = true
    this.#connection = null
    // The engine closes a connection on which a request comes while the answer to the one before still waits.
    if (this.#isWaiting) connection?.onClosed('pipelined')
  }

  /** Sends the answer, if there still is somebody who waits for it. `thenClose`: this connection takes no more requests. */
  send(answer: Answer, thenClose: boolean): void {
    const connection = this.#connection
    if (this.#isOver || connection === null) return
    this.#isOver = true
    if (connection.turn.mayAnswerNow(thenClose)) {
      this.#write(answer, thenClose)
      return
    }
    this.#isWaiting = true
    connection.turn.atEnd(() => {
      this.#isWaiting = false
      this.#write(answer, thenClose)
    })
  }

  #write(answer: Answer, thenClose: boolean): void {
    const connection = this.#connection
    if (connection === null) return
    this.#connection = null
    const isTaken = send(connection.response, {
      status: answer.status,
      contentType: 'application/json',
      headers: answer.headers,
      body: answer.body,
      withoutBody: this.head.method === 'HEAD',
      thenClose,
    })
    if (!isTaken) connection.onClosed('unread')
  }
}
