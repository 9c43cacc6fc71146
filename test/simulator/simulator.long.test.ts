import { beforeAll, describe, it } from 'vitest'
import { CLAIMS, expectSeedsToHold } from './expect.ts'
import { LuaMachine } from './lua.ts'

let lua: LuaMachine

beforeAll(async () => {
  lua = await LuaMachine.open()
})

describe('what must hold in every history', () => {
  for (const [weather, claim] of CLAIMS) it(claim, () => expectSeedsToHold(lua, weather, { from: 21, to: 120 }))
})
