// One request and its answer, as the path of a request sees them. The front end (src/http) implements it.

import type { Answer } from '../outcome.ts'
import type { RequestHead } from './head.ts'

export interface Exchange {
  readonly head: RequestHead
  /** A time in ms that never goes back: when the head had arrived. */
  readonly startedAtMs: number
  /** The same for the last byte of the body. */
  bodyAtMs: number
  /** From now on there is nobody to answer. */
  abandon(): void
  /** Sends the answer, if there still is somebody who waits for it. `thenClose`: this connection takes no more requests. */
  send(answer: Answer, thenClose: boolean): void
}
