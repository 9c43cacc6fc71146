// Billing cycles in whole minutes, for the shared limits: a minute belongs to the cycle in which it begins.

import type { App } from '../apps/app.ts'
import { cycleAt } from '../apps/plans.ts'
import { MINUTE_MS } from '../lib/spans.ts'

export interface CycleMinutes {
  readonly first: number
  /** The first minute of the next cycle. */
  readonly next: number
}

/** Minutes are UTC minutes since 1970. */
export function cycleMinutesAt({ billingAnchorMs }: Pick<App, 'billingAnchorMs'>, minute: number): CycleMinutes {
  const { startMs, endMs } = cycleAt(billingAnchorMs, minute * MINUTE_MS)
  return { first: Math.ceil(startMs / MINUTE_MS), next: Math.ceil(endMs / MINUTE_MS) }
}
