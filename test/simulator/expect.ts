// What must hold in every history, for the short and the long run of the simulator.

import { expect } from 'vitest'
import { generate, type History, describe as textOf, type Weather } from './history.ts'
import type { LuaMachine } from './lua.ts'
import { run } from './run.ts'

export const CLAIMS: readonly (readonly [Weather, string])[] = [
  ['calm', 'holds while nodes and servers are well'],
  ['crashes', 'holds while nodes start, stop, stall and are killed, and their clocks step'],
  ['plans', 'holds while plans change'],
  ['redis', 'holds while Redis is slow, away, emptied and rolled back'],
  ['nats', 'holds while NATS is slow, away, full and loses its tail'],
  ['all', 'holds while all of it goes on at once'],
]

export async function expectToHold(lua: LuaMachine, history: History): Promise<void> {
  const { violation } = await run(history, lua)
  expect(
    violation,
    `npm run simulate -- --runs 1 --seed ${history.seed} --scenario ${history.name}\n${textOf(history)}`,
  ).toBe(null)
}

/** Both seeds are inside. */
export async function expectSeedsToHold(
  lua: LuaMachine,
  weather: Weather,
  { from, to }: { readonly from: number; readonly to: number },
): Promise<void> {
  for (let seed = from; seed <= to; seed++) await expectToHold(lua, generate(seed, weather))
}
