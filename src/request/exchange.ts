// The interface of one request and its answer, which the acceptor (src/http) implements.

import type { Answer } from '../contract/outcome.ts'
import type { RequestHead } from './head.ts'

export interface Exchange {
  readonly head: RequestHead
  /** Monotonic time at which the head had arrived. */
  readonly startedAtMs: number
  /** Monotonic time at which the last byte of the body had arrived; 0: it has not. */
  bodyAtMs: number
  /** The client has left: no answer is sent. */
  abandon(): void
  /** Sends the answer unless the client has left. `thenClose`: this connection takes no more requests. */
  send(answer: Answer, thenClose: boolean): void
}
