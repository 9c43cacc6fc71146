// The parts of the service that the path of a request uses.

import type { AppStore } from '../apps/app.ts'
import type { Admission } from '../limits/admission.ts'
import type { Metrics } from '../observe/metrics.ts'
import type { EventQueue } from '../queue/queue.ts'
import type { Ring } from '../ring/ring.ts'
import type { Inflater } from './inflate.ts'

/** Takes what was refused, one by one, for the people who run the service. Without an object for each, for overloads. */
export interface RefusalList {
  /** `requestId` and `message` as in the answer; `path` of the first offending member; null: none, or not known. */
  add(
    timeMs: number,
    requestId: string,
    appId: string | null,
    code: string,
    path: string | null,
    message: string,
    sdkVersion: string | null,
  ): void
}

export interface IngestParts {
  readonly ring: Ring
  readonly inflater: Pick<Inflater, 'inflate'>
  readonly apps: AppStore
  readonly admission: Admission
  readonly queue: EventQueue
  readonly metrics: Metrics
  readonly tap: EventTap
  readonly accepted: AcceptedList
  readonly refusals: RefusalList
  readonly nowMs: () => number
  /** A monotonic time. */
  readonly monotonicMs: () => number
  /** Ids of batches without a key, and of refused requests. */
  readonly freshId: (nowMs: number) => string
  /** ISO 8601 text of a time in Unix ms. */
  readonly isoTime: (timeMs: number) => string
  /** A stage threw, which is a bug. The client gets a 503. */
  readonly onFault: (error: unknown) => void
}

/** Shows stored events to people who watch. */
export interface EventTap {
  /**
   * Called when a batch is stored; never throws. `line` is its record, valid only during the call, and the counts are of
   * its events by type. null: nobody watches.
   */
  readonly onStored: ((line: Uint8Array, appId: string, track: number, screen: number, revenue: number) => void) | null
}

/** Counts accepted events by app, for the people who run the service. */
export interface AcceptedList {
  add(appId: string, events: number, nowMs: number): void
}
