// What the clocks of a node, Redis and NATS let the audit do.

import { describe, expect, it } from 'vitest'
import { type ClockState, Clocks } from '../../../src/audit/clocks.ts'
import { systemTimers } from '../../../src/lib/timers.ts'

const MINUTE_MS = 60_000
/** A minute that has just begun. */
const START_MS = Date.UTC(2026, 10, 20, 12)
const NOON = START_MS / MINUTE_MS

/** Clocks whose node's wall and monotonic times a test sets, `seconds` into a minute. */
function stage(seconds = 10) {
  const time = { wallMs: START_MS + seconds * 1000, monotonicMs: 5000 }
  const clocks = new Clocks({ ...systemTimers, nowMs: () => time.wallMs, monotonicMs: () => time.monotonicMs })
  const pass = (ms: number): void => {
    time.wallMs += ms
    time.monotonicMs += ms
  }
  return { time, clocks, pass, trueMs: time.wallMs }
}

const boundsOf = (state: ClockState) => (state.kind === 'agree' ? state.bounds : null)

describe('the clocks', () => {
  it('let nothing be closed before Redis has said its time', () => {
    const { clocks, trueMs } = stage()
    clocks.heard('nats', trueMs)
    expect(clocks.state()).toEqual({ kind: 'redis_unknown' })
  })

  it('let a minute be closed five seconds after its end by Redis’s clock', () => {
    const { clocks, trueMs, pass } = stage(4)
    clocks.heard('redis', trueMs)
    expect(boundsOf(clocks.state())).toMatchObject({
      closable: NOON - 2,
      passed: NOON - 2,
      latest: NOON + 2,
      running: NOON,
    })
    pass(1000)
    expect(boundsOf(clocks.state())?.closable).toBe(NOON - 1)
  })

  it('go on by monotonic time, whatever the node’s own clock does', () => {
    const { clocks, trueMs, time, pass } = stage()
    clocks.heard('redis', trueMs)
    clocks.heard('nats', trueMs)
    time.wallMs += 20_000
    pass(2 * MINUTE_MS)
    expect(boundsOf(clocks.state())?.closable).toBe(NOON + 1)
    time.wallMs += 2 * 3_600_000
    expect(clocks.state()).toEqual({ kind: 'skewed' })
    expect(clocks.skews()).toEqual({ redis: -7_220_000, nats: -7_220_000 })
  })

  it('stop a node that is 30 s from the median, and none that is closer', () => {
    for (const aheadMs of [-30_000, 30_000]) {
      const { clocks, trueMs } = stage()
      clocks.heard('redis', trueMs + aheadMs)
      clocks.heard('nats', trueMs + aheadMs - 1000 * Math.sign(aheadMs))
      expect(clocks.state().kind).toBe('agree')
      clocks.heard('nats', trueMs + aheadMs + 1000 * Math.sign(aheadMs))
      expect(clocks.state().kind).toBe('skewed')
    }
  })

  it('let nobody close a minute where no two agree', () => {
    const { clocks, trueMs } = stage()
    clocks.heard('redis', trueMs + 40_000)
    expect(clocks.state()).toEqual({ kind: 'apart' })
    clocks.heard('nats', trueMs - 40_000)
    expect(clocks.state()).toEqual({ kind: 'apart' })
    clocks.heard('nats', trueMs)
    expect(clocks.state().kind).toBe('agree')
  })

  it('close nothing of the future where Redis’s clock is far ahead, and wait for it where it is behind', () => {
    const { clocks, trueMs } = stage()
    clocks.heard('nats', trueMs)
    clocks.heard('redis', trueMs + 90 * MINUTE_MS)
    const ahead = { closable: NOON - 1, passed: NOON + 89, latest: NOON + 92, running: NOON }
    expect(boundsOf(clocks.state())).toMatchObject(ahead)
    clocks.heard('redis', trueMs - 90 * MINUTE_MS)
    const behind = { closable: NOON - 91, passed: NOON - 91, latest: NOON - 88, running: NOON }
    expect(boundsOf(clocks.state())).toMatchObject(behind)
  })
})
