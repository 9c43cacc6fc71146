// Bytes that each app stores, as one node counts them, for tests of other parts.

import { systemTimers } from '../../src/lib/timers.ts'
import { StoredBytes } from '../../src/limits/stored-bytes.ts'

export function storedBytes(nowMs: () => number = Date.now): StoredBytes {
  return new StoredBytes({ nowMs, nodes: () => 1, timers: systemTimers })
}
