// The kit is held to account itself: each fault that an SDK can have is planted in one that has no other, and a scenario finds it
// and names it.

import { join, resolve } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { runAll, tableOf } from '../../clients/conformance/main.js'
import type { Result } from '../../clients/conformance/run.js'
import { SCENARIOS } from '../../clients/conformance/scenarios.js'

const SDK = join(import.meta.dirname, 'plain-sdk.mjs')
/** What hangs is seen sooner than the kit would. */
const TIMEOUT_MS = 15_000
const AT_ONCE = 12

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
  ['never compresses', 'compressed', 'not_compressed'],
  ['never learns the clock', 'clock-half-an-hour-behind', 'wrong_time'],
  ['corrects a clock that is right enough', 'clock-near-enough', 'wrong_time'],
  ['learns a clock from a slow answer', 'clock-after-a-sleep', 'wrong_time'],
  ['sends after an opt-out', 'opt-out', 'after_opt_out'],
  ['takes events after an opt-out', 'opt-in-again', 'after_opt_out'],
  ['forgets the opt-out at a restart', 'opt-out-outlasts-the-process', 'after_opt_out'],
  ['writes nonsense', 'stored', 'driver'],
  ['dies', 'stored', 'driver'],
  ['says no version', 'stored', 'driver'],
  ['answers another command', 'stored', 'driver'],
]

/** Each by its fault; that which has none by the scenario. */
const results = new Map<string, Result>()

beforeAll(async () => {
  const left = [...FAULTS]
  const work = async (): Promise<void> => {
    for (let one = left.shift(); one !== undefined; one = left.shift()) {
      const [fault, scenario] = one
      const [result] = await runAll([process.execPath, SDK, fault], { only: [scenario], timeoutMs: TIMEOUT_MS })
      results.set(fault, result)
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work))
  for (const result of await runAll([process.execPath, SDK])) results.set(result.name, result)
})

describe('an SDK that', () => {
  it.each(FAULTS)('%s is caught by %s, as %s', (fault, _, kind) => {
    const { state, problems } = results.get(fault)!
    expect(state).toBe('failed')
    expect(problems.map((problem) => problem.kind)).toContain(kind)
  })

  it.each(SCENARIOS.map(({ name }) => name))('has no fault holds in %s', (scenario) => {
    expect(results.get(scenario)).toMatchObject({ state: 'held', problems: [] })
  })

  it('does not start is said to be so, and fails', async () => {
    const [result] = await runAll([resolve('no-such-program')], { only: ['stored'] })
    expect(result.state).toBe('failed')
    expect(tableOf([result])).toMatch(/driver: it does not start: .*ENOENT/)
  })

  it('lacks a capability has its scenarios left out, and the table says so', async () => {
    const driver = `process.stdout.write('{"version":1,"sdk":"none","capabilities":[]}\\n');process.stdin.resume()`
    const without = await runAll([process.execPath, '-e', driver], { only: ['restart', 'opt-out'] })
    expect(without.map(({ state }) => state)).toEqual(['left out', 'left out'])
    expect(tableOf(without)).toContain('none: 0 held, 0 failed, 2 left out')
  })
})

it('the kit has thirty scenarios or more, each with a name of its own', () => {
  const names = SCENARIOS.map(({ name }) => name)
  expect(new Set(names).size).toBe(names.length)
  expect(names.length).toBeGreaterThanOrEqual(30)
})
