// What every part of this room is given.

import type { Timers } from '../../lib/timers.ts'
import type { RedisLink } from '../../redis/link.ts'

export interface SharedContext {
  readonly link: RedisLink
  /** Unique to this process, and new at each start. */
  readonly nodeId: string
  readonly partitions: number
  readonly timers: Timers
  /** Redis refused a call: its requests went on without Redis. */
  readonly onFault: (error: unknown) => void
}
