// The seam of admission: whether a batch may be queued now, by its app's limits and by its idempotency key, both or
// neither.

import type { App } from '../admit/app.ts'
import type { LimitRefusal, Standing } from '../admit/limiter.ts'
import type { RateLimitView } from '../outcome.ts'

/** What a batch is charged to. The queue keeps it with the record, for the audit. */
export interface Charge {
  readonly events: number
  /** Unix ms, within `minute`: the batch counts in the windows that hold it. */
  readonly takenAtMs: number
  /** UTC minutes since 1970. */
  readonly minute: number
  /** Where the app's billing cycle began, in UTC minutes since 1970. */
  readonly cycleMinute: number
}

export type Admitted =
  /** The events are taken, and the key, where there is one, is claimed: the caller must call `end`. */
  | { readonly kind: 'taken'; readonly charge: Charge }
  /** The key was accepted before, with so many events. */
  | { readonly kind: 'replay'; readonly events: number }
  | { readonly kind: 'over limit'; readonly refusal: LimitRefusal; readonly retryAfterSeconds: number }
  /** No place for another key, or no answer in time: 503. */
  | { readonly kind: 'overloaded' }

/**
 * How a batch that was admitted ended. stored: it is in the queue, and this request put it there. duplicate: it was in
 * the queue before. refused: it is surely not stored. unknown: it may be stored or not.
 */
export type End = 'stored' | 'duplicate' | 'refused' | 'unknown'

export interface Admission {
  /**
   * Takes `events` from month, then day, then minute, all or none, and claims the key, in one step. `batchId` null: the
   * request has no key. Waits while another request holds the key.
   */
  admit(app: App, events: number, batchId: string | null): Admitted | Promise<Admitted>
  /** How many events the key was accepted with, for a body that cannot be admitted; null: it was not accepted. */
  replayOf(app: App, batchId: string): number | null | Promise<number | null>
  /** To be called once for each batch that was admitted. `events`: of the stored batch, which a replay is answered with. */
  end(app: App, charge: Charge, batchId: string | null, end: End, events: number): void
  /** The minute's figures for the answer's headers. */
  view(app: App): RateLimitView
  standing(app: App): Standing | Promise<Standing>
}
