// One app's lease, with the replies of Redis made up.

import { describe, expect, it } from 'vitest'
import { type CallAsk, Lease } from '../../../src/admit/lease.ts'
import type { SyncCall, SyncReply, Verdict } from '../../../src/admit/lease-script.ts'
import { RedisTime } from '../../../src/admit/redis-time.ts'
import { anApp } from './apps.ts'

const NOON_MS = Date.UTC(2026, 10, 20, 12)
const MINUTE_MS = 60_000

const ask: CallAsk = {
  node: 'one',
  seq: 1,
  deadlineMs: NOON_MS + 1000,
  mark: 0,
  nodes: 1,
  costs: [],
  keeps: true,
  isProbe: false,
}

type Done = SyncReply & { kind: 'done' }

/** A reply that grants every cost and `more` on top, where nobody else has used anything. */
function granting(call: SyncCall, more: number, parts: Partial<Done> = {}): Done {
  const window = call.windows.at(-1)
  const admitted = call.costs.reduce((sum, cost) => sum + cost, 0)
  const granted = (window?.spent ?? 0) + (window?.keep ?? 0) + admitted + more
  return {
    kind: 'done',
    clockMs: NOON_MS,
    nowMs: NOON_MS,
    bornMs: 1,
    version: 1,
    isCurrent: true,
    minuteUsed: granted,
    dayUsed: granted,
    cycleUsed: granted,
    granted,
    verdicts: call.costs.map((): Verdict => 'granted'),
    ...parts,
  }
}

function newLease(): Lease {
  let lastId = 0
  return new Lease(anApp(), () => ++lastId)
}

describe('a lease', () => {
  const app = anApp()

  it('is spent without asking, and not beyond what is in hand', () => {
    const lease = newLease()
    expect(lease.spend(app, 1, NOON_MS)).toBeNull()
    const call = lease.call({ ...ask, costs: [5] }, NOON_MS, 0)
    expect(lease.answered(call, granting(call, 10))).toEqual([NOON_MS])
    expect(lease.holding).toBe(10)
    expect(lease.spend(app, 11, NOON_MS + 1)).toBeNull()
    expect(lease.spend(app, 10, NOON_MS + 1)).toBe(NOON_MS + 1)
    expect(lease.spend(app, 1, NOON_MS + 2)).toBeNull()
  })

  it('is thrown in for requests that wait, so that each is judged by all there is', () => {
    const lease = newLease()
    const first = lease.call({ ...ask, costs: [5] }, NOON_MS, 0)
    lease.answered(first, granting(first, 10))
    const second = lease.call({ ...ask, costs: [12] }, NOON_MS, 1)
    expect(second.windows[0]).toMatchObject({ spent: 5, keep: 0 })
    // Until the answer nobody else may have it: the call has given it away.
    expect(lease.spend(app, 1, NOON_MS)).toBeNull()
  })

  it('goes on being spent while more is fetched, as what the call keeps', () => {
    const lease = newLease()
    const first = lease.call({ ...ask, costs: [5] }, NOON_MS, 0)
    lease.answered(first, granting(first, 10))
    const ahead = lease.call(ask, NOON_MS, 1)
    expect(ahead.windows[0]).toMatchObject({ spent: 5, keep: 10 })
    expect(lease.spend(app, 4, NOON_MS)).toBe(NOON_MS)
    lease.answered(ahead, granting(ahead, 20))
    expect(lease.holding).toBe(26)
  })

  it('is not carried into the next minute', () => {
    const lease = newLease()
    const call = lease.call({ ...ask, costs: [5] }, NOON_MS, 0)
    lease.answered(call, granting(call, 10))
    expect(lease.spend(app, 1, NOON_MS + MINUTE_MS)).toBeNull()
    const next = lease.call(ask, NOON_MS + MINUTE_MS, 1)
    expect(next.windows).toMatchObject([
      { spent: 5, keep: 0, granted: 15 },
      { spent: 0, keep: 0, granted: 0 },
    ])
  })

  it('takes at a time inside the window charged, though the answer comes after its end', () => {
    const lease = newLease()
    const call = lease.call({ ...ask, costs: [5] }, NOON_MS, 0)
    lease.spend(app, 1, NOON_MS + MINUTE_MS)
    const [takenAtMs] = lease.answered(call, granting(call, 0)) as number[]
    expect(takenAtMs).toBe(NOON_MS + MINUTE_MS - 1)
    expect(() => lease.settle(app, 5, takenAtMs)).not.toThrow()
  })

  it('opened too early falls back to the minute that Redis says', () => {
    const lease = newLease()
    const call = lease.call({ ...ask, costs: [5] }, NOON_MS + MINUTE_MS, 0)
    const reply = granting(call, 0, { nowMs: NOON_MS + MINUTE_MS - 2, isCurrent: false, verdicts: [], granted: 0 })
    expect(lease.answered(call, reply)).toBe('again')
    const again = lease.call({ ...ask, costs: [5] }, NOON_MS + MINUTE_MS - 1, 1)
    expect(again.windows[(again.current ?? 0) - 1]).toMatchObject({ startMs: NOON_MS })
  })

  it('lets go of what limits granted that have changed since', () => {
    const lease = newLease()
    const first = lease.call({ ...ask, costs: [5] }, NOON_MS, 0)
    lease.answered(first, granting(first, 10))
    expect(lease.spend(anApp({ eventsPerMinute: 10 }), 1, NOON_MS)).toBeNull()
    const call = lease.call({ ...ask, costs: [] }, NOON_MS, 1)
    expect(call).toMatchObject({ minuteLimit: 10, windows: [{ keep: 0 }] })
    // Changed once more while Redis judged by the limits before.
    lease.spend(anApp({ eventsPerMinute: 6 }), 1, NOON_MS)
    lease.answered(call, granting(call, 3))
    expect(lease.holding).toBe(0)
  })

  it('gives a window up once Redis knows all of it, and not before', () => {
    const lease = newLease()
    const first = lease.call({ ...ask, costs: [5] }, NOON_MS, 0)
    const [takenAtMs] = lease.answered(first, granting(first, 0)) as number[]
    lease.spend(app, 1, NOON_MS + MINUTE_MS)
    const second = lease.call(ask, NOON_MS + MINUTE_MS, 1)
    lease.answered(second, granting(second, 0, { nowMs: NOON_MS + MINUTE_MS }))
    expect(lease.call(ask, NOON_MS + MINUTE_MS, 2).windows).toHaveLength(2)
    lease.settle(app, 5, takenAtMs)
    const third = lease.call(ask, NOON_MS + MINUTE_MS, 3)
    lease.answered(third, granting(third, 0, { nowMs: NOON_MS + MINUTE_MS }))
    expect(lease.call(ask, NOON_MS + MINUTE_MS, 4).windows).toHaveLength(1)
  })
})

describe('the time of Redis', () => {
  it('is never ahead of what Redis may read, and gets nearer with each answer', () => {
    const time = new RedisTime(0, 1000)
    time.learn(500_000, 1000, 1040)
    expect(time.nowMs(1040)).toBe(500_000)
    time.learn(500_100, 1100, 1105)
    expect(time.nowMs(1105)).toBe(500_100)
    // An answer that took long says less than what is known.
    time.learn(500_200, 1180, 1400)
    expect(time.nowMs(1400)).toBe(500_395)
  })

  it('follows a clock that was set, either way', () => {
    const time = new RedisTime(500_000, 0)
    time.learn(900_000, 10, 12)
    expect(time.nowMs(12)).toBe(900_000)
    time.learn(100_000, 20, 22)
    expect(time.nowMs(22)).toBe(100_003)
  })
})
