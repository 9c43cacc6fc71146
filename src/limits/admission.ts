// The interface of admission: takes a batch's events from its app's limits and claims its idempotency key, both or
// neither. Implemented in memory (own/) and with Redis (shared/).

import type { App } from '../apps/app.ts'
import type { Charge } from '../contract/charge.ts'
import type { OverloadReason, RateLimitView, WindowView } from '../contract/outcome.ts'
import type { Replay } from '../keys/deduplicator.ts'
import type { QueueRefusal } from '../queue/queue.ts'
import type { DaysUsed, LimitRefusal, Usage } from './limiter.ts'

export type { Replay }

export interface Overloaded {
  readonly kind: 'overloaded'
  readonly reason: Extract<OverloadReason, 'keys_full' | 'redis_slow' | 'key_busy'> | QueueRefusal
}

/** No more keys can be remembered. */
export const KEYS_FULL: Overloaded = { kind: 'overloaded', reason: 'keys_full' }

export type Admitted =
  /** The events are taken, and the key, if there is one, is claimed: the caller must call `end`. */
  | { readonly kind: 'taken'; readonly charge: Charge }
  | Replay
  | { readonly kind: 'over limit'; readonly refusal: LimitRefusal; readonly retryAfterSeconds: number }
  /** 503. */
  | Overloaded

/**
 * How an admitted batch ended. stored: this request put it in the queue. duplicate: it was in the queue before.
 * refused: it is certainly not in the queue. unknown: it may be.
 */
export type End = 'stored' | 'duplicate' | 'refused' | 'unknown'

export interface Admission {
  /**
   * Takes `events` from month, day and minute (the first without room refuses, and nothing is taken) and claims the key,
   * in one step. `batchId` null: the request has no key. Waits while another request holds the key. `refusal`: why the queue would
   * refuse the batch: nothing is taken or claimed, and what would have been taken is answered with it.
   */
  admit(app: App, events: number, batchId: string | null, refusal: QueueRefusal | null): Admitted | Promise<Admitted>
  /** For a body that fails validation: what its key was accepted with; null: it was not accepted. */
  replayOf(app: App, batchId: string): Replay | null | Promise<Replay | null>
  /**
   * Must be called once for each batch taken. `events` and `eventsHash` (0 or absent: not known): of the stored batch; replays are
   * answered with the one and compared with the other.
   */
  end(app: App, charge: Charge, batchId: string | null, end: End, events: number, eventsHash?: number): void
  /** The minute's figures for the answer's headers. */
  view(app: App): RateLimitView
  /** As far as this node knows: all windows that have a limit, while one of them is near it. null: none is, and `always` is false. */
  nearLimits(app: App, always: boolean): readonly WindowView[] | null
  /** Of some hundred apps at most, in their order. away: the counters cannot be read now. */
  usages(apps: readonly App[]): readonly Usage[] | Promise<readonly Usage[] | 'away'>
  /** The same by day, of the last 35 days. */
  days(apps: readonly App[]): readonly DaysUsed[] | Promise<readonly DaysUsed[] | 'away'>
}
