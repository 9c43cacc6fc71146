import { beforeAll, describe, it } from 'vitest'
import { CLAIMS, expectSeedsToHold } from './expect.ts'
import { LuaMachine } from './lua.ts'

let lua: LuaMachine

beforeAll(async () => {
  lua = await LuaMachine.open()
})

describe('every invariant', () => {
  for (const [kind, claim] of CLAIMS) it(claim, () => expectSeedsToHold(lua, kind, { from: 9, to: 120 }))

  it('holds over minutes, with clocks hours wrong, apps deleted and moved, and stores aged and lost', () =>
    expectSeedsToHold(lua, 'far', { from: 1, to: 25 }))

  it('holds with spools, through outages of NATS of seconds to hours', () =>
    expectSeedsToHold(lua, 'spool', { from: 6, to: 50 }))
})
