// One request and its answer on the wire: answered at most once, and never after the client has left.

import type { Answer } from '../contract/outcome.ts'
import type { Exchange } from '../request/exchange.ts'
import type { RequestHead } from '../request/head.ts'
import type { Turn } from './turn.ts'
import type { Wire } from './wire.ts'

/** Why the service closed a connection. */
export type ClosedBecause = 'pipelined' | 'unread'

/** Shared by all exchanges of one port. */
export interface Port {
  readonly turn: Turn
  /** The service closed a connection. */
  readonly onClosed: (reason: ClosedBecause) => void
}

export class HttpExchange implements Exchange {
  readonly head: RequestHead
  readonly startedAtMs: number
  bodyAtMs = 0
  /** The connection takes no more requests after the answer. */
  isLast = false
  #isOver = false
  #isWaiting = false
  readonly #port: Port
  /** null: it is answered, or the client has left. */
  #wire: Wire | null

  constructor(head: RequestHead, wire: Wire, port: Port, startedAtMs: number) {
    this.head = head
    this.startedAtMs = startedAtMs
    this.#wire = wire
    this.#port = port
  }

  /** The client has left, or is answered by the end of this turn of the event loop. */
  get isOver(): boolean {
    return this.#isOver
  }

  abandon(): void {
    this.#isOver = true
    this.#wire = null
    // The engine has closed the connection, because another request came while this answer waited.
    if (this.#isWaiting) this.#port.onClosed('pipelined')
    this.#isWaiting = false
  }

  send(answer: Answer, thenClose: boolean): void {
    if (this.#isOver) return
    this.#isOver = true
    const { turn } = this.#port
    const withoutBody = this.head.method === 'HEAD' || answer.body === ''
    const isLast = this.isLast || thenClose || withoutBody
    if (turn.mayAnswerNow(isLast)) {
      this.#write(answer, withoutBody, isLast)
      return
    }
    this.#isWaiting = true
    turn.atEnd(() => {
      this.#isWaiting = false
      this.#write(answer, withoutBody, isLast)
    })
  }

  #write(answer: Answer, withoutBody: boolean, thenClose: boolean): void {
    const wire = this.#wire
    if (wire === null) return
    this.#wire = null
    const isTaken = wire.send({
      status: answer.status,
      contentType: 'application/json',
      headers: answer.headers + this.head.corsHeaders,
      body: answer.body,
      withoutBody,
      thenClose,
    })
    if (!isTaken) this.#port.onClosed('unread')
  }
}
