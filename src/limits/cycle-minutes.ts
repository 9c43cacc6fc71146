// Billing cycles in whole minutes, as the shared limits count: a minute belongs to the cycle that holds its beginning.

import type { App } from '../apps/app.ts'
import { cycleAt, MINUTE_MS } from '../apps/plans.ts'

export interface CycleMinutes {
  /** The first minute of the cycle. */
  readonly first: number
  /** The first minute of the one after. */
  readonly next: number
}

/** `minute`: in UTC minutes since 1970. */
export function cycleMinutesAt({ billingAnchorMs }: App, minute: number): CycleMinutes {
  const { startMs, endMs } = cycleAt(billingAnchorMs, minute * MINUTE_MS)
  return { first: Math.ceil(startMs / MINUTE_MS), next: Math.ceil(endMs / MINUTE_MS) }
}
