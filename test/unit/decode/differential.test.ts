// The scanner held against the validator, and both against JSON.parse and simdjson, over damaged random bodies.

import { expect, test } from 'vitest'
import { isJson, loadSimdjson } from '../../../src/decode/simdjson.ts'
import { damaged, NOW_MS, randomBody, seededRandom } from './bodies.ts'
import { judge, parses } from './oracle.ts'

const CASES = Number(process.env.SLUICE_TEST_CASES ?? 10_000)
const SEED = Number(process.env.SLUICE_TEST_SEED ?? Date.now() % 1_000_000_000)
/** With fewer cases (one, when a failure is repeated) shares say nothing. */
const LEAST_SHARE = CASES >= 1000 ? 0.05 : 0

test('scanner, validator and JSON.parse agree on every body, whole or damaged', () => {
  console.info(`decode: SLUICE_TEST_SEED=${SEED} SLUICE_TEST_CASES=${CASES}`)
  const counts = { accepted: 0, scanned: 0, invalid_json: 0, validation_failed: 0 }
  for (let index = 0; index < CASES; index++) {
    const random = seededRandom(SEED + index)
    const whole = Buffer.from(randomBody(random))
    const body = random(5) < 2 ? whole : damaged(random, whole)
    try {
      const { validation, scanned } = judge(body, random(40), NOW_MS + random(3) - 1)
      counts[validation.kind === 'accepted' ? 'accepted' : validation.code] += 1
      if (scanned) counts.scanned += 1
    } catch (error) {
      const repeat = `SLUICE_TEST_SEED=${SEED + index} SLUICE_TEST_CASES=1`
      throw new Error(`repeat with ${repeat}; the body in base64: ${body.toString('base64')}`, { cause: error })
    }
  }
  // A run in which one answer is rare proves little.
  for (const count of Object.values(counts)) expect(count / CASES).toBeGreaterThanOrEqual(LEAST_SHARE)
  // Escaped names and app keys are all that the scanner leaves to the validator of what fits.
  expect(counts.scanned).toBeGreaterThanOrEqual(counts.accepted * LEAST_SHARE * 17)
})

const simdjson = loadSimdjson()

test('simdjson, its no asked again, agrees with JSON.parse on grammar', () => {
  if (simdjson === null) throw new Error('simdjson did not compile in test/: it wants python3, make and g++')
  const disagreed: string[] = []
  for (let index = 0; index < CASES / 10; index++) {
    const random = seededRandom(SEED + index)
    const body = damaged(random, Buffer.from(randomBody(random)))
    if (isJson(simdjson, body) !== parses(body)) disagreed.push(`SLUICE_TEST_SEED=${SEED + index}`)
  }
  expect(disagreed).toEqual([])
})
