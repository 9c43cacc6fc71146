// What the log says of clocks that differ.

import { expect, it } from 'vitest'
import { ClockWatch } from '../../../src/audit/clock-watch.ts'
import type { ClockState } from '../../../src/audit/clocks.ts'

const AGREE: ClockState = { kind: 'agree', bounds: { closable: 0, passed: 0, latest: 0, running: 0, nowMs: 0 } }

function stage() {
  const said: string[] = []
  const watch = new ClockWatch((message, level) => said.push(`${level ?? 'warn'}: ${message}`))
  /** So many rounds in which Redis's clock is ahead by this. */
  const rounds = (count: number, redis: number | null, state: ClockState = AGREE): void => {
    for (let round = 0; round < count; round++) watch.look(state, { redis, nats: null })
  }
  return { said, watch, rounds }
}

it('a skew of two seconds is said once, after three rounds, and its end once it is below one', () => {
  const { said, rounds } = stage()
  rounds(2, 2100)
  rounds(1, 1900)
  rounds(2, -2100)
  expect(said).toEqual([])
  rounds(1, -2100)
  rounds(50, -2500)
  rounds(50, -1500)
  expect(said).toEqual([expect.stringMatching(/^warn: Redis's clock is 2\.1 s behind this machine's; /)])
  rounds(3, 900)
  expect(said.slice(1)).toEqual(["info: Redis's clock agrees with this node's again"])
})

it('a clock that stops the audit is said once, and its end, and a start says nothing', () => {
  const { said, watch, rounds } = stage()
  rounds(3, null, { kind: 'redis_unknown' })
  rounds(2, 0)
  expect(said).toEqual([])
  rounds(2, 0, { kind: 'skewed' })
  expect(watch.stopped).toBe('skewed')
  expect(said).toEqual([expect.stringMatching(/^error: this node's clock is 30 s or more/)])
  rounds(2, 0, { kind: 'apart' })
  rounds(2, 0)
  expect(watch.stopped).toBe(null)
  expect(said.slice(1)).toEqual([
    expect.stringMatching(/^error: the clocks of this node, Redis and NATS are 30 s or more apart/),
    'info: the clocks agree again: this node audits the limits',
  ])
})
