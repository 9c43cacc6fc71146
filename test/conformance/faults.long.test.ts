// The kit is held to account itself: each fault that an SDK can have is planted in one that has no other, and a scenario finds it
// and names it.

import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { runAll } from '../../clients/conformance/main.js'
import type { Result } from '../../clients/conformance/run.js'
import { SCENARIOS } from '../../clients/conformance/scenarios.js'

const SDK = join(import.meta.dirname, 'plain-sdk.mjs')
/** What hangs is seen sooner than the kit would, where an SDK without a fault does not need so long. */
const TIMEOUT_MS = 15_000
const SLOW = new Set(['answer-drips'])
const AT_ONCE = 12
const JUDGE = resolve(import.meta.dirname, '../../clients/conformance/judge.js')

/** Each fault with the scenario that finds it, and as what. */
const FAULTS: readonly (readonly [fault: string, scenario: string, kind: string])[] = [
  ['ignores Retry-After', '503-with-retry-after', 'too_early'],
  ['retries at once', '503-without-retry-after', 'too_early'],
  ['a flush hurries Retry-After', '503-flush-cannot-hurry', 'too_early'],
  ['does not wait for an answer', 'answer-late', 'too_early'],
  ['another key at a retry', '503-of-something-between', 'other_key'],
  ['halves keep the key', '413-halves', 'other_key'],
  ['changes the bytes of a retry', '503-without-retry-after', 'other_bytes'],
  ['one key for all batches', 'many-events', 'other_bytes'],
  ['a new event_id at each try', '503-without-retry-after', 'event_id'],
  ['drops without a report', '400-invalid-events', 'lost'],
  ['takes 200 for stored', '200-of-something-between', 'lost'],
  ['takes every replay for stored', 'replay-of-another-batch', 'lost'],
  ['forgets what waits at a restart', 'restart', 'lost'],
  ['reports a wrong reason', '402-trial', 'wrong_reason'],
  ['takes a 429 for over without seconds to wait', '429-without-retry-after', 'too_early'],
  ['takes a 429 for over without seconds to wait', '429-retry-after-is-a-date', 'too_early'],
  ['gives up at 429', '429-minute', 'wrong_reason'],
  ['gives up at 503', '503-without-retry-after', 'wrong_reason'],
  ['drops at 413', '413-halves', 'wrong_reason'],
  ['drops the whole batch', '400-invalid-events', 'wrong_reason'],
  ['drops what a page may not send', '401-origin', 'wrong_reason'],
  ['never sends its report', 'client-report', 'no_report'],
  ['sends what was refused again', '401-unknown-key', 'sent_again'],
  ['sends what is stored again', 'stored', 'twice'],
  ['too many events in a batch', 'many-events', 'bad_request'],
  ['too many bytes in a batch', 'many-bytes', 'bad_request'],
  ['leaves out the monthly id', 'stored', 'bad_request'],
  ['never compresses', 'compressed', 'not_compressed'],
  ['never learns the clock', 'clock-half-an-hour-behind', 'wrong_time'],
  ['corrects a clock that is right enough', 'clock-near-enough', 'wrong_time'],
  ['learns a clock from a slow answer', 'clock-after-a-sleep', 'wrong_time'],
  ['sends after an opt-out', 'opt-out', 'after_opt_out'],
  ['takes events after an opt-out', 'opt-in-again', 'after_opt_out'],
  ['forgets the opt-out at a restart', 'opt-out-outlasts-the-process', 'after_opt_out'],
  ['waits for ever for what drips', 'answer-drips', 'hangs'],
  ['stops after a failure', '503-of-something-between', 'hangs'],
  ['goes by errors alone', '400-outside-and-inside-of-events', 'wrong_reason'],
  ['goes by errors alone', '400-more-than-errors-names', 'too_many'],
  ['learns a clock from what half of the time explains', 'clock-of-a-slow-answer', 'wrong_time'],
  ['forgets Retry-After at a restart', 'restart-respects-retry-after', 'too_early'],
  ['never expires', 'expires-after-three-days', 'wrong_reason'],
  ['never ends a line', 'stored', 'driver'],
  ['drops what is no text', 'stored', 'driver'],
  ['has a reason of every object', 'stored', 'wrong_reason'],
  ['writes nonsense', 'stored', 'driver'],
  ['dies', 'stored', 'driver'],
  ['says no version', 'stored', 'driver'],
  ['answers another command', 'stored', 'driver'],
]

/** Each by its fault and scenario; that which has none by the scenario. */
const results = new Map<string, Result>()

beforeAll(async () => {
  const left = [...FAULTS]
  const work = async (): Promise<void> => {
    for (let one = left.shift(); one !== undefined; one = left.shift()) {
      const [fault, scenario] = one
      const patience = SLOW.has(scenario) ? {} : { timeoutMs: TIMEOUT_MS }
      const [result] = await runAll([process.execPath, SDK, fault], { only: [scenario], ...patience })
      results.set(`${fault}: ${scenario}`, result)
    }
  }
  // Side by side: nearly all of their time is waiting.
  const [whole] = await Promise.all([runAll([process.execPath, SDK]), ...Array.from({ length: AT_ONCE }, work)])
  for (const result of whole) results.set(result.name, result)
})

describe('an SDK that', () => {
  it.each(FAULTS)('%s is caught by %s, as %s', (fault, scenario, kind) => {
    const { state, problems } = results.get(`${fault}: ${scenario}`)!
    expect(state).toBe('failed')
    expect(problems.map((problem) => problem.kind)).toContain(kind)
  })

  it.each(SCENARIOS.map(({ name }) => name))('has no fault holds in %s', (scenario) => {
    expect(results.get(scenario)).toMatchObject({ state: 'held', problems: [] })
  })
})

it('has a fault planted for each kind of problem that the judge knows', () => {
  const [, union = ''] = /@typedef \{('bad_request'[^}]*)\} Kind/.exec(readFileSync(JUDGE, 'utf8')) ?? []
  const kinds = [...union.matchAll(/'(\w+)'/g)].map(([, kind]) => kind)
  expect(kinds.length).toBeGreaterThan(10)
  expect(kinds.filter((kind) => !FAULTS.some((fault) => fault[2] === kind))).toEqual([])
})

it('the kit has thirty scenarios or more, each with a name of its own', () => {
  const names = SCENARIOS.map(({ name }) => name)
  expect(new Set(names).size).toBe(names.length)
  expect(names.length).toBeGreaterThanOrEqual(30)
})
