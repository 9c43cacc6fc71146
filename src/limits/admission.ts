// The seam of admission: whether a batch may be queued now, by its app's limits and by its idempotency key, both or
// neither.

import type { App } from '../apps/app.ts'
import type { RateLimitView } from '../outcome.ts'
import type { Charge } from '../queue/charge.ts'
import type { LimitRefusal, Standing } from './limiter.ts'

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
