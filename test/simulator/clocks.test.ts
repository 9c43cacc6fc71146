// Clocks that are hours wrong, one at a time, while Redis goes away and comes back.

import { beforeAll, describe, expect, it } from 'vitest'
import type { AppRecord } from '../../src/apps/app-record.ts'
import type { History, Send, Step } from './history.ts'
import { LuaMachine } from './lua.ts'
import { type Result, run } from './run.ts'

const NOON_MS = Date.UTC(2026, 10, 20, 12)
const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS

let lua: LuaMachine
beforeAll(async () => {
  lua = await LuaMachine.open()
})

function history(limits: Partial<AppRecord>, endMs: number, steps: readonly Step[]): History {
  const app: AppRecord = { app_key: 'ak_0', app_id: 'app0', plan: '5m', subscription: 'active', ...limits }
  return { name: 'clocks', seed: 1, epochMs: NOON_MS, nodes: 2, apps: [app], steps, endMs }
}

/** Batches of 10 events, one a second by turns to both nodes. */
function sends(fromMs: number, batches: number): Step[] {
  const send: Omit<Send, 'node'> = {
    kind: 'send',
    app: 0,
    batches: 1,
    gapMs: 0,
    events: 10,
    keyed: false,
    tries: 1,
    retryAfterMs: 0,
    retryOn: 0,
    replays: 0,
  }
  return Array.from({ length: batches }, (_, at) => ({ ...send, atMs: fromMs + at * 1000, node: at % 2 }))
}

const says = ({ notices }: Result, words: string): number => notices.filter((line) => line.includes(words)).length

describe('with a clock that is hours wrong', () => {
  const skewedNode = (byMs: number): Step[] => [
    { atMs: 1000, kind: 'clock', of: 0, byMs },
    { atMs: 5000, kind: 'redis killed', comesBack: 'with all', forMs: 80_000 },
    // The old end of the audit's minutes is long past when Redis is back.
    ...[2, 3, 4, 5, 6].flatMap((minute) => sends(minute * MINUTE_MS + 2000, 12)),
  ]

  it.each([2, 26])('of a node, by %i h, an app has its whole limit each minute after Redis was away', async (hours) => {
    const steps = [...sends(2000, 3), ...skewedNode(hours * HOUR_MS)]
    const result = await run(history({ events_per_minute: 100 }, 8 * MINUTE_MS, steps), lua)
    expect(result.violation).toBe(null)
    // 30 events, and then 5 minutes of 120 of which 100 are taken; at the end a probe of each node.
    expect([result.accepted, result.refused]).toEqual([3 + 5 * 10 + 2, 5 * 2])
    expect(says(result, "this node's clock is 30 s or more")).toBe(1)
  })

  it('of Redis, ahead for 20 s, an app gets its month once, and all of it is charged', async () => {
    const steps: Step[] = [
      ...sends(2000, 1),
      { atMs: 60_000, kind: 'clock', of: 'redis', byMs: HOUR_MS / 2 },
      ...sends(61_000, 18),
      { atMs: 80_000, kind: 'clock', of: 'redis', byMs: -HOUR_MS / 2 },
      // Once the audit has read what was taken meanwhile.
      ...sends(90_000, 10),
      ...sends(6 * MINUTE_MS, 10),
      // When the minute comes that Redis's clock once showed.
      ...sends(32 * MINUTE_MS, 10),
    ]
    const result = await run(history({ events_per_month: 200 }, 34 * MINUTE_MS, steps), lua)
    expect(result.violation).toBe(null)
    // 220 events, with the tolerance of a month.
    expect([result.accepted, result.refused]).toEqual([22 + 2, 27])
    expect(says(result, 'name a minute that has not begun')).toBe(1)
  })

  it('of Redis, behind for good, an app has its whole limit each minute', async () => {
    const steps: Step[] = [
      ...sends(2000, 3),
      { atMs: 3 * MINUTE_MS, kind: 'clock', of: 'redis', byMs: -2 * HOUR_MS },
      ...[5, 6, 7, 8].flatMap((minute) => sends(minute * MINUTE_MS + 2000, 12)),
    ]
    const result = await run(history({ events_per_minute: 100 }, 9 * MINUTE_MS, steps), lua)
    expect(result.violation).toBe(null)
    expect([result.accepted, result.refused]).toEqual([3 + 4 * 10 + 2, 4 * 2])
    expect(says(result, "minutes were closed that Redis's clock has not passed")).toBeGreaterThan(0)
  })
})
