// What the path of a request shows of requests that have ended. Both objects are written over for the next request, so
// that nothing is allocated for them: they are valid only during the call.

import type { App } from '../apps/app.ts'
import type { Outcome } from '../contract/outcome.ts'

/** A request that stored nothing: it was refused, or repeated a key with another body. */
export interface EndedRequest {
  readonly timeMs: number
  readonly outcome: Extract<Outcome, { kind: 'refused' | 'replayed' }>
  /** As in the answer: its X-Request-Id; of a replay, its X-Batch-Id. */
  readonly requestId: string
  /** null: the request named no app that is known, or ended before it was looked up. */
  readonly app: App | null
  /** null: none, or it was not read. */
  readonly sdkVersion: string | null
}

/** A batch that this request stored. */
export interface StoredBatch {
  readonly timeMs: number
  readonly app: App
  /** Its queue record, which lies in the ring. */
  readonly line: Uint8Array
  /** Its events, by their type. */
  readonly track: number
  readonly screen: number
  readonly revenue: number
}

/** Called after the answer was sent, so that no client waits for it. */
export interface RequestObserver {
  ended(request: EndedRequest): void
  stored(batch: StoredBatch): void
}
