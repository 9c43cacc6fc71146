import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Histogram } from '../../../src/observe/histogram.ts'

describe('histogram', () => {
  it('counts a value that equals a bound in the bucket of that bound', () => {
    const histogram = new Histogram([1, 2, 5])
    for (const value of [0, 1, 1.5, 2, 5, 5.1]) histogram.observe(value)
    expect([...histogram.counts]).toEqual([2, 2, 1, 1])
    expect(histogram.sum).toBeCloseTo(14.6)
  })

  it('puts every value where a naive model puts it', () => {
    const bounds = fc
      .uniqueArray(fc.integer({ min: -1000, max: 1000 }), { minLength: 1, maxLength: 20 })
      .map((list) => list.sort((a, b) => a - b))
    fc.assert(
      fc.property(bounds, fc.array(fc.integer({ min: -1100, max: 1100 })), (limits, values) => {
        const histogram = new Histogram(limits)
        for (const value of values) histogram.observe(value)
        const model = [...limits, Number.POSITIVE_INFINITY].map(
          (limit, index) =>
            values.filter((value) => value <= limit && (index === 0 || value > limits[index - 1])).length,
        )
        expect([...histogram.counts]).toEqual(model)
        expect(histogram.sum).toBe(values.reduce((sum, value) => sum + value, 0))
      }),
    )
  })

  it('refuses bounds that do not ascend', () => {
    expect(() => new Histogram([1, 1])).toThrow('ascend')
    expect(() => new Histogram([2, 1])).toThrow('ascend')
  })
})
