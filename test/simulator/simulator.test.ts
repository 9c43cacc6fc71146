import { beforeAll, describe, expect, it } from 'vitest'
import { CLAIMS, expectSeedsToHold, expectToHold } from './expect.ts'
import { LuaMachine } from './lua.ts'
import { run } from './run.ts'
import { SCENARIOS } from './scenarios.ts'

let lua: LuaMachine

beforeAll(async () => {
  lua = await LuaMachine.open()
})

describe('every invariant', () => {
  for (const [kind, claim] of CLAIMS) it(claim, () => expectSeedsToHold(lua, kind, { from: 1, to: 1 }))

  // The last messages of a delay come after its end, and a node that waits for them connects as much later.
  it('holds where a delay of NATS lasts to the end', () => expectSeedsToHold(lua, 'nats', { from: 202, to: 202 }))

  it('holds where a node ends after the last fault, which closes its connection to Redis', () =>
    expectSeedsToHold(lua, 'all', { from: 212_278, to: 212_278 }))

  it('holds where a segment ends within a commit whose line is damaged', () =>
    expectSeedsToHold(lua, 'journal', { from: 2959, to: 2959 }))

  it('holds where a process dies while it writes to a segment that was cut before the snapshot', () =>
    expectSeedsToHold(lua, 'journal', { from: 113_278, to: 113_278 }))

  it('holds with spools, through outages of NATS and nodes that die meanwhile', () =>
    expectSeedsToHold(lua, 'spool', { from: 1, to: 1 }))
})

// Each was a bug once.
describe('the service', () => {
  for (const { claim, history, refused } of Object.values(SCENARIOS)) {
    it(claim, () => expectToHold(lua, history, refused))
  }
})

describe('a Redis that came back with an older state', () => {
  it('gives out nothing of a limit again, for an open minute or for a closed one', async () => {
    const { history } = SCENARIOS['redis-forgets']
    const { accepted, refused, notices } = await run(history, lua)
    // All that the day allows, in batches of 5, and at the end one of another app for each node.
    expect(accepted).toBe(1000 / 5 + history.nodes)
    expect(refused).toBeGreaterThan(2000)
    expect(notices.filter((notice) => notice.includes('Redis has lost counts')).length).toBeGreaterThanOrEqual(6)
  })
})
