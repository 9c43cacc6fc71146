import { describe, expect, it } from 'vitest'
import { compileSchema } from '../../../load/bench/schema.js'
import { createRng, MAKERS, uniformBody, uuid, variedBody } from '../../../load/payloads.js'
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

  it('vary in what clients vary in', () => {
    const text = bodies(variedBody, 200, 3, 5)
    const events = text.flatMap((body) => JSON.parse(body).events as Record<string, unknown>[])
    expect(new Set(events.map((event) => event.type))).toEqual(new Set(['track', 'screen', 'revenue']))
    expect(events.every((event) => (event.type === 'revenue') === (event.revenue !== undefined))).toBe(true)
    expect(new Set(events.map((event) => Object.keys(event).join())).size).toBeGreaterThan(400)
    expect(new Set(text.map((body) => body.length)).size).toBeGreaterThan(150)
    const traits = [/\\u[0-9a-f]{4}/, /\\"/, /\\n/, /[\u0400-\u04ff]/, /[\u4e00-\u9fff]/, /🎉/, /"deep":/, /: \{/]
    expect(traits.filter((trait) => !text.some((body) => trait.test(body)))).toEqual([])
  })

  it('make idempotency keys that are UUIDs and do not repeat', () => {
    const rng = createRng(9)
    const keys = Array.from({ length: 2000 }, () => uuid(rng))
    for (const key of keys) expect(key).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
    expect(new Set(keys).size).toBe(keys.length)
  })
})
