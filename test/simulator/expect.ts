// The claims about every generated history, for the short and the long test of the simulator.

import { expect } from 'vitest'
import { generate } from './generate.ts'
import { type History, type HistoryKind, describe as textOf } from './history.ts'
import type { LuaMachine } from './lua.ts'
import { run } from './run.ts'

export const CLAIMS: readonly (readonly [HistoryKind, string])[] = [
  ['calm', 'holds without faults'],
  ['crashes', 'holds while nodes start, stop, stall and are killed, and their clocks step'],
  ['plans', 'holds while plans change'],
  ['redis', 'holds while Redis is slow, away, emptied and rolled back'],
  ['nats', 'holds while NATS is slow, away, full and loses its tail'],
  ['servers', 'holds while one of three NATS servers is cut off from the others, or behind them'],
  ['losses', 'holds while NATS loses its stream, the end of it, or a bucket, and each loss is told'],
  ['all', 'holds under all of these at once'],
  [
    'journal',
    'holds on one machine, through crashes, power cuts, a disk that is slow, full, fails, lies or flips a bit, and strangers in the journal, and each damage is named',
  ],
]

/** `refused`: how many requests must have got another answer than 202; absent: it does not matter. */
export async function expectToHold(lua: LuaMachine, history: History, refused?: number): Promise<void> {
  const result = await run(history, lua)
  const name = `npm run simulate -- --runs 1 --seed ${history.seed} --scenario ${history.name}\n${textOf(history)}`
  expect(result.violation, name).toBe(null)
  if (refused !== undefined) expect(result.refused, name).toBe(refused)
}

/** `from` and `to` are included. */
export async function expectSeedsToHold(
  lua: LuaMachine,
  kind: HistoryKind,
  { from, to }: { readonly from: number; readonly to: number },
): Promise<void> {
  for (let seed = from; seed <= to; seed++) await expectToHold(lua, generate(seed, kind))
}
