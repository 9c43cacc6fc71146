// The line of `sluice check` about clocks.

import { expect, it } from 'vitest'
import { Clocks } from '../../../../src/audit/clocks.ts'
import { clockFinding } from '../../../../src/cli/check/check-clocks.ts'
import { systemTimers } from '../../../../src/lib/timers.ts'

const NOW_MS = Date.UTC(2026, 10, 20, 12)

function findingOf(redisSkewMs: number, natsSkewMs: number | null): string {
  const clocks = new Clocks({ ...systemTimers, nowMs: () => NOW_MS, monotonicMs: () => 1000 })
  clocks.heard('redis', NOW_MS + redisSkewMs)
  if (natsSkewMs !== null) clocks.heard('nats', NOW_MS + natsSkewMs)
  const { part, state, detail } = clockFinding(clocks)
  return `${state} ${part} ${detail}`
}

it.each([
  [100, -1900, 'ok clocks this machine, Redis and NATS'],
  [100, null, 'ok clocks this machine and Redis; NATS does not say its time'],
  [
    -2000,
    5000,
    "warn clocks this machine, Redis and NATS; Redis's clock is 2.0 s behind this machine's; NATS's clock is 5.0 s ahead of this machine's; set NTP up",
  ],
  [
    60_000,
    61_000,
    "FAIL clocks Redis's clock is 60.0 s ahead of this machine's; NATS's clock is 61.0 s ahead of this machine's; a node here would not audit: set NTP up",
  ],
  [60_000, null, "FAIL clocks Redis's clock is 60.0 s ahead of this machine's; no node would audit: set NTP up"],
])('Redis ahead by %s ms and NATS by %s ms', (redisSkewMs, natsSkewMs, line) => {
  expect(findingOf(redisSkewMs, natsSkewMs)).toBe(line)
})
