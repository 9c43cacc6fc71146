// What a supervisor and its front ends say to each other.

import type { Parts } from '../http/admin.ts'

export type Question = 'page' | 'health'

/** To a front end. It is asked nothing before it serves, and not the same again before it has answered. */
export interface Asking {
  readonly ask: Question
}

export interface HealthReport {
  readonly kind: 'health'
  readonly ready: boolean
  readonly parts: Parts
}

/** From a front end. */
export type Report =
  | { readonly kind: 'serving' }
  /** It cannot start, for a reason that an operator must mend. */
  | { readonly kind: 'refused'; readonly why: string }
  /** Its metrics; sent once more, unasked, as the last thing before it ends. null: they cannot be had. */
  | { readonly kind: 'page'; readonly text: string | null }
  | HealthReport
