// The parts of the service that the path of a request uses.

import type { AppStore } from '../apps/app.ts'
import type { TurnClock } from '../lib/clock.ts'
import type { Admission } from '../limits/admission.ts'
import type { StoredBytes } from '../limits/stored-bytes.ts'
import type { Metrics, Stage } from '../observe/metrics.ts'
import type { EventQueue } from '../queue/queue.ts'
import type { Ring } from '../ring/ring.ts'
import type { Inflater } from './inflate.ts'
import type { RequestObserver } from './observer.ts'

/** `answer`: the request was counted, and could not be answered, or shown to the observer. */
export type FaultStage = Stage | 'answer'

export interface IngestParts {
  readonly ring: Ring
  readonly inflater: Pick<Inflater, 'inflate'>
  readonly apps: AppStore
  readonly admission: Admission
  readonly bytes: Pick<StoredBytes, 'take' | 'giveBack' | 'store' | 'window' | 'secondsUntilRoom'>
  readonly queue: Pick<EventQueue, 'publish' | 'refusalOfNew'>
  readonly metrics: Metrics
  /** null: there is none. */
  readonly observer: RequestObserver | null
  /** The time of this turn of the event loop. */
  readonly turn: Pick<TurnClock, 'nowMs' | 'monotonicMs'>
  /** The monotonic time of this moment. */
  readonly monotonicMs: () => number
  /** Ids of batches without a key, and of refused requests. */
  readonly freshId: (nowMs: number) => string
  /** ISO 8601 text of a time in Unix ms. */
  readonly isoTime: (timeMs: number) => string
  /** A stage threw, which is a bug. The client gets a 503 with this id; null: its request had ended. */
  readonly onFault: (error: unknown, stage: FaultStage, requestId: string | null) => void
}
