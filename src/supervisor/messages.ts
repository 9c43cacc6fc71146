// The messages between a supervisor and its worker processes.

import type { Part } from '../contract/health.ts'

export type Question = 'page' | 'health'

/** To a worker process that serves. The same question is sent again only after its answer. */
export interface Asking {
  readonly ask: Question
}

export interface HealthReport {
  readonly kind: 'health'
  readonly ready: boolean
  readonly parts: readonly Part[]
}

/** From a worker process. */
export type Report =
  | { readonly kind: 'serving' }
  /** It cannot start, for a reason that an operator must fix. */
  | { readonly kind: 'refused'; readonly why: string }
  /** Its metrics, which it also sends as its last message. null: they cannot be read. */
  | { readonly kind: 'page'; readonly text: string | null }
  | HealthReport
