import { describe, expect, it } from 'vitest'
import { compileSchema } from '../../../load/bench/schema.js'
import { createRng, MAKERS, uniformBody, type variedBody } from '../../../load/payloads.js'
import { validate } from '../../../src/decode/validator.ts'
import { DECODED_WORDS } from '../../../src/ring/layout.ts'

const NOW_MS = Date.UTC(2026, 10, 20, 12)
const options = (seed: number, events: number) => ({ rng: createRng(seed), appKey: 'ak_test_1', events, nowMs: NOW_MS })

function bodies(make: typeof variedBody, count: number, events: number, seed: number): string[] {
  const settings = options(seed, events)
  return Array.from({ length: count }, () => make(settings))
}

describe('payloads', () => {
  it('come out the same from the same seed, and different from another, with as many events as were asked for', () => {
    for (const make of Object.values(MAKERS)) {
      expect(bodies(make, 20, 3, 7)).toEqual(bodies(make, 20, 3, 7))
      expect(bodies(make, 20, 3, 7)).not.toEqual(bodies(make, 20, 3, 8))
      for (const events of [0, 1, 10, 100]) expect(JSON.parse(make(options(1, events))).events).toHaveLength(events)
    }
  })

  it('fit the service’s own rules, and the schema that the benchmark compares with', () => {
    const words = new Int32Array(DECODED_WORDS)
    const fitsSchema = compileSchema(() => NOW_MS)
    for (const make of Object.values(MAKERS)) {
      const all = [...bodies(make, 300, 1, 1), ...bodies(make, 30, 10, 2), ...bodies(make, 5, 100, 3)]
      const judged = all.map((body) => validate(new Uint8Array(Buffer.from(body)), NOW_MS, words, 0))
      expect(judged.filter((validation) => validation.kind === 'refused')).toEqual([])
      expect(new Set(judged.map((validation) => validation.appKey))).toEqual(new Set(['ak_test_1']))
      expect(all.filter((body) => !fitsSchema(JSON.parse(body)))).toEqual([])
    }
  })

  it('are near 615 bytes for one event, 5.6 KB for ten and 56 KB for a hundred, in plain ASCII', () => {
    const sizes = [1, 10, 100].map((events) => uniformBody(options(1, events)))
    expect(sizes.every((body) => /^[\x20-\x7e]+$/.test(body))).toBe(true)
    expect(Math.abs(sizes[0].length - 615)).toBeLessThan(20)
    expect(Math.abs(sizes[1].length - 5600)).toBeLessThan(150)
    expect(Math.abs(sizes[2].length - 56_000)).toBeLessThan(1500)
  })
})
