import { beforeAll, describe, it } from 'vitest'
import { CLAIMS, expectSeedsToHold } from './expect.ts'
import { LuaMachine } from './lua.ts'

let lua: LuaMachine

beforeAll(async () => {
  lua = await LuaMachine.open()
})

// More than `npm test` runs, and few beside the thousands of `npm run simulate`.
describe('every invariant', () => {
  for (const [kind, claim] of CLAIMS) it(claim, () => expectSeedsToHold(lua, kind, { from: 2, to: 25 }))

  it('holds over minutes, with clocks hours wrong, apps deleted and moved, and stores aged and lost', () =>
    expectSeedsToHold(lua, 'far', { from: 1, to: 6 }))

  // A few at a time, since each takes seconds, and a test that takes minutes is taken for one that hangs.
  it.each([2, 7])('holds with spools, through outages of NATS of seconds to hours: from seed %i', (from) =>
    expectSeedsToHold(lua, 'spool', { from, to: from + 4 }),
  )
})
